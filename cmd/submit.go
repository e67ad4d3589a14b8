package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// submission is what a command with --launcher slurm prints with --json.
type submission struct {
	Dir      string   `json:"dir"`
	Jobs     []string `json:"jobs"`   // new arrays
	Report   string   `json:"report"` // the job that reports, or continues a study
	Runs     int      `json:"submitted"`
	Finished int      `json:"finished"`
	Busy     int      `json:"queued_or_running"` // before
	Failed   int      `json:"failed"`            // not submitted
	stages   bool     // a job submits more runs later
}

func (v *submission) add(p *sweep.Submitted) {
	v.Jobs = append(v.Jobs, p.Jobs...)
	v.Runs, v.Finished, v.Busy, v.Failed = v.Runs+p.Runs, v.Finished+p.Finished, v.Busy+p.Busy, v.Failed+p.Failed
	if p.Report != "" {
		v.Report = p.Report
	}
}

// print says what was submitted, and what to type next.
func (v *submission) print(s *State, asJSON bool) error {
	if asJSON {
		v.Jobs = append([]string{}, v.Jobs...)
		return printJSON(s.Out, v)
	}
	text := "nothing to submit"
	if v.Runs > 0 {
		text = fmt.Sprintf("submitted %s as job %s", textutil.Count(v.Runs, "run"), strings.Join(v.Jobs, ", "))
	}
	for _, c := range []struct {
		n    int
		what string
	}{{v.Finished, "finished"}, {v.Busy, "already queued or running"}, {v.Failed, "failed"}} {
		if c.n > 0 {
			text += fmt.Sprintf("; %d %s", c.n, c.what)
		}
	}
	switch {
	case v.Report != "" && v.stages:
		text += fmt.Sprintf("; job %s submits the next runs after these", v.Report)
	case v.Report != "":
		text += fmt.Sprintf("; job %s reports after them", v.Report)
	}
	dir := textutil.CommandLine([]string{v.Dir})
	text += fmt.Sprintf(`
grpo status %[1]s     progress of each run
grpo report %[1]s     tables and figures, finished or not
grpo cancel %[1]s     cancel the jobs
squeue --me%[2]s     all your jobs
`, dir, strings.Repeat(" ", len(dir)+1))
	_, err := io.WriteString(s.Out, textutil.Text(text))
	return err
}

// noteTo returns a function that prints notes on standard error.
func noteTo(s *State) func(string) {
	return func(text string) { textutil.Fprintf(s.Err, "note: %s\n", text) }
}

// submitSweep submits the runs that are missing, and with --wait follows them.
func submitSweep(ctx context.Context, s *State, o *sweepOptions, l *sweep.Located) error {
	opts, err := o.submitOptions(s, noteTo(s))
	if err != nil {
		return err
	}
	if !o.out.quiet {
		textutil.Fprintf(s.Err, "sweep folder %s\n", l.Dir)
		if len(l.Added) > 0 {
			opts.Note(addedLine(l.Added))
		}
	}
	sub, err := l.Submit(ctx, opts)
	v := submission{Dir: l.Dir}
	if sub != nil {
		v.add(sub)
	}
	switch {
	case err != nil && v.Runs > 0:
		return errors.Join(err, v.print(s, o.out.json))
	case err != nil:
		return err
	case v.Runs+v.Busy == 0:
		sw, err := sweepdir.Open(l.Dir)
		if err != nil {
			return err
		}
		return o.finish(s, sw, noResult(sw))
	case !o.launcher.wait:
		return v.print(s, o.out.json)
	case !o.out.quiet && v.Runs > 0:
		textutil.Fprintf(s.Err, "submitted %s as job %s\n", textutil.Count(v.Runs, "run"), strings.Join(v.Jobs, ", "))
	}
	t := newSweepTable(s, o.out.quiet, l.Manifest, 0)
	sw, err := sweep.Wait(ctx, l.Dir, sweep.WaitOptions{Exec: slurm.Commands, Observer: t, Now: s.Now})
	if sw == nil {
		t.erase()
		return err
	}
	t.done()
	return o.finish(s, sw, err)
}

