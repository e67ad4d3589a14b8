package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"

	"gonum.org/v1/gonum/floats/scalar"

	"grpo/internal/statstest"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// value is a metric of a run.
func (f runFacts) value(name string) float64 { return MetricOf(name).reader.value(&f) }

// A run whose metrics can be computed by hand.
func TestFactsOfARun(t *testing.T) {
	r := reporttest.FakeRun{Initial: 0.125, Final: 0.5, Greedy: 0.75, Format: 0.75, Length: 20, Entropy: 0.1, GradNorm: 0.2, Problems: 128, Linear: true, Clip: 0.25, Updates: 4, Wall: 12}.Run(1)
	for i := range r.Metrics {
		// Only the last tenth, steps 181 to 200, may count.
		r.Metrics[i].Entropy = 9
		if i >= 180 {
			r.Metrics[i].Entropy = float64(i - 180)
		}
	}
	f := factsOf(sweepdir.RunState{State: rundir.StateDone, Run: r})
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"initial", f.value("initial"), 16. / 128}, {"final", f.value("final"), 64. / 128}, {"best", f.value("best"), 64. / 128}, {"greedy", f.value("greedy"), 96. / 128},
		{"correct", f.value("correct_num"), 64}, {"errors", f.value("error_num"), 64}, {"right", f.value("formatted_right"), 64}, {"wrong", f.value("formatted_wrong"), 32}, {"unformatted", f.value("unformatted"), 32},
		{"format", f.value("format_reward"), 0.75}, {"format before", f.value("initial_format_reward"), 68. / 128}, {"length", f.value("completion_length"), 20}, {"length before", f.value("initial_completion_length"), reporttest.FakeLength},
		// The curve is a line from 16 to 64 of 128: 32 at 66.7 steps, 57.6 at 173.3.
		{"steps to 50%", f.value("steps_to_50"), 70}, {"steps to 90%", f.value("steps_to_90"), 180},
		{"late gain", f.value("late_gain"), 12. / 128},
		{"entropy", f.value("entropy"), 9.5}, {"gradient norm", f.value("grad_norm"), 0.2}, {"clip fraction", f.value("clip_fraction"), 0.25}, {"updates a step", f.value("updates_per_step"), 4},
		{"seconds", f.value("wall_s"), 12}, {"interval", f.evalEvery, 10}, {"problems", float64(f.problems), 128}, {"unseen", f.value("unseen"), math.NaN()},
		{"length of right", f.value("completion_length_right"), 19.7}, {"length of wrong", f.value("completion_length_wrong"), 21},
	} {
		if !statstest.Same(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

func TestFactsOfUnusualRuns(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name                      string
		run                       *rundir.Run
		initial, final, to50, ent float64
	}{
		{"none", nil, nan, nan, nan, nan},
		{"unfinished", reporttest.FakeRun{Initial: .25, Final: .5, Entropy: 1, State: rundir.StateRunning}.Run(1), .25, nan, nan, nan},
		{"diverged at once", reporttest.FakeRun{Initial: .25, Final: 0, Entropy: 1, Diverged: 3}.Run(1), .25, 0, nan, 1},
		{"at half of its best before training", reporttest.FakeRun{Initial: .5, Final: .75, Entropy: 1}.Run(1), .5, .75, nan, 1},
		{"never right", reporttest.FakeRun{Entropy: 1}.Run(1), 0, 0, nan, 1},
		{"entropy that is not finite", reporttest.FakeRun{Initial: .25, Final: 1, Entropy: math.Inf(1)}.Run(1), .25, 1, 20, nan},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := factsOf(sweepdir.RunState{Run: tt.run})
			if !statstest.Same(f.value("initial"), tt.initial) || !statstest.Same(f.value("final"), tt.final) || !statstest.Same(f.value("steps_to_50"), tt.to50) || !statstest.Same(f.value("entropy"), tt.ent) {
				t.Errorf("%v %v %v %v", f.value("initial"), f.value("final"), f.value("steps_to_50"), f.value("entropy"))
			}
		})
	}
}

func TestLateGainNeedsAnEvaluation(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every int
		want  bool
	}{{"every 10", 10, true}, {"every 50", 50, true}, {"every 100", 100, false}, {"at the ends", 200, false}} {
		f := factsOf(sweepdir.RunState{Run: reporttest.FakeRun{Initial: .1, Final: .9, EvalEvery: tt.every}.Run(1)})
		if stats.IsFinite(f.value("late_gain")) != tt.want {
			t.Errorf("%s: %v", tt.name, f.value("late_gain"))
		}
	}
}

