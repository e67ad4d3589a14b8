package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Located is a plan with the folder in which it is run.
type Located struct {
	*Plan
	Dir      string
	Siblings []string // sweeps from which finished runs are copied
	Added    []uint64 // seeds that the sweep in the folder does not have yet
}

// Locate finds the folder's sweep and its siblings. It fails as [Prepare] does and
// writes nothing.
func Locate(dir string, p *Plan) (*Located, error) {
	reuse := slices.DeleteFunc(slices.Clone(p.Reuse), func(from string) bool { return from == filepath.Clean(dir) })
	isNamed := func(from string) bool { return slices.Contains(reuse, from) }
	neighbours := slices.DeleteFunc(Siblings(dir, p), isNamed)
	out := &Located{Dir: dir, Siblings: slices.Concat(reuse, neighbours)}
	var err error
	if out.Plan, err = Find(dir, p, out.Siblings); err != nil {
		return nil, err
	}
	if out.Manifest.Fresh {
		out.Siblings = reuse
	}
	old, err := sweepdir.ReadManifest(dir)
	if seeds := out.Manifest.Seeds; err == nil && len(old.Seeds) <= len(seeds) {
		out.Added = seeds[len(old.Seeds):]
	}
	return out, nil
}

// Check refuses a sweep whose runs don't fit into the memory or on the disk.
func (p *Located) Check(opts Options) error {
	if err := checkMemory(p.Dir, p.Manifest, opts.Memory); err != nil {
		return err
	}
	return checkDisk(p.Dir, p.Manifest, opts.Jobs, opts.Disk)
}

// Run freezes the plan in its folder, or finds it there, and trains the missing
// runs. It returns the sweep even with an error, so that finished runs can be
// reported; nil if nothing could be started.
func (p *Located) Run(ctx context.Context, opts Options) (*sweepdir.Sweep, error) {
	if err := p.Check(opts); err != nil {
		return nil, err
	}
	if err := p.Prepare(opts.Observer.Note); err != nil {
		return nil, err
	}
	opts.Siblings = p.Siblings
	return Run(ctx, p.Dir, opts)
}

// StudyOptions are the options of every part of a study, with functions that are
// called for part i: Begin before its runs, with a line about it, and Report after
// them, even if runs failed. Best returns the best learning rate according to the
// report on part 0, and the reason.
type StudyOptions struct {
	Options
	Begin  func(i int, about string)
	Report func(i int, s *sweepdir.Sweep) error
	Best   func() (rate, why string, err error)
}

// Prepare writes study.json into dir, which is made, or finds the study there and
// adopts its learning rate. A run that does not fit into the memory is an error
// before anything is written; another study in the folder, or something else, is a
// [config.ErrConfig].
func (p *AssignmentPlan) Prepare(dir string, memory int64) error {
	if err := p.checkMemory(dir, memory); err != nil {
		return err
	}
	found := false
	unlock, err := claim(dir, rundir.KindStudy, func() (err error) {
		found, err = p.find(dir)
		return err
	})
	if err != nil {
		return err
	}
	defer unlock()
	if found {
		return nil
	}
	return sweepdir.WriteStudy(dir, p.Study)
}

// find adopts the learning rate and the runs of the study in dir. If there is one,
// it must be the plan's.
func (p *AssignmentPlan) find(dir string) (bool, error) {
	old, err := sweepdir.ReadStudy(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, unreadable(err)
	case old.Hash != p.Study.Hash:
		return false, fmt.Errorf("%w: %s holds another study (%s); %s", config.ErrConfig, dir,
			strings.Join(p.differences(dir, old), "; "), elsewhereHint)
	}
	for _, part := range old.Parts {
		if _, err := part.Path(dir); err != nil {
			return false, err
		}
	}
	// Whether the study was made with --fresh counts, not whether this command has it.
	if first, err := sweepdir.ReadManifest(filepath.Join(dir, old.Parts[0].Name)); err == nil {
		p.ask.Options.Fresh = first.Fresh
		for _, part := range p.Parts {
			part.Manifest.Fresh = first.Fresh
		}
	}
	if err := p.adopt(old); err != nil {
		return false, err
	}
	for i, part := range old.Parts {
		if p.Parts[i], err = Find(filepath.Join(dir, part.Name), p.Parts[i], nil); err != nil {
			return false, err
		}
	}
	return true, nil
}

