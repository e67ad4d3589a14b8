package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func newAssignment(t *testing.T, ask Assignment) *Study {
	t.Helper()
	p, err := NewStudy(ask)
	expect.OK(t, err)
	return p
}

// armNames are the arms of a part.
func armNames(p *Plan) []string {
	var out []string
	for _, a := range p.Manifest.Arms {
		out = append(out, a.Name)
	}
	return out
}

func count(marks []bool) int {
	n := 0
	for _, m := range marks {
		if m {
			n++
		}
	}
	return n
}

func TestAssignment(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{})
	expect.OK(t, p.Manifest.Check())
	var names []string
	runs := 0
	for i, part := range p.Manifest.Parts {
		names = append(names, part.Name)
		runs += len(p.Parts[i].Manifest.Runs)
		if !strings.HasSuffix(part.Question, "?") {
			t.Errorf("part %s asks %q", part.Name, part.Question)
		}
	}
	if got := strings.Join(names, " "); got != "lr baseline lengthnorm stdnorm" || runs != 40 {
		t.Errorf("parts %s with %d runs, want 40", got, runs)
	}
	if got := armNames(p.Parts[0]); !slices.Equal(got, []string{"lr=0.0001", "lr=0.0003", "lr=0.001", "lr=0.01"}) {
		t.Errorf("rates %v", got)
	}
	if !p.Waits() {
		t.Error("it does not wait for the rate")
	}
	hash := p.Manifest.Hash
	expect.OK(t, p.choose("0.0003", "the best"))
	if p.Waits() || p.Manifest.Hash != hash {
		t.Errorf("after the choice: waits %v, hash %s, was %s", p.Waits(), p.Manifest.Hash, hash)
	}
	if c := p.Manifest.Parts[2].Chosen; c != "learning rate 3e-4: the best" || p.Manifest.Parts[0].Chosen != "" {
		t.Errorf("chosen %q and %q", p.Manifest.Parts[0].Chosen, c)
	}
	for _, plan := range p.Parts[1:] {
		for _, e := range plan.Manifest.Runs {
			if cfg, err := frozen(e); err != nil || cfg.Train.LearningRate != 3e-4 {
				t.Errorf("%s: run %d at %v, %v", plan.Manifest.Name, e.Index, cfg.Train.LearningRate, err)
			}
		}
		if note := plan.Manifest.Notes[len(plan.Manifest.Notes)-1]; !strings.Contains(note, "3e-4, was chosen by validation reward in part lr, with the arm") {
			t.Errorf("%s: note %q", plan.Manifest.Name, note)
		}
	}
	// The comparisons have fresh seeds, and one arm of each is that of the first one.
	want := map[string]string{"lengthnorm": "masked_mean", "stdnorm": "use_std_normalization=true"}
	if got := p.Parts[2].Manifest.Seeds; !slices.Equal(got, []uint64{5, 6, 7, 8}) {
		t.Errorf("seeds %v", got)
	}
	for i, marks := range p.Copied() {
		m := p.Parts[i].Manifest
		for k, copied := range marks {
			if arm := m.Arms[m.Runs[k].Arm].Name; copied != (want[m.Name] == arm) {
				t.Errorf("%s: copied %v for arm %s, seed %d", m.Name, copied, arm, m.Runs[k].Seed)
			}
		}
	}
}

// With --reuse-choice the comparisons have the seeds of the choice, and one arm of each is the first part's at that rate.
func TestReuseChoice(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Options: PlanOptions{ReuseChoice: true}})
	expect.OK(t, p.choose("0.0003", "the best"))
	for _, marks := range p.Copied()[1:] {
		if n := count(marks); n != 4 {
			t.Errorf("%d runs are copied", n)
		}
	}
	if notes := strings.Join(p.Parts[1].Manifest.Notes, " "); !strings.Contains(notes, "biased in their favor") {
		t.Errorf("notes %s", notes)
	}
}

// The file of a part does not promise looks that it can't have, at fresh seeds.
func TestRequestOfLooksAtFreshSeeds(t *testing.T) {
	seeds, looks, _, err := ParseLooks("2..4")
	expect.OK(t, err)
	p := newAssignment(t, Assignment{Options: PlanOptions{Seeds: seeds, Looks: looks}})
	for i, want := range []string{"repeat with: grpo ablate this-file\n", "without the looks"} {
		if text := string(p.Parts[i].Request); !strings.Contains(text, want) {
			t.Errorf("part %d lacks %q:\n%s", i, want, text)
		}
	}
}