func TestArmStatus(t *testing.T) {
	run := func(state string, diverged int) func(uint64) reporttest.FakeRun {
		return func(seed uint64) reporttest.FakeRun {
			f := reporttest.FakeRun{Initial: .2, Final: .9}
			if seed > 1 {
				f.State, f.Diverged = state, diverged*int(seed)
			}
			return f
		}
	}
	for _, tt := range []struct {
		name string
		run  func(uint64) reporttest.FakeRun
		want string
	}{
		{"all done", run("", 0), "done"},
		{"all but one diverge", run("", 10), "done (1 of 3 seeds), diverged (2 of 3 seeds, steps 20 to 30)"},
		{"running", run(rundir.StateRunning, 0), "done (1 of 3 seeds), running (2 of 3 seeds)"},
		{"dead", run(sweepdir.Dead, 0), "done (1 of 3 seeds), dead (2 of 3 seeds)"},
		{"failed", run(rundir.StateFailed, 0), "done (1 of 3 seeds), failed (2 of 3 seeds)"},
		{"missing", run(sweepdir.Missing, 0), "done (1 of 3 seeds), missing (2 of 3 seeds)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustAnalyse(t, reporttest.FakeSweep(3, reporttest.FakeArm{Name: "x", Run: tt.run})).Arms[0]
			if r.Status != tt.want {
				t.Errorf("%q, want %q", r.Status, tt.want)
			}
			if r.Done+r.Diverged+r.Failed+r.Left != 3 {
				t.Errorf("%d + %d + %d + %d runs", r.Done, r.Diverged, r.Failed, r.Left)
			}
		})
	}
}

func TestBestArm(t *testing.T) {
	sound := reporttest.Around
	for _, tt := range []struct {
		name string
		arms []reporttest.FakeArm
		want int
	}{
		{"the highest mean", []reporttest.FakeArm{{Name: "x", Run: sound(.8, .01, 1)}, {Name: "y", Run: sound(.9, .01, 2)}}, 1},
		{"no control", []reporttest.FakeArm{{Name: "x", Run: sound(.8, .01, 1)}, {Name: "y", Control: true, Run: sound(.9, .01, 2)}}, 0},
		{"none that diverged", []reporttest.FakeArm{{Name: "x", Run: sound(.8, .01, 1)}, {Name: "y", Run: reporttest.With(sound(.9, .01, 2), func(f *reporttest.FakeRun) { f.Diverged = 5 })}}, 0},
		{"none", []reporttest.FakeArm{{Name: "y", Run: reporttest.With(sound(.9, .01, 2), func(f *reporttest.FakeRun) { f.Diverged = 5 })}}, -1},
		{"nothing finished", []reporttest.FakeArm{{Name: "y", Run: func(uint64) reporttest.FakeRun { return reporttest.FakeRun{State: sweepdir.Missing} }}}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := mustAnalyse(t, reporttest.FakeSweep(2, tt.arms...)); a.Best != tt.want {
				t.Errorf("%d, want %d", a.Best, tt.want)
			}
		})
	}
}

// names lists the comparisons of the final reward.
func finalPairs(a *Analysis) []string {
	var out []string
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			out = append(out, c.A+" - "+c.B)
		}
	}
	return out
}