// differences says how the study old in dir differs from the plan: in the flags,
// then in the keys of the first part's configurations.
func (p *AssignmentPlan) differences(dir string, old sweepdir.Study) []string {
	var out []string
	for _, o := range p.Study.Asked {
		i := slices.IndexFunc(old.Asked, func(was sweepdir.Override) bool { return was.Key == o.Key })
		if i < 0 && o.Value == "false" {
			continue // a flag that the study's version did not have
		}
		if i < 0 {
			out = append(out, o.Key+": "+o.Value)
		} else if was := old.Asked[i].Value; was != o.Value {
			out = append(out, fmt.Sprintf("%s: %s, now %s", o.Key, was, o.Value))
		}
	}
	if m, err := sweepdir.ReadManifest(filepath.Join(dir, old.Parts[0].Name)); err == nil {
		out = append(out, runDifferences(m, p.Parts[0].Manifest)...)
	}
	if len(out) == 0 {
		out = []string{fmt.Sprintf("the runs of its parts: hash %s, now %s", old.Hash, p.Study.Hash)}
	}
	return atMost(out)
}

// settle writes the plan's learning rate into the study in dir, unless another
// process has written its own: then the plan adopts that one.
func (p *AssignmentPlan) settle(dir string) error {
	unlock, err := claim(dir, rundir.KindStudy, nil)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := sweepdir.ReadStudy(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(old.Parts, func(p sweepdir.Part) bool { return len(p.Set) > 0 }) {
		return p.adopt(old)
	}
	return sweepdir.WriteStudy(dir, p.Study)
}

func (p *AssignmentPlan) checkMemory(dir string, memory int64) error {
	for i, part := range p.Parts {
		if err := checkMemory(filepath.Join(dir, p.Study.Parts[i].Name), part.Manifest, memory); err != nil {
			return err
		}
	}
	return nil
}

// Run runs the parts of the prepared study in dir in order. Failed runs of one part
// don't stop the others, unless these need its results. stopped means that the study
// was interrupted, or that a part could not start: there is nothing to report.
func (p *AssignmentPlan) Run(ctx context.Context, dir string, opts StudyOptions) (stopped bool, err error) {
	var errs []error
	for i, part := range p.Study.Parts {
		at := fmt.Sprintf("part %d of %d, %s", i+1, len(p.Study.Parts), part.Name)
		if ctx.Err() != nil {
			return true, fmt.Errorf("%w before %s; the same command continues", train.ErrInterrupted, at)
		}
		if i == 1 {
			if err := p.chooseBest(dir, opts); err != nil {
				return false, errors.Join(append(errs, err)...)
			}
		}
		opts.Begin(i, p.about(i))
		var sw *sweepdir.Sweep
		located, err := Locate(filepath.Join(dir, part.Name), p.Parts[i])
		if err == nil {
			sw, err = located.Run(ctx, opts.Options)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", at, err)
		}
		if sw == nil || errors.Is(err, train.ErrInterrupted) {
			return true, err
		}
		if rerr := opts.Report(i, sw); rerr != nil {
			return false, errors.Join(append(errs, err, rerr)...)
		}
		opts.StudySweeps = append(opts.StudySweeps, located.Dir)
		if err != nil {
			errs = append(errs, err)
			var early *EarlyDeathsError
			if opts.FailFast || errors.As(err, &early) {
				break
			}
		}
	}
	return false, errors.Join(errs...)
}

// about describes part i.
func (p *AssignmentPlan) about(i int) string {
	part := p.Study.Parts[i]
	text := fmt.Sprintf("part %d of %d: %s", i+1, len(p.Study.Parts), part.Name)
	rates := p.Parts[i].Manifest.Axes
	switch {
	case len(part.Set) > 0:
		return text + ", learning rate " + p.shownRate(part.Set[0].Value)
	case i > 0:
		return text + ", each arm at " + textutil.Count(len(rates[0].Values), "learning rate")
	}
	var shown []string
	for _, rate := range rates[0].Values {
		shown = append(shown, p.shownRate(rate))
	}
	return text + ", learning rates " + strings.Join(shown, ", ")
}

// chooseBest plans the comparisons with the best rate of the first part. A rate that
// was chosen before is kept.
func (p *AssignmentPlan) chooseBest(dir string, opts StudyOptions) error {
	if p.ask.PerArm {
		return nil // every arm has all rates
	}
	rate, why, err := opts.Best()
	if !p.waits() {
		if had := p.Study.Parts[1].Set[0].Value; err == nil && had != rate {
			opts.Observer.Note(fmt.Sprintf("the comparisons were started with learning rate %s and keep it, "+
				"although %s now has %s (--fresh starts over in a new folder)", p.shownRate(had), p.shownRate(rate), why))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("part lr gives no learning rate to the other parts: %w (--lr-per-arm needs none)", err)
	}
	if err := p.choose(rate, why); err != nil {
		return err
	}
	return p.settle(dir)
}