// TestAssignmentPerArm: every comparison is crossed with the rates, and no
// caveat is about a shared one.
func TestAssignmentPerArm(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Rates: []string{"1e-3", "3e-3"}, PerArm: true, Options: PlanOptions{Seeds: []uint64{1, 2}}})
	if p.Waits() {
		t.Error("it waits for a rate")
	}
	m := p.Parts[1].Manifest
	if got := armNames(p.Parts[1]); !slices.Equal(got, []string{"no_baseline,lr=0.001", "no_baseline,lr=0.003", "reinforce_with_baseline,lr=0.001", "reinforce_with_baseline,lr=0.003"}) {
		t.Errorf("arms %v", got)
	}
	if m.BestOver != analysis.RateKey || m.Reference != "no_baseline,lr=0.001" {
		t.Errorf("best over %q, reference %q", m.BestOver, m.Reference)
	}
	for _, plan := range p.Parts {
		for _, n := range plan.Manifest.Notes {
			if strings.Contains(n, "one learning rate") || strings.Contains(n, "was chosen") {
				t.Errorf("%s: note %q", plan.Manifest.Name, n)
			}
		}
	}
	if got := []int{count(p.Copied()[0]), count(p.Copied()[1]), count(p.Copied()[2]), count(p.Copied()[3])}; !slices.Equal(got, []int{0, 4, 8, 8}) {
		t.Errorf("copied %v, want all of one arm in each comparison", got)
	}
	// What the folder keeps of the request repeats the part, tuning included.
	req, err := ParseRequest("sweep.yaml", p.Parts[1].Request)
	expect.OK(t, err)
	again, err := NewPlan(req, PlanOptions{})
	if err != nil || again.Manifest.Hash != m.Hash || again.Manifest.BestOver != m.BestOver {
		t.Errorf("again: %v, %+v", err, again)
	}
}

// TestAssignmentOfAnotherSetting: with a loss that no arm of the comparison has,
// nothing can be copied as the caveat says.
func TestAssignmentOfAnotherSetting(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Rates: []string{"1e-3"}, Options: PlanOptions{Env: []string{"GRPO_ALGORITHM_LOSS_TYPE=grpo_clip"}, Seeds: []uint64{1}}})
	if n := count(p.Copied()[1]); n != 0 {
		t.Errorf("%d runs of baseline would be copied", n)
	}
	if note := strings.Join(p.Parts[1].Manifest.Notes, " "); !strings.Contains(note, "none of these arms") {
		t.Errorf("notes %s", note)
	}
}

func TestAssignmentErrors(t *testing.T) {
	long(t)
	tests := []struct {
		name string
		ask  Assignment
		want string
	}{
		{"a rate twice", Assignment{Rates: []string{"1e-3", "0.001"}}, "are the same"},
		{"per arm alike", Assignment{PerArm: true, Options: PlanOptions{Set: []string{"use_std_normalization=true"}}}, "part stdnorm: "},
	}
	for _, tt := range tests {
		_, err := NewStudy(tt.ask)
		invalid(t, tt.name, err, tt.want)
	}
}