func TestWhichArmsAreCompared(t *testing.T) {
	three := func(reference string) *sweepdir.Sweep {
		sw := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.8, .01, 1)}, reporttest.FakeArm{Name: "y", Run: reporttest.Around(.9, .01, 2)}, reporttest.FakeArm{Name: "z", Run: reporttest.Around(.85, .01, 3)})
		sw.Manifest.Reference = reference
		return sw
	}
	controls := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)},
		reporttest.FakeArm{Name: "y", Control: true, Run: reporttest.Around(.1, .01, 2)}, reporttest.FakeArm{Name: "z", Control: true, Run: reporttest.Around(.1, .01, 3)})
	axes := reporttest.GridSweep(4)
	axes.Manifest.Axes = []sweepdir.Axis{{Key: "a.x", Label: "x"}, {Key: "a.y", Label: "y"}}
	for i := range axes.Manifest.Arms {
		axes.Manifest.Arms[i].Name = []string{"x0y0", "x0y1", "x1y0", "x1y1"}[i]
		axes.Manifest.Arms[i].Set, axes.Manifest.Arms[i].Point = nil, []string{[]string{"0", "1"}[i/2], []string{"0", "1"}[i%2]}
	}
	referred := reporttest.GridSweep(4)
	for i := range referred.Manifest.Arms {
		referred.Manifest.Arms[i].Name = axes.Manifest.Arms[i].Name
	}
	referred.Manifest.Reference = "x1y1"
	for _, tt := range []struct {
		name   string
		sweep  *sweepdir.Sweep
		want   []string
		family int
		others int // pairs in which other metrics are compared
	}{
		{"a grid with a reference", referred, []string{
			"loss_type reinforce_with_baseline - loss_type no_baseline",
			"length_normalization masked_normalize - length_normalization masked_mean",
			"half of the effect of loss_type, at length_normalization masked_normalize - " +
				"half of the effect of loss_type, at length_normalization masked_mean",
		}, 3, 4},
		{"with a reference", three("x"), []string{"y - x", "z - x"}, 2, 2},
		{"with the best", three(""), []string{"y - x", "y - z", "x - z"}, 3, 2},
		{"controls are not compared with each other", controls, []string{"x - y", "x - z"}, 2, 2},
		{"two arms", reporttest.BaselineSweep(4), []string{"reinforce_with_baseline - no_baseline"}, 1, 1},
		{"a grid of axes", axes, []string{"x 1 - x 0", "y 1 - y 0", "half of the effect of x, at y 1 - half of the effect of x, at y 0"}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := mustAnalyse(t, tt.sweep)
			if got := finalPairs(a); !slices.Equal(got, tt.want) {
				t.Errorf("%q\nwant %q", got, tt.want)
			}
			if got := a.Comparisons[0].Family; got != tt.family {
				t.Errorf("adjusted over %d, want %d", got, tt.family)
			}
			others := 0
			for _, c := range a.Comparisons {
				if c.Metric != "final" {
					others++
				}
			}
			if others != 6*tt.others {
				t.Errorf("%d comparisons of other metrics for %d pairs", others, tt.others)
			}
		})
	}
}

// The numbers of a comparison, by hand.
func TestComparisonNumbers(t *testing.T) {
	finals := map[string][]float64{"x": {.50, .75, .25, .5}, "y": {.25, .25, .25, .25}}
	arm := func(name string) reporttest.FakeArm {
		return reporttest.FakeArm{Name: name, Run: func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .125, Final: finals[name][seed-1]}
		}}
	}
	sw := reporttest.FakeSweep(4, arm("x"), arm("y"))
	sw.Manifest.Reference = "y"
	c := mustAnalyse(t, sw).Comparisons[0]
	// Differences .25, .5, 0, .25: mean .25, sd .2041, t = 2.449 with 3 df, p = .0917.
	if !slices.Equal(c.Diffs, []float64{.25, .5, 0, .25}) || c.Mean != .25 || !scalar.EqualWithinAbs(c.SD, .204124, 1e-6) ||
		!scalar.EqualWithinAbs(c.P, .0917, 1e-4) || !scalar.EqualWithinAbs(c.Lo, .25-.324805, 1e-5) || c.Separable {
		t.Errorf("%+v", c)
	}
	// R: power.t.test(delta = .25, sd = .204124, power = .8, type = "paired") is 7.42.
	if n, most := c.SeedsFor(.25); n != 8 || most <= n {
		t.Errorf("%d seeds, at most %d, see a difference of .25", n, most)
	}
	// qt(.95, 3)*.204124/2 = .240189.
	if !scalar.EqualWithinAbs(c.Bound, .490189, 1e-5) {
		t.Errorf("at most %v", c.Bound)
	}
	if !scalar.EqualWithinAbs(c.Test.Mean, .25, .002) || c.Test.N != 4 {
		t.Errorf("on the test problems %+v", c.Test)
	}
}

// Only seeds that both arms have are compared.
func TestComparisonOfHalfASweep(t *testing.T) {
	run := func(missing uint64, mean float64) func(uint64) reporttest.FakeRun {
		return func(seed uint64) reporttest.FakeRun {
			f := reporttest.Around(mean, .01, 1)(seed)
			if seed == missing {
				f.State = rundir.StateRunning
			}
			return f
		}
	}
	a := mustAnalyse(t, reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: run(2, .9)}, reporttest.FakeArm{Name: "y", Run: run(3, .5)}))
	c := a.Comparisons[0]
	if c.N != 2 || !math.IsNaN(c.Diffs[1]) || !math.IsNaN(c.Diffs[2]) || math.IsNaN(c.Diffs[0]) || math.IsNaN(c.Diffs[3]) {
		t.Errorf("%+v", c)
	}
	if a.Arms[0].Of(FinalMetric).N != 3 || a.Arms[0].Of(InitialMetric).N != 4 {
		t.Errorf("final of %d seeds, initial of %d", a.Arms[0].Of(FinalMetric).N, a.Arms[0].Of(InitialMetric).N)
	}
}