// noResult is the error of a sweep with runs that have no result and are not submitted: their
// configuration is not valid, or they failed.
func noResult(sweeps ...*sweepdir.Sweep) error {
	n := 0
	for _, sw := range sweeps {
		n += sw.Unfinished()
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s failed (grpo status shows why)", textutil.Count(n, "run"))
}

// noResults is [noResult] of a study.
func noResults(dir string) error {
	_, sweeps, err := sweepdir.OpenStudy(dir)
	if err != nil {
		return err
	}
	return noResult(slices.DeleteFunc(sweeps, func(sw *sweepdir.Sweep) bool { return sw == nil })...)
}

// previewSubmission prints the jobs that would be submitted, as commands for a shell.
func previewSubmission(ctx context.Context, s *State, f *sweepFlags, l *sweep.Located) error {
	opts, err := f.submitOptions(s, noteTo(s))
	if err != nil {
		return err
	}
	scripts, err := l.Scripts(ctx, opts)
	if err != nil {
		return err
	}
	if len(scripts) == 0 {
		_, err := textutil.Fprintf(s.Out, "nothing to submit: every run of %s is finished, queued or running\n", l.Dir)
		return err
	}
	for _, script := range scripts {
		if _, err := io.WriteString(s.Out, textutil.Text(script.CommandLine())); err != nil {
			return err
		}
	}
	return nil
}

// previewFirstJobs prints the jobs of the first part of a study. Those of the others are of the same
// form; which runs they have depends on the first.
func previewFirstJobs(ctx context.Context, s *State, f *sweepFlags, plan *sweep.AssignmentPlan, dir string) error {
	name := plan.Study.Parts[0].Name
	first, err := sweep.Locate(filepath.Join(dir, name), plan.Parts[0])
	if err != nil {
		return err
	}
	textutil.Fprintf(s.Out, "\njobs of part %s:\n", name)
	return previewSubmission(ctx, s, f, first)
}

// submitAssignment submits the runs of the study that can be submitted now, and a job that continues
// or reports.
func submitAssignment(
	ctx context.Context, s *State, o *assignmentOptions, plan *sweep.AssignmentPlan, dir string,
) error {
	opts, err := o.submitOptions(s, noteTo(s))
	if err != nil {
		return err
	}
	if err := plan.Prepare(dir, 0); err != nil {
		return err
	}
	opts.Untried = o.continued
	reports := studyReports{analyses: make([]*report.Report, len(plan.Parts))}
	study := sweep.StudySubmitOptions{
		SubmitOptions: opts, Report: reports.write, Best: reports.best, Again: []string{"--continued"},
	}
	if job := sweep.SlurmJobOf(s.Env); job != nil {
		study.Self = job.ID
	}
	if !o.out.quiet {
		textutil.Fprintf(s.Err, "study folder %s\n", dir)
	}
	sub, err := plan.Submit(ctx, dir, study)
	v := submission{Dir: dir}
	if sub != nil {
		for _, p := range sub.Parts {
			v.add(p)
		}
		v.Report, v.stages = sub.Follow, sub.Stages
	}
	switch {
	case err != nil && v.Runs > 0:
		return errors.Join(err, v.print(s, o.out.json))
	case err != nil:
		return err
	case sub.InFlight() == 0:
		r, _, err := report.WriteStudyFolder(dir, dir, report.Output{})
		if err != nil {
			return err
		}
		return errors.Join(noResults(dir), o.gate.showStudy(s, o.out.json, r, dir))
	case !o.launcher.wait:
		return v.print(s, o.out.json)
	}
	t := assignmentTable(s, o.out.quiet, 0, plan)
	errs, err := plan.WaitStudy(ctx, dir,
		sweep.WaitOptions{Exec: slurm.Commands, Observer: t, Now: s.Now}, t.begin, reports.write)
	t.done()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, reports.finish(s, &o.sweepFlags, dir))...)
}
