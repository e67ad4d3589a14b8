package report

import (
	"slices"
	"strings"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// TestBestOver: arms are compared at their own best point, and with no other.
func TestBestOver(t *testing.T) {
	a := mustReport(t, reporttest.TunedSweep(4))
	var finals []string
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			finals = append(finals, c.Kind+" "+c.A+" - "+c.B)
		}
	}
	if want := []string{"pair loss 1,lr=0.001 - loss 0,lr=0.003"}; !slices.Equal(finals, want) {
		t.Errorf("compared %v, want %v", finals, want)
	}
	for _, want := range []finding{
		{Section: analysis.Headline, Kind: analysis.Beats, Arms: []int{2, 1}, Metric: "final"},
		{Section: analysis.Line, Kind: analysis.TunedBest, Arms: []int{1, 0}},
		{Section: analysis.Line, Kind: analysis.TunedBest, Arms: []int{2, 3}},
		{Section: analysis.Caveat, Kind: analysis.TunedArms, Keys: []string{analysis.RateKey}, Values: []string{"0.001", "0.003"}},
	} {
		wantFinding(t, a, want)
	}
	neverFinding(t, a, analysis.Confounded, analysis.SomeConfounded, analysis.SharedRate, analysis.Interaction,
		analysis.NoInteraction, analysis.BestRate)
	if want := `"loss 1" (learning rate 0.001) beats "loss 0" (learning rate 0.003) by `; !strings.HasPrefix(a.Verdict.Headline, want) {
		t.Errorf("headline %s, want %s", a.Verdict.Headline, want)
	}
	if a.RateAxis() != nil {
		t.Error("taken for a sweep of learning rates")
	}
}

func TestBestOverCases(t *testing.T) {
	diverge := func(run func(uint64) reporttest.FakeRun) func(uint64) reporttest.FakeRun {
		return reporttest.With(run, func(f *reporttest.FakeRun) { f.Diverged = 20 })
	}
	absent := func(uint64) reporttest.FakeRun { return reporttest.FakeRun{State: sweepdir.Missing} }
	tests := []struct {
		name      string
		reference bool
		runs      []func(uint64) reporttest.FakeRun
		want      []string // compared: A - B
		finds     finding
	}{
		{"without a reference the best arm is the anchor", false,
			[]func(uint64) reporttest.FakeRun{reporttest.Around(0.7, 0.01, 1), reporttest.Around(0.8, 0.01, 2), reporttest.Around(0.9, 0.01, 3), reporttest.Around(0.6, 0.01, 4)},
			[]string{"loss 1,lr=0.001 - loss 0,lr=0.003"}, finding{Section: analysis.Headline, Kind: analysis.Beats, Arms: []int{2, 1}}},
		{"a point that diverged is not the best", true,
			[]func(uint64) reporttest.FakeRun{reporttest.Around(0.7, 0.01, 1), diverge(reporttest.Around(0.8, 0.01, 2)), reporttest.Around(0.9, 0.01, 3), reporttest.Around(0.6, 0.01, 4)},
			[]string{"loss 1,lr=0.001 - loss 0,lr=0.001"}, finding{Kind: analysis.TunedBest, Arms: []int{0, 1}}},
		{"unless all did", true,
			[]func(uint64) reporttest.FakeRun{diverge(reporttest.Around(0.7, 0.01, 1)), diverge(reporttest.Around(0.8, 0.01, 2)), reporttest.Around(0.9, 0.01, 3), reporttest.Around(0.6, 0.01, 4)},
			[]string{"loss 1,lr=0.001 - loss 0,lr=0.003"}, finding{Kind: analysis.TunedBest, Arms: []int{1, 0}}},
		{"an arm without results is left out", true,
			[]func(uint64) reporttest.FakeRun{absent, absent, reporttest.Around(0.9, 0.01, 3), reporttest.Around(0.6, 0.01, 4)},
			nil, finding{Section: analysis.Headline, Kind: analysis.NoneCompared}},
		{"nothing has run", false, []func(uint64) reporttest.FakeRun{absent, absent, absent, absent}, nil, finding{Section: analysis.Headline, Kind: analysis.NoResults, Of: 16}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sw := reporttest.FakeSweep(4, reporttest.FakeArm{Run: tt.runs[0]}, reporttest.FakeArm{Run: tt.runs[1]}, reporttest.FakeArm{Run: tt.runs[2]}, reporttest.FakeArm{Run: tt.runs[3]})
			reporttest.Tune(sw, "0.001", "0.003")
			if tt.reference {
				sw.Manifest.Reference = "loss 0,lr=0.001"
			}
			a := mustReport(t, sw)
			var got []string
			for _, c := range a.Comparisons {
				if c.Metric == "final" {
					got = append(got, c.A+" - "+c.B)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("compared %v, want %v", got, tt.want)
			}
			wantFinding(t, a, tt.finds)
		})
	}
}