func TestPrepareStudy(t *testing.T) {
	long(t)
	ask := func(change func(*Assignment)) Assignment {
		a := Assignment{Rates: []string{"1e-3", "3e-3"}, Options: PlanOptions{Seeds: []uint64{1, 2}}}
		if change != nil {
			change(&a)
		}
		return a
	}
	dir := filepath.Join(t.TempDir(), "study")
	p := newAssignment(t, ask(nil))
	p.Dir = dir
	expect.OK(t, p.Prepare())
	expect.OK(t, Prepare(filepath.Join(dir, "lr"), p.Parts[0]))

	// A study next to it copies its runs.
	beside := newAssignment(t, ask(nil))
	beside.Dir = dir + "-2"
	if l, err := beside.Part(0); err != nil || !slices.Equal(l.Siblings, []string{filepath.Join(dir, "lr")}) {
		t.Errorf("siblings %v, %v", l.Siblings, err)
	}

	// A second process chooses first; this one follows.
	second := newAssignment(t, ask(nil))
	second.Dir = dir
	expect.OK(t, second.choose("0.003", "theirs"))
	expect.OK(t, second.settle())
	expect.OK(t, p.choose("0.001", "ours"))
	expect.OK(t, p.settle())
	if got := p.Manifest.Parts[3]; got.Chosen != "learning rate 3e-3: theirs" || got.Set[0].Value != "0.003" {
		t.Errorf("part %+v", got)
	}
	if cfg, err := frozen(p.Parts[3].Manifest.Runs[0]); err != nil || cfg.Train.LearningRate != 0.003 {
		t.Errorf("planned with %v, %v", cfg.Train.LearningRate, err)
	}

	// The same request finds the study with its choice; others are refused.
	same := newAssignment(t, ask(func(a *Assignment) { a.Options.Argv = []string{"another", "line"} }))
	same.Dir = dir
	if err := same.Prepare(); err != nil || len(same.Manifest.Parts[1].Set) == 0 {
		t.Errorf("the same study: %+v, %v", same.Manifest, err)
	}
	other := newAssignment(t, ask(func(a *Assignment) { a.Options.Seeds = []uint64{1, 3}; a.Options.Set = []string{"group_size=4"} }))
	other.Dir = dir
	err := other.Prepare()
	invalid(t, "another study", err, dir+" holds another study", "seeds: 1, 2, now 1, 3", "rollout.group_size: 8, now 4")
	for _, file := range []string{sweepdir.ManifestFile, rundir.ConfigFile} {
		other := t.TempDir()
		expect.OK(t, os.WriteFile(filepath.Join(other, file), []byte("{}"), 0o644))
		p.Dir = other
		if err := p.Prepare(); !errors.Is(err, config.ErrConfig) {
			t.Errorf("next to %s: error %v", file, err)
		}
	}
}

// TestEstimateParts: the parts of a study share what was measured.
func TestEstimateTime(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Options: PlanOptions{Seeds: []uint64{1}}})
	calls := 0
	probe := func(context.Context, config.Config, int) (Measured, error) {
		calls++
		return Measured{Rollout: 1}, nil
	}
	got, err := EstimateTime(t.Context(), p.Parts, Options{Jobs: 1, Cores: 1}, probe)
	expect.OK(t, err)
	if calls != 1 || len(got) != 4 || got[0].Seconds != 4*200 || got[3].Seconds != 2*200 {
		t.Errorf("%d probes, estimates %+v", calls, got)
	}
}

// TestAssignmentAll: the handout's other experiments follow the four, with train batches that fit.
func TestAssignmentAll(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{All: true, Options: PlanOptions{Path: "smoke", Seeds: []uint64{1}}})
	var names []string
	for _, part := range p.Manifest.Parts {
		names = append(names, part.Name)
	}
	if got := strings.Join(names, " "); got != "lr baseline lengthnorm stdnorm offpolicy clip prompt" {
		t.Fatal(got)
	}
	m := p.Parts[4].Manifest
	if got := m.Axes[1].Values; !slices.Equal(got, []string{"128", "32"}) || m.Reference != "epochs_per_rollout_batch=1,train_batch_size=128" {
		t.Errorf("train batches %v of 128, reference %s", got, m.Reference)
	}
	if got := armNames(p.Parts[5]); !slices.Equal(got, []string{"symmetric", "clip-higher", "none"}) {
		t.Errorf("clip: %v", got)
	}
	expect.OK(t, p.choose("0.001", "the best"))
	if notes := p.Parts[5].Manifest.Notes; !strings.Contains(notes[len(notes)-1], "grpo assignment --lr-per-arm") {
		t.Errorf("notes %q", notes)
	}
	newAssignment(t, Assignment{All: true, PerArm: true, Options: PlanOptions{Seeds: []uint64{1}}})
	if q := newAssignment(t, Assignment{Options: PlanOptions{Path: "smoke", Seeds: []uint64{1}}}); q.Manifest.Hash == p.Manifest.Hash {
		t.Error("the study has the hash of the four experiments")
	}
}
