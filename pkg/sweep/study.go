package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Study is the assignment (see [NewStudy]) in its folder Dir: a sweep of the learning rate, and
// sweeps that wait for its best value.
type Study struct {
	Manifest sweepdir.Study
	Parts    []*Plan // as Manifest.Parts
	Dir      string

	ask     Assignment
	edition edition
	parts   []part        // as Parts
	rates   sweepdir.Axis // of the first part
}

// partDir is the folder of part i.
func (s *Study) partDir(i int) string { return filepath.Join(s.Dir, s.Manifest.Parts[i].Name) }

// Waits says whether comparisons are placeholders, until a learning rate is chosen.
func (s *Study) Waits() bool {
	i := s.firstShared()
	return i > 0 && len(s.Manifest.Parts[i].Set) == 0
}

// PartWaits says whether part i is a placeholder. The others need no rate of the first part.
func (s *Study) PartWaits(i int) bool { return i > 0 && s.Waits() && !s.tunes(s.parts[i]) }

// firstShared is the first part with the rate that the part lr chooses; 0 if each arm of each part has its own.
func (s *Study) firstShared() int {
	return 1 + slices.IndexFunc(s.parts[1:], func(p part) bool { return !s.tunes(p) })
}

// Argv is the command that made the study.
func (s *Study) Argv() []string { return s.ask.Options.Argv }

// Part locates the sweep of part i. Its siblings are those of the study, too: an earlier study has its runs.
func (s *Study) Part(i int) (*Located, error) {
	dir, plan := s.partDir(i), s.Parts[i]
	l, err := locate(dir, plan, slices.Concat(Siblings(dir, plan), Siblings(s.Dir, plan)))
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", s.Manifest.Parts[i].Name, err)
	}
	return l, nil
}

// Located returns all parts. Those that wait for the learning rate have no folder yet.
func (s *Study) Located() (out []*Located, err error) {
	for i := range s.Parts {
		l := &Located{Plan: s.Parts[i], Dir: s.partDir(i), Waits: true}
		if !s.PartWaits(i) {
			if l, err = s.Part(i); err != nil {
				return nil, err
			}
		}
		l.Prefix = s.Manifest.Parts[i].Name + "/"
		out = append(out, l)
	}
	return out, nil
}

// Copied marks the runs of each part that will be copied from an earlier part.
func (s *Study) Copied() (out [][]bool) {
	seen := map[string]bool{}
	for _, plan := range s.Parts {
		marks := make([]bool, len(plan.Manifest.Runs))
		for i, e := range plan.Manifest.Runs { // no two have the same hash
			marks[i], seen[e.Hash] = seen[e.Hash], true
		}
		out = append(out, marks)
	}
	return out
}

// About describes part i: its number, its name and its learning rates.
func (s *Study) About(i int) string {
	part := s.Manifest.Parts[i]
	text := fmt.Sprintf("part %d of %d: %s", i+1, len(s.Manifest.Parts), part.Name)
	rates := s.Parts[i].Manifest.Axes
	switch {
	case len(part.Set) > 0:
		return text + ", learning rate " + s.rates.Shown(part.Set[0].Value)
	case i > 0 && s.tunes(s.parts[i]):
		return text + ", each arm at " + textutil.Count(len(rates[0].Values), "learning rate")
	case i > 0:
		return text
	}
	var shown []string
	for _, rate := range rates[0].Values {
		shown = append(shown, s.rates.Shown(rate))
	}
	return text + ", learning rates " + strings.Join(shown, ", ")
}

// Prepare writes study.json into the study's folder, which is made, or finds the study there and
// adopts its learning rate. Another study in the folder, or something else, is a [config.ErrConfig].
func (s *Study) Prepare() error {
	found := false
	unlock, err := claim(s.Dir, rundir.KindStudy, func() (err error) {
		found, err = s.Find()
		return err
	})
	if err != nil {
		return err
	}
	defer unlock()
	if found {
		return nil
	}
	return sweepdir.WriteStudy(s.Dir, s.Manifest)
}

