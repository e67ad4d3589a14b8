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
	Dir string
	// Siblings are the sweeps from which finished runs are copied.
	Siblings []string
	// Added are the plan's seeds that the sweep in the folder lacks.
	Added []uint64
}

// Locate finds the folder's sweep and its siblings. It fails as [Prepare] does and
// writes nothing.
func Locate(dir string, p *Plan) (*Located, error) {
	out := &Located{Dir: dir, Siblings: Siblings(dir, p)}
	var err error
	if out.Plan, err = Find(dir, p, out.Siblings); err != nil {
		return nil, err
	}
	if out.Manifest.Fresh {
		out.Siblings = nil
	}
	old, err := sweepdir.ReadManifest(dir)
	if seeds := out.Manifest.Seeds; err == nil && len(old.Seeds) <= len(seeds) {
		out.Added = seeds[len(old.Seeds):]
	}
	return out, nil
}

// Run freezes the plan in its folder, or finds it there, and trains the missing
// runs. The sweep is returned in its current state even with an error, so that
// finished runs can be reported; it is nil if nothing could be started.
func (p *Located) Run(ctx context.Context, opts Options) (*sweepdir.Sweep, error) {
	if err := checkMemory(p.Dir, p.Manifest, opts.Memory); err != nil {
		return nil, err
	}
	if err := Prepare(p.Dir, p.Plan); err != nil {
		return nil, err
	}
	opts.Siblings = p.Siblings
	return Run(ctx, p.Dir, opts)
}

// StudyOptions are those of every part of a study, and what the caller does with
// the parts.
type StudyOptions struct {
	Options
	// Begin is called before the runs of part i, with a line about it. Events that
	// follow are the part's.
	Begin func(i int, about string)
	// Report reports a part that has been run, even if runs failed.
	Report func(i int, s *sweepdir.Sweep) error
	// Best returns the best learning rate according to the report on part 0, and
	// why it is the best.
	Best func() (rate, why string, err error)
}

