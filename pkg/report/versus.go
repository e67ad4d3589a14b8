package report

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Test is a test of two configurations against each other.
type Test struct {
	A analysis.Side `json:"a"`
	B analysis.Side `json:"b"`
	analysis.Versus
	Margin float64          `json:"margin"`
	AFinal analysis.Summary `json:"a_final"` // the final validation reward over the shared seeds
	BFinal analysis.Summary `json:"b_final"`
	// Comparison is a - b, as between the arms of a sweep.
	Comparison analysis.Comparison `json:"comparison"`
	Notes      []string            `json:"notes"` // what the numbers do not say
}

// noted are the findings that a reader of a test must know.
var noted = []analysis.Kind{
	analysis.Diverged, analysis.CollapseRate, analysis.Bimodal, analysis.AtCeiling, analysis.AtFloor,
	analysis.NotOnTest, analysis.FewProblems, analysis.UnequalSpread,
}

// NewTest compares two sides, see [analysis.Against].
func NewTest(a, b analysis.Side, margin float64) (*Test, error) {
	v, err := analysis.Against(a, b, margin)
	if err != nil {
		return nil, err
	}
	r := New(v.Analysis)
	t := &Test{A: a, B: b, Versus: *v, Margin: v.Analysis.Margin, Notes: []string{}}
	t.AFinal, t.BFinal = v.Analysis.Arms[0].Of(analysis.FinalMetric), v.Analysis.Arms[1].Of(analysis.FinalMetric)
	t.Comparison = *r.Find(analysis.FinalMetric.Name, 0, 1)
	t.Comparison.Text = asSentence(t.Comparison.Text)
	for _, f := range r.FindingsOf(noted...) {
		t.Notes = append(t.Notes, asSentence(r.sentence(f)))
	}
	isVersion := func(d analysis.Differing) bool { return d.Key == analysis.VersionKey }
	if note := analysis.VersionsNote(analysis.RunsOf(v.Analysis.Sweep.Runs)); note != "" &&
		!slices.ContainsFunc(v.Differing, isVersion) {
		t.Notes = append(t.Notes, note+".")
	}
	for i, side := range []analysis.Side{a, b} {
		if side.Added {
			t.Notes = append(t.Notes, fmt.Sprintf("Seeds were added to %s when there were results: a test that is repeated "+
				"until it finds something errs in more than 5%%.", side.Name))
		}
		if side.Looks {
			t.Notes = append(t.Notes, fmt.Sprintf("Planned looks at the results decided how many seeds %s has, and this "+
				"test does not share its level with them: it errs in more than 5%%.", side.Name))
		}
		fresh := side.Fresh()
		if len(fresh.Runs) < len(side.Runs) {
			t.Notes = append(t.Notes, fmt.Sprintf("Left out of %s: %s, on which points were chosen.", side.Name,
				analysis.SeedsText(side.Chosen)))
		}
		if left := len(fresh.Runs) - len(v.Analysis.Arms[i].Runs); left > 0 {
			note := fmt.Sprintf("Left out, for want of a pair: %s of %s.", textutil.Count(left, "run"), side.Name)
			t.Notes = append(t.Notes, note)
		}
	}
	return t, nil
}

// Write prints the test for people.
func (t *Test) Write(w io.Writer) error {
	a, b := analysis.Reward(t.AFinal), analysis.Reward(t.BFinal)
	if _, err := textutil.Fprintf(w, "%s: %s\n%s: %s\n\n", t.A.Name, a, t.B.Name, b); err != nil {
		return err
	}
	return t.WriteLines(w)
}

// WriteLines prints what the test found, without the rewards of the sides.
func (t *Test) WriteLines(w io.Writer) error {
	var keys []string
	for _, d := range t.Differing {
		keys = append(keys, d.String())
	}
	what := "They differ in " + listed(few(keys)) + "."
	if len(keys) == 0 {
		what = "They differ in nothing that runs record."
	}
	for _, line := range append([]string{t.Comparison.Text, what}, t.Notes...) {
		if _, err := textutil.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// OpenSide reads one side of a test: the folders of runs that differ in their seed alone, or one sweep.
// arm selects an arm of a sweep with several, by its name or label; flag is the flag for it.
func OpenSide(dirs []string, arm, flag string) (analysis.Side, error) {
	dirs = analysis.Distinct(dirs)
	s := analysis.Side{Folders: dirs, Name: textutil.Printable(filepath.ToSlash(dirs[0]), 0)}
	for _, dir := range dirs {
		switch {
		case sweepdir.IsStudy(dir):
			return s, config.Invalid(fmt.Errorf("%s has several sweeps: give the folder of one of its parts", dir))
		case sweepdir.IsSweep(dir) && len(dirs) > 1:
			return s, config.Invalid(fmt.Errorf("%s is the folder of a sweep: a side is one sweep, or folders of runs", dir))
		case sweepdir.IsSweep(dir):
			return s, openArm(&s, dir, arm, flag)
		}
		run, err := rundir.Open(dir)
		if err != nil {
			return s, config.Invalid(notAFolder(dir, err))
		}
		info, err := analysis.ReadInfo(run)
		switch {
		case err != nil:
			return s, err
		case info.Seed == nil:
			return s, config.Invalid(fmt.Errorf("%s does not have its seed, so it has no pair", dir))
		}
		s.Runs = append(s.Runs, sweepdir.StateOf(dir, sweepdir.Entry{Dir: ".", Seed: *info.Seed}))
	}
	if arm != "" {
		return s, config.Invalid(fmt.Errorf("%s %s: %s is not the folder of a sweep", flag, arm, dirs[0]))
	}
	if len(dirs) > 1 {
		s.Name += fmt.Sprintf(" and %d more", len(dirs)-1)
	}
	return s, nil
}

// openArm reads the runs of an arm.
func openArm(s *analysis.Side, dir, arm, flag string) error {
	sw, err := sweepdir.Open(dir)
	if err != nil {
		return err
	}
	var names []string
	at := -1
	for i, a := range sw.Manifest.Arms {
		shown := sw.Manifest.NameOf(i) // with the values as they were typed
		names = append(names, shown)
		if a.Name == arm || at < 0 && (shown == arm || a.Label == arm) || arm == "" && len(sw.Manifest.Arms) == 1 {
			at = i
		}
	}
	switch {
	case at < 0 && arm == "":
		return config.Invalid(fmt.Errorf("%s has %d arms: select one with %s (there are %s)", dir, len(names), flag,
			strings.Join(names, ", ")))
	case at < 0:
		return config.Invalid(fmt.Errorf("%s has no arm %q (there are %s)", dir, arm, strings.Join(names, ", ")))
	}
	// What the sweep does not train, or not before another look, is no run that is missing.
	s.Runs = slices.DeleteFunc(sw.OfArm(at), func(r sweepdir.RunState) bool {
		return !r.Finished() && sweepdir.LeftOut(r.State)
	})
	m := &sw.Manifest
	s.Added, s.Chosen = len(m.Added) > 0, m.Seeds[:min(m.ChosenOn(), len(m.Seeds))]
	s.Looks = len(m.Looks) > 1 && !(m.Looks[0].Choice && len(m.Looks) == 2) // more than one of them tests
	s.Arm = textutil.Printable(m.Arms[at].Name, 0)                          // the stored name, which runs of the sweep have too
	if len(names) > 1 {
		s.Name += ", " + textutil.Printable(sw.Manifest.LabelOf(at), 0)
	}
	return nil
}