func TestInteractionNumbers(t *testing.T) {
	a := mustAnalyse(t, reporttest.GridSweep(4))
	at := slices.IndexFunc(a.Comparisons, func(c Comparison) bool { return c.Kind == KindInteraction })
	c := a.Comparisons[at]
	for k := range 4 {
		of := func(arm int) float64 { return a.Arms[arm].Of(FinalMetric).Values[k] }
		want := ((of(3) - of(2)) - (of(1) - of(0))) / 2
		if !statstest.Same(c.Diffs[k], want) {
			t.Errorf("seed %d: %v, want %v", k+1, c.Diffs[k], want)
		}
	}
	if c.Family != 3 || !c.Separable || !strings.Contains(c.B, "at length_normalization masked_mean") {
		t.Errorf("%+v", c)
	}
}

func TestGridOf(t *testing.T) {
	set := func(pairs ...string) []sweepdir.Override {
		var out []sweepdir.Override
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, sweepdir.Override{Key: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	arms := func(sets ...[]sweepdir.Override) *sweepdir.Manifest {
		m := &sweepdir.Manifest{}
		for _, s := range sets {
			m.Arms = append(m.Arms, sweepdir.Arm{Set: s})
		}
		return m
	}
	for _, tt := range []struct {
		name string
		m    *sweepdir.Manifest
		want bool
	}{
		{"all combinations", arms(set("a", "1", "b", "1"), set("a", "1", "b", "2"), set("b", "1", "a", "2"), set("a", "2", "b", "2")), true},
		{"one twice", arms(set("a", "1", "b", "1"), set("a", "1", "b", "1"), set("a", "2", "b", "1"), set("a", "2", "b", "2")), false},
		{"three values", arms(set("a", "1", "b", "1"), set("a", "1", "b", "2"), set("a", "2", "b", "1"), set("a", "3", "b", "2")), false},
		{"another key", arms(set("a", "1", "b", "1"), set("a", "1", "b", "2"), set("a", "2", "b", "1"), set("a", "2", "c", "2")), false},
		{"one key", arms(set("a", "1"), set("a", "2"), set("a", "3"), set("a", "4")), false},
		{"three arms", arms(set("a", "1", "b", "1"), set("a", "1", "b", "2"), set("a", "2", "b", "1")), false},
		{"nothing set", arms(nil, nil, nil, nil), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gridOf(tt.m); (got != nil) != tt.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAnalyseRefusesRunsOfAnotherSweep(t *testing.T) {
	sw := reporttest.BaselineSweep(2)
	sw.Runs[3].Seed = 77
	expect.Error(t, expect.Err(Analyse(sw)), "seed 77")
}

// A sweep without runs, as just after it was frozen, has a report too.
func TestAnalyseOfNothing(t *testing.T) {
	sw := reporttest.RateSweep(2)
	sw.Runs = nil
	a := mustAnalyse(t, sw)
	if a.Best != -1 || !math.IsNaN(a.Base) {
		t.Errorf("%+v", a)
	}
}

// The base level is that of the seeds, also if an arm lacks one.
func TestBaseLevelOfUnequalSeeds(t *testing.T) {
	arm := func(name string) reporttest.FakeArm {
		return reporttest.FakeArm{Name: name, Run: func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .125 * float64(seed), Final: .75}
		}}
	}
	sw := reporttest.FakeSweep(2, arm("x"), arm("y"))
	for i, r := range sw.Runs {
		if r.Arm == 1 && r.Seed == 2 {
			sw.Runs[i].State, sw.Runs[i].Run = sweepdir.Missing, nil
		}
	}
	if a := mustAnalyse(t, sw); a.Base != .1875 {
		t.Errorf("base level %v, want .1875", a.Base)
	}
}

func TestValueThatDoesNotExist(t *testing.T) {
	for v, want := range map[float64]string{0.25: "25.0%", math.Inf(1): Absent} {
		if got := Percent(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := Percent(math.NaN()); got != Absent {
		t.Errorf("NaN: %s", got)
	}
}