// Prepare writes the study's folder, or finds the study there, whose choice of a
// learning rate the plan takes over. A run that does not fit into the memory is an
// error before anything is written.
func (p *AssignmentPlan) Prepare(dir string, memory int64) error {
	if err := p.checkMemory(dir, memory); err != nil {
		return err
	}
	st, err := PrepareStudy(dir, p.Study, p.Parts[0])
	if err != nil {
		return err
	}
	return p.Adopt(st)
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
// don't stop the others, unless these need its results. stopped says that the study
// ended early and is not to be reported: it was interrupted, or a part could not
// begin.
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
		located, err := p.locate(dir, i)
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

// locate is [Locate] for part i of the study in dir.
func (p *AssignmentPlan) locate(dir string, i int) (*Located, error) {
	part := &Located{Dir: filepath.Join(dir, p.Study.Parts[i].Name), Siblings: p.siblings(dir, i)}
	var err error
	part.Plan, err = Find(part.Dir, p.Parts[i], part.Siblings)
	return part, err
}

// siblings are the sweeps outside the study in dir whose finished runs part i can
// copy; there are none for a study that was made with --fresh.
func (p *AssignmentPlan) siblings(dir string, i int) []string {
	fresh := p.Parts[i].Manifest.Fresh
	if first, err := sweepdir.ReadManifest(filepath.Join(dir, p.Study.Parts[0].Name)); err == nil {
		fresh = first.Fresh
	}
	if fresh {
		return nil
	}
	return Siblings(dir, p.Parts[i])
}

// about describes part i.
func (p *AssignmentPlan) about(i int) string {
	part := p.Study.Parts[i]
	text := fmt.Sprintf("part %d of %d: %s", i+1, len(p.Study.Parts), part.Name)
	rates := p.Parts[i].Manifest.Axes
	switch {
	case len(part.Set) > 0:
		return text + ", learning rate " + part.Set[0].Value
	case i > 0:
		return text + ", each arm at " + textutil.Count(len(rates[0].Values), "learning rate")
	}
	return text + ", learning rates " + strings.Join(rates[0].Values, ", ")
}

// chooseBest plans the comparisons with the best rate of the first part. A choice
// that was made before is kept, whatever the first part says now.
func (p *AssignmentPlan) chooseBest(dir string, opts StudyOptions) error {
	if p.ask.PerArm {
		return nil // every arm has all rates
	}
	rate, why, err := opts.Best()
	if !p.Waits() {
		if had := p.Study.Parts[1].Set[0].Value; err == nil && had != rate {
			opts.Observer.Note(fmt.Sprintf("the comparisons were started with learning rate %s and keep it, although %s now has %s "+
				"(--fresh starts over in a new folder)", had, rate, why))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("part lr gives no learning rate to the other parts: %w (--lr-per-arm needs none)", err)
	}
	if err := p.Choose(rate, why); err != nil {
		return err
	}
	st, err := settle(dir, p.Study)
	if err != nil {
		return err
	}
	return p.Adopt(st)
}

// PrepareStudy writes study.json into dir, which is made, and returns the study
// in dir: with the choices of an earlier call, if there was one. The plan of the
// first part is only read, for the message that refuses another request
// ([config.ErrConfig]); a folder that holds something else is refused too.
func PrepareStudy(dir string, st sweepdir.Study, first *Plan) (sweepdir.Study, error) {
	var old *sweepdir.Study
	unlock, err := claim(dir, rundir.KindStudy, func() (err error) {
		old, err = findStudy(dir, st, first)
		return err
	})
	if err != nil {
		return st, err
	}
	defer unlock()
	if old != nil {
		return *old, nil
	}
	return st, sweepdir.WriteStudy(dir, st)
}

// findStudy returns the study in dir, nil if there is none, and refuses another
// than st, as [PrepareStudy] does. It writes nothing.
func findStudy(dir string, st sweepdir.Study, first *Plan) (*sweepdir.Study, error) {
	old, err := sweepdir.ReadStudy(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(err)
	case old.Hash != st.Hash:
		return nil, fmt.Errorf("%w: %s holds another study (%s); %s", config.ErrConfig, dir,
			strings.Join(studyDifferences(dir, old, st, first), "; "), elsewhereHint)
	}
	for _, p := range old.Parts {
		if _, err := p.Path(dir); err != nil {
			return nil, err
		}
	}
	return &old, nil
}

// studyDifferences says how two studies differ: in the flags, then in the keys of
// the first part's configurations.
func studyDifferences(dir string, old, now sweepdir.Study, first *Plan) []string {
	var out []string
	for _, o := range now.Asked {
		i := slices.IndexFunc(old.Asked, func(x sweepdir.Override) bool { return x.Key == o.Key })
		switch {
		case i < 0:
			out = append(out, fmt.Sprintf("%s: %s", o.Key, o.Value))
		case old.Asked[i].Value != o.Value:
			out = append(out, fmt.Sprintf("%s: %s, now %s", o.Key, old.Asked[i].Value, o.Value))
		}
	}
	if m, err := sweepdir.ReadManifest(filepath.Join(dir, old.Parts[0].Name)); err == nil {
		out = append(out, runDifferences(m, first.Manifest)...)
	}
	if len(out) == 0 {
		out = []string{fmt.Sprintf("the runs of its parts: hash %s, now %s", old.Hash, now.Hash)}
	}
	return atMost(out)
}

// settle writes the choices of a study, unless another process has written its own
// before, and returns the study in dir: the second process follows the first.
func settle(dir string, st sweepdir.Study) (sweepdir.Study, error) {
	unlock, err := claim(dir, rundir.KindStudy, nil)
	if err != nil {
		return st, err
	}
	defer unlock()
	old, err := sweepdir.ReadStudy(dir)
	if err != nil {
		return st, err
	}
	if slices.ContainsFunc(old.Parts, func(p sweepdir.Part) bool { return len(p.Set) > 0 }) {
		return old, nil
	}
	return st, sweepdir.WriteStudy(dir, st)
}