// TestLabelWithout takes out what the axis adds, wherever it is.
func TestLabelWithout(t *testing.T) {
	m := reporttest.TunedSweep(1).Manifest
	for i, want := range []string{"loss 0", "loss 0", "loss 1", "loss 1"} {
		if got := analysis.LabelWithout(&m, i, analysis.RateKey); got != want {
			t.Errorf("%q of %q, want %q", got, m.Arms[i].Label, want)
		}
	}
	m.Arms[0].Label = "learning rate 0.001, loss 0"
	m.Arms[1].Label, m.Arms[1].Name = "", "loss 0,lr=0.003"
	m.Arms[2].Label = "by hand"
	for i, want := range []string{"loss 0", "loss 0", "by hand"} {
		if got := analysis.LabelWithout(&m, i, analysis.RateKey); got != want {
			t.Errorf("%q of %q, want %q", got, m.Arms[i].Label, want)
		}
	}
}

func TestBestValue(t *testing.T) {
	fail := func(f *reporttest.FakeRun) { f.State = rundir.StateFailed }
	tests := []struct {
		name   string
		damage func(arm int, seed uint64, f *reporttest.FakeRun)
		value  string
		says   string
	}{
		{"the best", nil, "0.001", "the best mean final validation reward of part lr, 93."},
		{"another arm lacks a seed", func(arm int, seed uint64, f *reporttest.FakeRun) {
			if arm == 0 && seed == 2 {
				fail(f)
			}
		}, "0.001", "; 0.01 diverged and could not be chosen; seeds of 0.0001 were missing then"},
		{"the best lacks a seed", func(arm int, seed uint64, f *reporttest.FakeRun) {
			if arm == 2 && seed == 2 {
				fail(f)
			}
		}, "", "the best so far, learning rate 0.001, lacks 1 of 4 seeds"},
		{"nothing is done", func(_ int, _ uint64, f *reporttest.FakeRun) { f.State = sweepdir.Missing }, "", "no results yet (0 of 20 runs finished)"},
		{"all diverged", func(_ int, seed uint64, f *reporttest.FakeRun) {
			if seed == 3 {
				f.Diverged = 10
			}
		}, "", "no value of learning rate is left: each diverged in at least one seed"},
		{"one diverged, and the others failed", func(arm int, _ uint64, f *reporttest.FakeRun) {
			if arm < 4 {
				fail(f)
			}
		}, "", "no value of learning rate with a result can be chosen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sw := reporttest.RateSweep(4)
			for i, s := range sw.Runs {
				f := reporttest.FakeRun{Initial: reporttest.FakeBase, Final: []float64{0.56, 0.75, 0.933, 0.92, 0.3}[s.Arm]}
				if s.Arm == 4 {
					f.Diverged = 20
				}
				if tt.damage != nil {
					tt.damage(s.Arm, s.Seed, &f)
				}
				s.State, s.Run = f.State, nil
				if f.State == "" {
					s.Run = f.Run(s.Seed)
					s.State = s.Run.Result.Status
				}
				sw.Runs[i] = s
			}
			value, why, err := mustReport(t, sw).BestValue(analysis.RateKey)
			if err != nil {
				why = err.Error()
			}
			if value != tt.value || (err != nil) != (tt.value == "") || !strings.Contains(why, tt.says) {
				t.Errorf("%q because %q, want %q because %q", value, why, tt.value, tt.says)
			}
		})
	}
	if _, _, err := mustReport(t, reporttest.RateSweep(2)).BestValue("rollout.group_size"); err == nil {
		t.Error("a value of a key that is no axis")
	}
}

// TestSharedCaveats: caveats of every part appear once, and none is lost.
func TestSharedCaveats(t *testing.T) {
	part := func(caveats ...string) *Report { return &Report{Verdict: Verdict{Caveats: caveats}} }
	parts := []*Report{part("a", "one", "b"), nil, part("a", "b", "two")}
	shared, rest := sharedCaveats(parts)
	if !slices.Equal(shared, []string{"a", "b"}) || !slices.Equal(rest[0].Verdict.Caveats, []string{"one"}) || rest[1] != nil || !slices.Equal(rest[2].Verdict.Caveats, []string{"two"}) {
		t.Errorf("shared %v, rest %+v", shared, rest)
	}
	if len(parts[0].Verdict.Caveats) != 3 {
		t.Error("the part itself was changed")
	}
	// A caveat that one part has twice is not one of all parts.
	shared, rest = sharedCaveats([]*Report{part("a", "twice", "twice"), part("a", "b")})
	if !slices.Equal(shared, []string{"a"}) || !slices.Equal(rest[0].Verdict.Caveats, []string{"twice", "twice"}) {
		t.Errorf("shared %q, the first part has %q", shared, rest[0].Verdict.Caveats)
	}
	if shared, rest = sharedCaveats([]*Report{part("a"), nil}); len(shared) > 0 || len(rest[0].Verdict.Caveats) != 1 {
		t.Errorf("of a single part: shared %v", shared)
	}
}
