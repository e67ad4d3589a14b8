package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// assignmentRun is the assignment at work.
type assignmentRun struct {
	*assignmentOptions
	table    *sweepTable
	analyses []*report.Report // nil for a part that has not started
	files    []string
}

// runAssignment does what is missing of the study, part after part, and reports.
func runAssignment(ctx context.Context, o *assignmentOptions) error {
	if o.dryRun {
		return dryAssignment(ctx, o)
	}
	if err := o.checkMemory(); err != nil {
		return err
	}
	st, err := sweep.PrepareStudy(o.dir, o.plan.Study, o.plan.Parts[0])
	if err != nil {
		return err
	}
	if err := o.plan.Adopt(st); err != nil {
		return err
	}
	r := &assignmentRun{assignmentOptions: o, analyses: make([]*report.Report, len(st.Parts))}
	jobs := o.flags.jobs
	if cores := runtime.GOMAXPROCS(0); jobs <= 0 || jobs > cores {
		jobs = cores
	}
	r.table = newStudyTable(o.state, o.quiet, jobs)
	for i, copied := range o.plan.Copied() {
		r.table.add(o.plan.Parts[i].Manifest, copied)
	}
	r.table.line("study folder %s", o.dir)
	err = r.parts(ctx)
	var stop *stopError
	if errors.As(err, &stop) && !errors.Is(err, train.ErrInterrupted) {
		r.table.erase()
		return stop.error
	}
	r.table.done()
	if stop != nil {
		return stop.error
	}
	if rerr := r.report(); rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}

// siblings are the sweeps outside the study whose finished runs part i can copy;
// there are none for a study that was made with --fresh.
func (o *assignmentOptions) siblings(i int) []string {
	plan := o.plan.Parts[i]
	fresh := plan.Manifest.Fresh
	if first, err := sweepdir.ReadManifest(filepath.Join(o.dir, o.plan.Study.Parts[0].Name)); err == nil {
		fresh = first.Fresh
	}
	if fresh {
		return nil
	}
	return sweep.Siblings(o.dir, plan)
}

// checkMemory is [sweep.CheckMemory] of all parts.
func (o *assignmentOptions) checkMemory() error {
	for i, part := range o.plan.Parts {
		if err := sweep.CheckMemory(filepath.Join(o.dir, o.plan.Study.Parts[i].Name), part.Manifest, o.state.available()); err != nil {
			return err
		}
	}
	return nil
}

// stopError ends the study without a report: it was interrupted, or a part could
// not even begin.
type stopError struct{ error }

// parts does the parts in order. A part with failed runs does not keep the
// others from their turn, unless they need what it lacks.
func (r *assignmentRun) parts(ctx context.Context) error {
	var errs []error
	var done []string // folders of the parts before
	for i, part := range r.plan.Study.Parts {
		at := fmt.Sprintf("part %d of %d, %s", i+1, len(r.plan.Study.Parts), part.Name)
		if ctx.Err() != nil {
			return &stopError{fmt.Errorf("%w before %s; the same command continues", train.ErrInterrupted, at)}
		}
		if i == 1 {
			if err := r.choose(); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		dir := filepath.Join(r.dir, part.Name)
		r.table.begin(i, r.head(i))
		siblings := r.siblings(i)
		var sw *sweepdir.Sweep
		plan, err := sweep.Find(dir, r.plan.Parts[i], siblings)
		if err == nil {
			sw, err = runSweep(ctx, r.state, dir, plan, r.flags, r.table, done, siblings)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", at, err)
		}
		if sw == nil || errors.Is(err, train.ErrInterrupted) {
			return &stopError{err}
		}
		a, files, rerr := report.WriteSweep(dir, sw, report.SweepOptions{})
		r.files = append(r.files, files...)
		if rerr != nil {
			return errors.Join(append(errs, err, rerr)...)
		}
		r.analyses[i] = a
		done = append(done, dir)
		if err != nil {
			errs = append(errs, err)
			var early *sweep.EarlyDeathsError
			if r.flags.failFast || errors.As(err, &early) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// choose takes the best rate of the first part over into the others. A choice
// that was made before is kept, whatever the first part says now.
func (r *assignmentRun) choose() error {
	p := r.plan
	waits := p.Waits()
	if !waits && len(p.Study.Parts[1].Set) == 0 {
		return nil // every arm has all rates
	}
	rate, why, err := r.analyses[0].BestValue(sweep.RateKey)
	if !waits {
		if had := p.Study.Parts[1].Set[0].Value; err == nil && had != rate {
			r.table.Note(fmt.Sprintf("the comparisons were started with learning rate %s and keep it, although %s now has %s (--fresh starts over in a new folder)", had, rate, why))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("part lr gives no learning rate to the other parts: %w (--lr-per-arm needs none)", err)
	}
	if err := p.Choose(rate, why); err != nil {
		return err
	}
	st, err := sweep.Settle(r.dir, p.Study)
	if err != nil {
		return err
	}
	return p.Adopt(st)
}

// head is the line above the runs of a part.
func (r *assignmentRun) head(i int) string {
	part := r.plan.Study.Parts[i]
	text := fmt.Sprintf("part %d of %d: %s", i+1, len(r.plan.Study.Parts), part.Name)
	m := r.plan.Parts[i].Manifest
	switch {
	case len(part.Set) > 0:
		text += ", learning rate " + part.Set[0].Value
	case i > 0:
		text += ", each arm at " + textutil.Count(len(m.Axes[0].Values), "learning rate")
	default:
		text += ", learning rates " + strings.Join(m.Axes[0].Values, ", ")
	}
	return text
}

// report writes the study's report over those of its parts, and shows it.
func (r *assignmentRun) report() error {
	st, err := sweepdir.ReadStudy(r.dir)
	if err != nil {
		return err
	}
	files, err := report.WriteStudy(r.dir, st, r.analyses)
	if err != nil {
		return err
	}
	r.files = append(r.files, files...)
	if r.json {
		results, err := report.ReadStudyResults(r.dir)
		if err != nil {
			return err
		}
		return printJSON(r.state.Out, struct {
			Dir     string              `json:"dir"`
			Files   []string            `json:"files"`
			Results report.StudyResults `json:"results"`
		}{r.dir, r.files, results})
	}
	if err := report.WriteStudySummary(r.state.Out, st, r.analyses); err != nil {
		return err
	}
	if !r.quiet {
		for _, f := range files { // those of the parts are in their own folders
			textutil.Fprintf(r.state.Err, "wrote %s\n", filepath.ToSlash(f))
		}
	}
	return nil
}