// Find adopts the learning rate and the runs of the study in the folder. If there is one, it must be
// this study. It writes nothing.
func (s *Study) Find() (bool, error) {
	old, err := sweepdir.ReadStudy(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, unreadable(err)
	case old.Hash != s.Manifest.Hash:
		return false, fmt.Errorf("%w: %s holds another study (%s); %s", config.ErrConfig, s.Dir,
			strings.Join(s.differences(old), "; "), elsewhereHint)
	}
	for _, part := range old.Parts {
		if _, err := part.Path(s.Dir); err != nil {
			return false, err
		}
	}
	// Whether the study was made with --fresh counts, not whether this command has it.
	if first, err := sweepdir.ReadManifest(s.partDir(0)); err == nil {
		s.ask.Options.Fresh = first.Fresh
		for _, part := range s.Parts {
			part.Manifest.Fresh = first.Fresh
		}
	}
	if err := s.adopt(old); err != nil {
		return false, err
	}
	for i := range s.Parts {
		if s.Parts[i], err = Find(s.partDir(i), s.Parts[i], nil); err != nil {
			return false, err
		}
	}
	return true, nil
}

// IsOfRelease reports whether a version made the study in dir that compared on the seeds of the choice without
// having a flag for it.
func IsOfRelease(dir string) bool {
	old, err := sweepdir.ReadStudy(dir)
	return err == nil && !slices.ContainsFunc(old.Asked, func(o sweepdir.Override) bool { return o.Key == "reuse-choice" })
}

// differences says how the study old in the folder differs from this one: in the flags, then in the
// keys of the first part's configurations.
func (s *Study) differences(old sweepdir.Study) []string {
	var out []string
	for _, o := range s.Manifest.Asked {
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
	if m, err := sweepdir.ReadManifest(s.partDir(0)); err == nil {
		out = append(out, runDifferences(m, s.Parts[0].Manifest)...)
	}
	if len(out) == 0 {
		out = []string{fmt.Sprintf("the runs of its parts: hash %s, now %s", old.Hash, s.Manifest.Hash)}
	}
	return atMost(out)
}

// ChooseRate plans the comparisons with the best rate of the first part, which best returns with the
// reason. A rate that was chosen before is kept, and without it nothing is chosen with --lr-per-arm.
func (s *Study) ChooseRate(best func() (rate, why string, err error), note func(string)) error {
	first := s.firstShared()
	if first == 0 {
		return nil // every arm has all rates
	}
	rate, why, err := best()
	if !s.Waits() {
		if had := s.Manifest.Parts[first].Set[0].Value; err == nil && had != rate {
			note(fmt.Sprintf("the comparisons were started with learning rate %s and keep it, "+
				"although %s now has %s (--fresh starts over in a new folder)", s.rates.Shown(had), s.rates.Shown(rate), why))
		}
		return nil
	}
	if err != nil {
		if hint := " (--lr-per-arm needs none)"; !s.ask.PerArm {
			err = fmt.Errorf("%w%s", err, hint)
		}
		return fmt.Errorf("part lr gives no learning rate to the other parts: %w", err)
	}
	if err := s.choose(rate, why); err != nil {
		return err
	}
	return s.settle()
}

// choose plans the comparisons with a rate; why ends the sentence "learning rate R: ...". Parts that tune each arm
// stay as they are.
func (s *Study) choose(rate, why string) error {
	for i := 1; i < len(s.Parts); i++ {
		if s.tunes(s.parts[i]) {
			continue
		}
		part := &s.Manifest.Parts[i]
		plan, err := s.comparison(s.parts[i], rate)
		if err != nil {
			return fmt.Errorf("part %s: %w", part.Name, err)
		}
		s.Parts[i] = plan
		part.Chosen = fmt.Sprintf("learning rate %s: %s", s.rates.Shown(rate), why)
		part.Set = []sweepdir.Override{{Key: analysis.RateKey, Value: rate}}
	}
	return nil
}

// adopt plans the comparisons with the rate of an existing study.
func (s *Study) adopt(old sweepdir.Study) error {
	for _, part := range old.Parts[1:] {
		for _, o := range part.Set {
			if o.Key == analysis.RateKey {
				_, why, _ := strings.Cut(part.Chosen, ": ")
				return s.choose(o.Value, why)
			}
		}
	}
	return nil
}

// settle writes the learning rate into the folder, unless another process has written its own: then
// the study adopts that one.
func (s *Study) settle() error {
	unlock, err := claim(s.Dir, rundir.KindStudy, nil)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := sweepdir.ReadStudy(s.Dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(old.Parts, func(p sweepdir.Part) bool { return len(p.Set) > 0 }) {
		return s.adopt(old)
	}
	return sweepdir.WriteStudy(s.Dir, s.Manifest)
}
