package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

func mustReport(t testing.TB, sw *sweepdir.Sweep) *Report {
	t.Helper()
	return New(mustAnalyse(t, sw))
}

// text is the whole text of a verdict.
func (v Verdict) text() string {
	return strings.Join(slices.Concat([]string{v.Headline}, v.Lines, v.Missing, v.Caveats), "\n")
}

type finding = analysis.Finding

// matches compares the fields of a finding that are set in want; numbers are mean,
// lo and hi, to within the last printed digit.
func matches(got, want *finding) bool {
	if want.Section != "" && got.Section != want.Section || got.Kind != want.Kind || len(want.Parts) > len(got.Parts) {
		return false
	}
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for _, name := range []string{"Arms", "Metric", "Count", "Of", "Seeds", "Steps", "Keys", "Values"} {
		if x := w.FieldByName(name); !x.IsZero() && !reflect.DeepEqual(x.Interface(), g.FieldByName(name).Interface()) {
			return false
		}
	}
	for i := range want.Parts {
		if !matches(&got.Parts[i], &want.Parts[i]) {
			return false
		}
	}
	if want.Numbers == nil {
		return true
	}
	n, m := got.Numbers, want.Numbers
	near := func(x, y float64) bool { return math.Abs(x-y) < 0.0006 }
	return n != nil && n.N == m.N && near(n.Mean, m.Mean) && near(n.Lo, m.Lo) && near(n.Hi, m.Hi)
}

func wantFinding(t *testing.T, a *Report, want finding) {
	t.Helper()
	if !slices.ContainsFunc(a.Findings, func(f finding) bool { return matches(&f, &want) }) {
		t.Errorf("no finding %s %+v among\n%s", want.Kind, want, listFindings(a))
	}
}

func neverFinding(t *testing.T, a *Report, kinds ...analysis.Kind) {
	t.Helper()
	for _, f := range a.Findings {
		if slices.Contains(kinds, f.Kind) {
			t.Errorf("found %s in\n%s", f.Kind, listFindings(a))
		}
	}
}

func listFindings(a *Report) string {
	var b strings.Builder
	for i := range a.Findings {
		f := &a.Findings[i]
		fmt.Fprintf(&b, "%s %s %v: %s\n", f.Section, f.Kind, f.Arms, a.sentence(f))
	}
	return b.String()
}

func number(n int, mean, lo, hi float64) *analysis.Summary {
	return &analysis.Summary{N: n, Mean: mean, Lo: lo, Hi: hi}
}

type verdictCase struct {
	name     string
	sweep    *sweepdir.Sweep
	headline finding
	want     []finding
	never    []analysis.Kind
}

func verdictCases() []verdictCase {
	noise4 := func(mean float64, purpose uint64) func(uint64) reporttest.FakeRun {
		return reporttest.Around(mean, 0.03, purpose)
	}
	unfinished := func(state string) func(uint64) reporttest.FakeRun {
		run := reporttest.Around(0.93, 0.012, 30)
		return func(seed uint64) reporttest.FakeRun {
			f := run(seed)
			if seed > 2 {
				f.State, f.Err = state, "panic: index out of range"
			}
			return f
		}
	}
	two := func(x, y func(uint64) reporttest.FakeRun) *sweepdir.Sweep {
		return reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: x}, reporttest.FakeArm{Name: "y", Run: y})
	}
	change := func(sw *sweepdir.Sweep, f func(*sweepdir.Manifest)) *sweepdir.Sweep {
		f(&sw.Manifest)
		return sw
	}
	rates := func(m *sweepdir.Manifest) {
		m.Axes = reporttest.RatesAxis("0.001", "0.01")
		for i, rate := range m.Axes[0].Values {
			m.Arms[i].Point, m.Arms[i].Set = []string{rate}, []sweepdir.Override{{Key: analysis.RateKey, Value: rate}}
		}
	}
	ladder := func(runs ...func(uint64) reporttest.FakeRun) *sweepdir.Sweep {
		var arms []reporttest.FakeArm
		for i, run := range runs {
			arms = append(arms, reporttest.FakeArm{Name: fmt.Sprint("difficulty-", i+2), Run: run})
		}
		return change(reporttest.FakeSweep(4, arms...), func(m *sweepdir.Manifest) {
			m.Axes = []sweepdir.Axis{{Key: analysis.DifficultyKey, Short: "difficulty"}}
			for i := range m.Arms {
				m.Arms[i].Point = []string{fmt.Sprint(i + 2)}
				m.Axes[0].Values = append(m.Axes[0].Values, m.Arms[i].Point[0])
			}
		})
	}
	always := func(f reporttest.FakeRun) func(uint64) reporttest.FakeRun {
		return func(uint64) reporttest.FakeRun { return f }
	}
	finals := func(initial float64, finals ...float64) func(uint64) reporttest.FakeRun {
		return func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: initial, Final: finals[seed-1]}
		}
	}
	diverged := func(mean float64, purpose uint64, at int) func(uint64) reporttest.FakeRun {
		return reporttest.With(reporttest.Around(mean, .01, purpose), func(f *reporttest.FakeRun) { f.Diverged = at })
	}
	offPolicy := func(name string, clip float64, at int) reporttest.FakeArm {
		return reporttest.FakeArm{Name: name, Run: reporttest.With(reporttest.Around(.5, .02, 10), func(f *reporttest.FakeRun) {
			f.Updates, f.Clip, f.Diverged = 4, clip, at
		})}
	}
	absent := always(reporttest.FakeRun{State: sweepdir.Missing})
	identical := two(noise4(.9, 10), noise4(.9, 10))
	for _, s := range identical.Runs {
		s.Run.Result.WeightsSHA256 = fmt.Sprint(s.Seed)
	}
	twentyArms := func() *sweepdir.Sweep {
		var arms []reporttest.FakeArm
		for i := range 5 {
			arms = append(arms, reporttest.FakeArm{Name: fmt.Sprintf("arm %d", i), Run: absent})
		}
		return reporttest.FakeSweep(4, arms...)
	}
	const (
		line, caveat, missing = analysis.Line, analysis.Caveat, analysis.Missing
	)
	return []verdictCase{
		{"errors of the verifier", noisyVerifiers(),
			finding{Kind: analysis.Ranking, Arms: []int{0}},
			[]finding{
				{Section: line, Kind: analysis.NoiseKnee, Arms: []int{3, 0}, Keys: []string{"wrong verdicts"}, Values: []string{"20%", "30%"}},
				{Section: line, Kind: analysis.NoiseKnee, Arms: []int{4, 0}, Keys: []string{"false positives"}, Values: []string{"40%"}},
				{Section: line, Kind: analysis.NoiseHarmless, Arms: []int{0}, Keys: []string{"false negatives"}, Values: []string{"40%"}},
			}, nil},
		{"a ladder", ladder(finals(.2, .97, .98, .99, .96), finals(.2, .95, .92, .90, .86), finals(.2, .95, .2, .91, .3)),
			finding{Kind: analysis.LadderTop, Values: []string{"3"}, Parts: []finding{
				{Kind: analysis.RungConverged, Arms: []int{0}, Values: []string{"2"}, Count: 4, Of: 4},
				{Kind: analysis.RungConverged, Arms: []int{1}, Values: []string{"3"}, Count: 3, Of: 4},
				{Kind: analysis.RungConverged, Arms: []int{2}, Values: []string{"4"}, Count: 2, Of: 4},
			}}, nil, []analysis.Kind{analysis.Beats, analysis.Open, analysis.BeatenBy, analysis.AdjustedAll, analysis.Trend}},
		{"a ladder at the ceiling", ladder(finals(.2, .99, .98, .99, .99), finals(.2, .98, .99, .99, .99)),
			finding{Kind: analysis.LadderTop, Values: []string{"3"}}, nil, []analysis.Kind{analysis.AtCeiling}},
		{"a ladder without a rung", ladder(finals(.2, .5, .5, .6, .5), finals(.2, .3, .3, .3, .2)),
			finding{Kind: analysis.LadderTop, Parts: []finding{{Kind: analysis.RungConverged}, {Kind: analysis.RungConverged}}}, nil, nil},
		{"a clear difference", reporttest.BaselineSweep(4),
			finding{Kind: analysis.Beats, Arms: []int{1, 0}, Metric: "final", Numbers: number(4, .139, .124, .154)},
			[]finding{
				{Section: line, Kind: analysis.ShortCompletion, Arms: []int{0}, Metric: "completion_length",
					Parts: []finding{{Kind: analysis.Difference, Arms: []int{1, 0}}}},
				{Section: caveat, Kind: analysis.HeldFixed, Keys: []string{"algorithm.length_normalization"}, Values: []string{"masked_mean"}},
				{Section: caveat, Kind: analysis.SharedRate, Values: []string{"0.001"}},
				{Section: caveat, Kind: analysis.Intervals}, {Section: caveat, Kind: analysis.ChosenOnValidation},
				{Section: caveat, Kind: analysis.RewardMeasure, Of: 1024},
			}, []analysis.Kind{analysis.Open, analysis.Confounded, analysis.SomeConfounded, analysis.Trend}},
		{"no difference", two(noise4(0.9, 10), noise4(0.9, 20)),
			finding{Kind: analysis.Open, Arms: []int{1, 0}}, nil, []analysis.Kind{analysis.Beats, analysis.Bimodal}},
		{"the same in every seed", two(always(reporttest.FakeRun{Initial: .2, Final: .5, Greedy: .9}), always(reporttest.FakeRun{Initial: .2, Final: .5, Greedy: .9})),
			finding{Kind: analysis.SameWithin, Arms: []int{0, 1}, Numbers: number(4, 0, -.0016, .0016)}, nil, nil},
		{"the same runs", identical, finding{Kind: analysis.Identical, Arms: []int{0, 1}}, nil, nil},
		{"apart by one problem in every seed", two(always(reporttest.FakeRun{Final: 500. / 1024}), always(reporttest.FakeRun{Final: 501. / 1024})),
			finding{Kind: analysis.SameWithin, Arms: []int{1, 0}, Numbers: number(4, .001, -.001, .003)}, nil, nil},
		{"apart by everything in every seed", two(always(reporttest.FakeRun{Final: 0, Problems: 128}), always(reporttest.FakeRun{Final: 1, Problems: 128})),
			finding{Kind: analysis.Beats, Arms: []int{1, 0}, Numbers: number(4, 1, .988, 1)}, nil, nil},
		{"a seed that did not learn", two(noise4(0.9, 10), finals(.2, .82, .16, .85, .82)),
			finding{Kind: analysis.Open, Arms: []int{0, 1}},
			[]finding{{Section: line, Kind: analysis.Bimodal, Arms: []int{1}, Parts: []finding{
				{Kind: analysis.SeedsStayed, Seeds: []uint64{2}}, {Kind: analysis.SeedsLearned, Seeds: []uint64{1, 3, 4}}}}}, nil},
		{"seeds that stayed where they were", two(noise4(0.9, 10), finals(.2, .2, .5, .21, .5)),
			finding{}, []finding{{Kind: analysis.Bimodal, Arms: []int{1}, Parts: []finding{{Kind: analysis.SeedsStayed, Seeds: []uint64{1, 3}}}}}, nil},
		{"seeds far apart that all learned", two(noise4(0.9, 10), finals(.2, .3, .9, .5, .9)), finding{}, nil, []analysis.Kind{analysis.Bimodal}},
		{"seeds that hardly learned", two(noise4(0.9, 10), finals(.2, .21, .26, .2, .27)), finding{}, nil, []analysis.Kind{analysis.Bimodal}},
		{"two seeds, of which one learned", reporttest.FakeSweep(2, reporttest.FakeArm{Name: "x", Run: noise4(.9, 10)},
			reporttest.FakeArm{Name: "y", Run: finals(.2, .2, .5)}), finding{}, nil, []analysis.Kind{analysis.Bimodal}},
		{"at the ceiling", two(always(reporttest.FakeRun{Initial: .2, Final: 1}), always(reporttest.FakeRun{Initial: .2, Final: .995})),
			finding{}, []finding{{Section: line, Kind: analysis.AtCeiling}}, []analysis.Kind{analysis.AtFloor}},
		{"at the floor", two(always(reporttest.FakeRun{Final: 0}), always(reporttest.FakeRun{Final: .005})),
			finding{}, []finding{{Section: line, Kind: analysis.AtFloor}}, []analysis.Kind{analysis.AtCeiling}},
		{"rates at the floor", change(two(always(reporttest.FakeRun{Final: 0}), always(reporttest.FakeRun{Final: .005})), rates), finding{Kind: analysis.BestRate}, []finding{{Section: line, Kind: analysis.AtFloor}, {Section: line, Kind: analysis.BestAtLargest}}, nil},
		{"rates with the same mean", change(two(always(reporttest.FakeRun{Initial: .2, Final: .5}), always(reporttest.FakeRun{Initial: .2, Final: .5})), rates),
			finding{Kind: analysis.BestRate, Arms: []int{0}}, nil, []analysis.Kind{analysis.BestAtSmallest, analysis.BestAtLargest}},
		{"one seed", reporttest.FakeSweep(1, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}),
			finding{Kind: analysis.NotCompared, Arms: []int{0, 1}}, []finding{{Section: caveat, Kind: analysis.FewSeeds, Count: 1}}, nil},
		{"one arm", reporttest.FakeSweep(2, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}),
			finding{Kind: analysis.OnlyArm, Arms: []int{0}}, []finding{{Section: caveat, Kind: analysis.FewSeeds, Count: 2}}, nil},
		{"nothing begun", two(absent, absent), finding{Kind: analysis.NoResults, Of: 8},
			[]finding{
				{Section: missing, Kind: analysis.RunsMissing, Count: 8, Of: 8},
				{Section: missing, Kind: analysis.RunMissing, Arms: []int{1}, Seeds: []uint64{4}, Values: []string{sweepdir.Missing}},
			}, []analysis.Kind{analysis.RewardMeasure, analysis.Unfinished}},
		{"nothing of many arms", twentyArms(), finding{Kind: analysis.NoResults, Of: 20}, []finding{{Kind: analysis.MoreMissing, Count: 8}}, nil},
		{"half-finished", two(noise4(0.9, 10), unfinished(rundir.StateRunning)), finding{Kind: analysis.Open, Arms: []int{0, 1}},
			[]finding{
				{Section: analysis.Headline, Kind: analysis.Unfinished, Count: 6, Of: 8},
				{Section: missing, Kind: analysis.RunsMissing, Count: 2, Of: 8},
				{Kind: analysis.RunMissing, Arms: []int{1}, Seeds: []uint64{3}, Steps: []int{40}},
			}, nil},
		{"an arm failed", two(noise4(0.9, 10), unfinished(rundir.StateFailed)), finding{},
			[]finding{{Kind: analysis.RunMissing, Arms: []int{1}, Seeds: []uint64{3}, Values: []string{rundir.StateFailed, "panic: index out of range"}}}, nil},
		{"learning rates", reporttest.RateSweep(4),
			finding{Kind: analysis.BestRate, Arms: []int{2}, Values: []string{"0.001"}, Numbers: number(4, .918, .909, .927), Parts: []finding{
				{Kind: analysis.ClearlyWorse, Arms: []int{4, 2, 0, 1, 3}}, {Kind: analysis.ClearlyWorse, Arms: []int{0, 2, 1, 3}},
				{Kind: analysis.ClearlyWorse, Arms: []int{1, 2, 3}}, {Kind: analysis.Open, Arms: []int{2, 3}},
				{Kind: analysis.RateSlow, Arms: []int{0}}, {Kind: analysis.RateSlow, Arms: []int{1}},
				{Kind: analysis.RateTied, Arms: []int{3}}, {Kind: analysis.RateCollapsed, Arms: []int{4}}}},
			[]finding{
				{Section: line, Kind: analysis.RateSlow, Arms: []int{0}, Values: []string{"0.0001"}, Numbers: number(4, .566, .553, .579),
					Parts: []finding{{Kind: analysis.StillRising, Metric: "late_gain"}}},
				{Section: line, Kind: analysis.RateBest, Arms: []int{2}},
				{Section: line, Kind: analysis.RateCollapsed, Arms: []int{4}, Numbers: number(4, .009, .004, .013)},
				{Section: line, Kind: analysis.CollapseRate, Parts: []finding{
					{Kind: analysis.SeedsCollapsed, Arms: []int{4}, Count: 4, Of: 4}, {Kind: analysis.SeedsCollapsed, Arms: []int{0, 1, 2, 3}, Of: 4}}},
				{Section: caveat, Kind: analysis.AdjustedAll, Count: 10},
			}, []analysis.Kind{analysis.SharedRate, analysis.BestAtLargest, analysis.BestAtSmallest}},
		{"the best rate is the last", change(reporttest.RateSweep(4), func(m *sweepdir.Manifest) {
			for i, v := range []string{"0.00001", "0.00003", "1", "0.0001", "0.00002"} {
				m.Arms[i].Point = []string{v}
			}
		}), finding{Kind: analysis.BestRate, Values: []string{"1"}}, []finding{{Section: line, Kind: analysis.BestAtLargest, Arms: []int{2}, Values: []string{"1"}}}, nil},
		{"the best rate is the first", change(reporttest.RateSweep(4), func(m *sweepdir.Manifest) {
			for i, v := range []string{"1", "3", "0.1", "10", "30"} {
				m.Arms[i].Point = []string{v}
			}
		}), finding{Kind: analysis.BestRate}, []finding{{Kind: analysis.BestAtSmallest, Values: []string{"0.1"}}, {Kind: analysis.RateWorse, Arms: []int{0}}}, []analysis.Kind{analysis.RateSlow}},
		{"rates with a reference", change(reporttest.RateSweep(4), func(m *sweepdir.Manifest) { m.Reference = "lr=0.0001" }),
			finding{Kind: analysis.BestRate}, []finding{{Section: line, Kind: analysis.RateUncompared, Arms: []int{1}}}, nil},
		{"an interaction", reporttest.GridSweep(4),
			finding{Kind: analysis.Reversal, Keys: []string{"loss_type", "length_normalization"}, Parts: []finding{
				{Kind: analysis.Effect, Arms: []int{1, 0}, Values: []string{"reinforce_with_baseline", "no_baseline", "masked_mean"}},
				{Kind: analysis.Effect, Arms: []int{3, 2}, Values: []string{"reinforce_with_baseline", "no_baseline", "masked_normalize"}}}},
			[]finding{
				{Section: line, Kind: analysis.MainEffect, Keys: []string{"loss_type", "length_normalization"}, Values: []string{"reinforce_with_baseline", "no_baseline"}},
				{Section: line, Kind: analysis.MainEffect, Keys: []string{"length_normalization", "loss_type"}},
				{Section: caveat, Kind: analysis.AdjustedPlanned, Count: 3, Values: []string{"ordered"}},
				{Section: line, Kind: analysis.ShortReversed, Arms: []int{0}, Values: []string{"no_baseline", "masked_mean"}, Parts: []finding{
					{Values: []string{"masked_normalize"}, Kind: analysis.ShortReversed, Arms: []int{2}},
					{Values: []string{"reinforce_with_baseline"}, Kind: analysis.ShortReversed, Arms: []int{1}}}},
			}, []analysis.Kind{analysis.Confounded, analysis.SomeConfounded}},
		{"a grid with another key", change(reporttest.GridSweep(4), func(m *sweepdir.Manifest) {
			m.Varied = append(m.Varied, "train.max_grad_norm")
			for i, e := range m.Runs {
				m.Runs[i].Config += fmt.Sprintf("train:\n  max_grad_norm: %d\n", e.Arm/2)
			}
		}), finding{Kind: analysis.Reversal}, []finding{{Section: caveat, Kind: analysis.SomeConfounded, Parts: []finding{
			{Kind: analysis.Confounded, Arms: []int{2, 0}, Keys: []string{"algorithm.length_normalization", "train.max_grad_norm"}}}}}, nil},
		{"a grid without interaction", func() *sweepdir.Sweep {
			sw := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "a", Run: noise4(.9, 1)}, reporttest.FakeArm{Name: "b", Run: noise4(.9, 2)},
				reporttest.FakeArm{Name: "c", Run: noise4(.9, 3)}, reporttest.FakeArm{Name: "d", Run: noise4(.9, 4)})
			return change(sw, func(m *sweepdir.Manifest) {
				for i := range m.Arms {
					m.Arms[i].Set = []sweepdir.Override{{Key: "k.x", Value: fmt.Sprint(i / 2)}, {Key: "k.y", Value: fmt.Sprint(i % 2)}}
				}
			})
		}(), finding{Kind: analysis.NoInteraction, Keys: []string{"x", "y"}, Parts: []finding{
			{Kind: analysis.MainEffect, Keys: []string{"x", "y"}}, {Kind: analysis.MainEffect, Keys: []string{"y", "x"}}}}, nil, nil},
		{"an interaction of one sign", func() *sweepdir.Sweep {
			sw := reporttest.GridSweep(4)
			for i, s := range sw.Runs {
				run := reporttest.Around([]float64{.2, .9, .6, .9}[s.Arm], .01, uint64(10*s.Arm))(s.Seed).Run(s.Seed)
				sw.Runs[i].Run = run
			}
			return sw
		}(), finding{Kind: analysis.Interaction}, nil, []analysis.Kind{analysis.Reversal}},
		{"an unfinished grid", func() *sweepdir.Sweep {
			sw := reporttest.GridSweep(2)
			for i, s := range sw.Runs {
				if s.Arm == 3 {
					sw.Runs[i].Run, sw.Runs[i].State = nil, sweepdir.Missing
				}
			}
			return sw
		}(), finding{Kind: analysis.NoInteraction}, nil, []analysis.Kind{analysis.MainEffect}},
		{"held by the clip", reporttest.ClipSweep(4),
			finding{Kind: analysis.Ranking, Arms: []int{0}, Parts: []finding{{Kind: analysis.BeatenBy, Arms: []int{1, 0}}, {Kind: analysis.BeatenBy, Arms: []int{2, 0}}}},
			[]finding{
				{Section: line, Kind: analysis.Diverged, Arms: []int{2}, Count: 4, Of: 4, Steps: []int{70, 70, 70, 70}, Numbers: number(4, .095, .081, .109)},
				{Section: line, Kind: analysis.ClipHolds, Arms: []int{2, 1}},
				{Section: line, Kind: analysis.ShortCompletion, Arms: []int{1}},
			}, []analysis.Kind{analysis.FormatHacked}},
		{"a clip at another rate", change(reporttest.ClipSweep(4), func(m *sweepdir.Manifest) {
			m.Arms[1].Set = []sweepdir.Override{{Key: analysis.RateKey, Value: "0.01"}}
		}), finding{}, nil, []analysis.Kind{analysis.ClipHolds}},
		{"a clip that does not hold", reporttest.FakeSweep(4, offPolicy("free", 0, 70), offPolicy("held", .12, 0), offPolicy("fell", .12, 70)),
			finding{}, nil, []analysis.Kind{analysis.ClipHolds}},
		{"a spread of points that were not chosen", func() *sweepdir.Sweep {
			sw := reporttest.FakeSweep(4, reporttest.FakeArm{Run: reporttest.Around(.5, .1, 10)}, reporttest.FakeArm{Run: reporttest.Around(.8, .01, 20)},
				reporttest.FakeArm{Run: reporttest.Around(.93, .01, 30)}, reporttest.FakeArm{Run: reporttest.Around(.6, .01, 40)})
			reporttest.Tune(sw, "0.001", "0.003")
			return sw
		}(), finding{}, nil, []analysis.Kind{analysis.UnequalSpread}},
		{"controls", reporttest.RewardSweep(4), finding{Kind: analysis.Ranking, Arms: []int{0}},
			[]finding{{Section: line, Kind: analysis.FormatHacked, Arms: []int{1}}, {Section: line, Kind: analysis.ControlFell, Arms: []int{2}, Numbers: number(4, 0, 0, .002)}},
			[]analysis.Kind{analysis.Diverged, analysis.ShortCompletion}},
		{"a control that learns", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "coin", Control: true, Run: reporttest.Around(.95, .01, 2)}),
			finding{}, []finding{{Section: line, Kind: analysis.ControlGained, Arms: []int{1}}}, []analysis.Kind{analysis.ControlFell}},
		{"a control that stays", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "coin", Control: true, Run: always(reporttest.FakeRun{Initial: .2, Final: .2})}),
			finding{}, []finding{{Section: line, Kind: analysis.ControlStayed, Arms: []int{1}}}, nil},
		{"two diverge", two(diverged(.1, 1, 7), diverged(.05, 2, 9)), finding{Kind: analysis.Beats, Arms: []int{0, 1}},
			[]finding{{Section: line, Kind: analysis.Diverged, Arms: []int{0}, Steps: []int{7, 7, 7, 7}}, {Kind: analysis.Diverged, Arms: []int{1}, Count: 4, Of: 4}}, nil},
		{"three diverge", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: diverged(.1, 1, 7)}, reporttest.FakeArm{Name: "y", Run: diverged(.1, 2, 7)}, reporttest.FakeArm{Name: "z", Run: diverged(.1, 3, 7)}),
			finding{Kind: analysis.AllDiverged}, nil, nil},
		{"two diverge and the others have no result", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: diverged(.1, 1, 7)},
			reporttest.FakeArm{Name: "y", Run: diverged(.1, 2, 7)}, reporttest.FakeArm{Name: "z", Run: absent}),
			finding{Kind: analysis.NoneCompared}, nil, []analysis.Kind{analysis.AllDiverged}},
		{"a rate diverges and the other has no result", change(two(diverged(.1, 1, 7), absent), rates),
			finding{Kind: analysis.NoneCompared, Keys: []string{analysis.RateKey}}, nil, []analysis.Kind{analysis.AllDiverged}},
		{"an arm that diverged is better than the others", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.5, .01, 1)},
			reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}, reporttest.FakeArm{Name: "z", Run: diverged(.9, 3, 7)}),
			finding{Kind: analysis.Race}, nil, []analysis.Kind{analysis.ClearlyWorse}},
		{"several keys at once", change(reporttest.BaselineSweep(4), func(m *sweepdir.Manifest) { m.Varied = []string{"algorithm.loss_type", "train.max_grad_norm"} }),
			finding{}, []finding{{Section: caveat, Kind: analysis.Confounded, Keys: []string{"algorithm.loss_type", "train.max_grad_norm"}}}, nil},
		{"notes and added seeds", change(reporttest.BaselineSweep(4), func(m *sweepdir.Manifest) {
			m.Notes = []string{"reverses under masked_normalize"}
			m.Added = []sweepdir.Addition{{Seeds: []uint64{4}, Finished: 5, Runs: 6}}
		}), finding{}, []finding{
			{Section: caveat, Kind: analysis.Note, Values: []string{"reverses under masked_normalize"}},
			{Section: caveat, Kind: analysis.SeedsAdded, Seeds: []uint64{4}, Count: 5, Of: 6},
		}, nil},
		{"two sets of added seeds", change(reporttest.BaselineSweep(6), func(m *sweepdir.Manifest) {
			m.Added = []sweepdir.Addition{{Seeds: []uint64{4, 5, 6}, Finished: 6, Runs: 6}}
		}), finding{Kind: analysis.Beats, Arms: []int{1, 0}, Numbers: number(3, .143, .128, .159)}, []finding{
			{Section: caveat, Kind: analysis.FewSeeds, Count: 3},
			{Section: caveat, Kind: analysis.SeedsAlone, Seeds: []uint64{4, 5, 6}, Parts: []finding{{Kind: analysis.Beats, Arms: []int{1, 0}}}},
			{Section: caveat, Kind: analysis.SeedsPooled, Count: 6},
		}, nil},
		{"spreads of seeds that were added", change(reporttest.FakeSweep(8, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.5, .1, 1)},
			reporttest.FakeArm{Name: "y", Run: reporttest.Around(.9, .01, 2)}), func(m *sweepdir.Manifest) {
			m.Added = []sweepdir.Addition{{Seeds: []uint64{5, 6, 7, 8}, Finished: 8, Runs: 8}}
		}), finding{}, []finding{{Section: caveat, Kind: analysis.UnequalSpread, Arms: []int{0, 1}}}, nil},
		{"planned looks", planned(8, 0), finding{Kind: analysis.Race}, []finding{
			{Section: caveat, Kind: analysis.Looks, Count: 2, Of: 3, Steps: []int{4, 8, 16}, Parts: []finding{
				{Kind: analysis.LookOut, Arms: []int{1, 0}, Count: 4, Values: []string{sweepdir.OutBeaten}},
				{Kind: analysis.LookEnd, Count: 8, Values: []string{sweepdir.EndFutile}}}},
		}, []analysis.Kind{analysis.RunsMissing, analysis.Unfinished}},
		{"no look yet", planned(4, 1), finding{}, []finding{
			{Section: caveat, Kind: analysis.Looks, Count: 0, Of: 3}, {Section: missing, Kind: analysis.RunsMissing, Count: 3, Of: 12},
		}, []analysis.Kind{analysis.Beats, analysis.ClearlyWorse}},
		{"three arms with a reference", change(reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}, reporttest.FakeArm{Name: "z", Run: reporttest.Around(.9, .01, 3)}),
			func(m *sweepdir.Manifest) { m.Reference = "y" }),
			finding{Kind: analysis.Ranking, Arms: []int{1}, Parts: []finding{
				{Kind: analysis.Beats, Arms: []int{0, 1}, Numbers: number(4, .391, .366, .415)}, {Kind: analysis.Beats, Arms: []int{2, 1}}}},
			[]finding{{Section: line, Kind: analysis.Beats, Arms: []int{0, 1}}, {Section: line, Kind: analysis.Beats, Arms: []int{2, 1}}, {Section: caveat, Kind: analysis.AdjustedPlanned, Count: 2}}, nil},
		{"tuned arms", reporttest.TunedSweep(4), finding{Kind: analysis.Beats, Arms: []int{2, 1}}, []finding{{Section: line, Kind: analysis.TunedBest, Arms: []int{1, 0}}}, nil},
		{"a trend", two(reporttest.Around(.9, .01, 1), reporttest.With(reporttest.Around(.9, .01, 2), func(f *reporttest.FakeRun) { f.Entropy *= 3 })),
			finding{Kind: analysis.Open}, []finding{{Section: line, Kind: analysis.Trend, Metric: "entropy", Parts: []finding{{Kind: analysis.Difference}}}}, nil},
	}
}

// What a verdict finds, as data.
func TestFindings(t *testing.T) {
	for _, tt := range verdictCases() {
		t.Run(tt.name, func(t *testing.T) {
			a := mustReport(t, tt.sweep)
			if tt.headline.Kind != "" {
				tt.headline.Section = analysis.Headline
				wantFinding(t, a, tt.headline)
			}
			for _, f := range tt.want {
				wantFinding(t, a, f)
			}
			neverFinding(t, a, tt.never...)
			if a.Ladder() != nil && (a.Best >= 0 || strings.Contains(a.Verdict.text(), "best arm")) {
				t.Errorf("the arms of a ladder have different problems, and the best is %d: %s", a.Best, a.Verdict.text())
			}
		})
	}
}

// The findings come back from results.json as they were.
func TestFindingsAsJSON(t *testing.T) {
	for _, tt := range verdictCases() {
		a := mustReport(t, tt.sweep)
		data, err := rundir.Marshal(a.Findings)
		expect.OK(t, err)
		var back []finding
		expect.OK(t, rundir.Unmarshal(data, &back))
		again, err := rundir.Marshal(back)
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%s: %v, read back as\n%s\nwas\n%s", tt.name, err, again, data)
		}
	}
}

// A sentence names the arms of its finding, its counts, seeds, keys and values.
func TestEveryKindHasASentence(t *testing.T) {
	unseen := findingKinds(t)
	check := func(a *Report) {
		for i := range a.Findings {
			f := &a.Findings[i]
			delete(unseen, f.Kind)
			s := a.sentence(f)
			facts := slices.Concat(f.Keys, f.Values)
			for _, arm := range f.Arms {
				if f.Kind != analysis.TunedBest && f.Kind != analysis.ShortReversed && !strings.HasPrefix(string(f.Kind), "rate") &&
					!strings.Contains(string(f.Kind), "best") {
					facts = append(facts, a.label(arm))
				}
			}
			for _, seed := range f.Seeds {
				facts = append(facts, fmt.Sprint(seed))
			}
			switch f.Kind {
			case analysis.TunedArms, analysis.SharedRate, analysis.AllDiverged, analysis.NoneCompared:
				facts = f.Values
			case analysis.RunMissing: // words for some states
				facts = facts[len(f.Values):]
			case analysis.FewSeeds:
			case analysis.AdjustedAll, analysis.AdjustedPlanned: // the method in words
				facts = []string{fmt.Sprint(f.Count)}
			default:
				if f.Count > 0 {
					facts = append(facts, fmt.Sprint(f.Count))
				}
			}
			for _, fact := range facts {
				if !strings.Contains(s, fact) {
					t.Errorf("%s: no %q in %q", f.Kind, fact, s)
				}
			}
			if s == "" {
				t.Errorf("%s: no sentence", f.Kind)
			}
		}
		text := a.Verdict.text()
		for _, never := range []string{"NaN", "%!", "..", "  ", "-0.0 ", "n/a"} {
			if strings.Contains(text, never) {
				t.Errorf("it says %q\n%s", never, text)
			}
		}
		for _, s := range strings.Split(text, "\n") {
			if first := s[:1]; first != strings.ToUpper(first) || !strings.HasSuffix(s, ".") {
				t.Errorf("no capital or no full stop: %s", s)
			}
		}
	}
	for _, tt := range verdictCases() {
		check(mustReport(t, tt.sweep))
	}
	check(mustReport(t, temperatures("")))
	mixed := reporttest.BaselineSweep(3)
	for i, s := range mixed.Runs {
		s.Run.Meta, s.Run.Config = &rundir.Meta{Version: fmt.Sprint(i),
			InputFiles: map[string]string{"train.jsonl": fmt.Sprint(i)}}, []byte("seed: 1\n")
	}
	check(mustReport(t, mixed))
	tuned := reporttest.TunedSweep(1)
	for i := range tuned.Runs[:2] {
		tuned.Runs[i].Run, tuned.Runs[i].State = nil, sweepdir.Missing
	}
	check(mustReport(t, tuned))
	check(mustReport(t, halved()))
	check(mustReport(t, smollm2Rates()))
	check(mustReport(t, collapsing()))
	check(mustReport(t, onTestOnly()))
	damaged := reporttest.BaselineSweep(2)
	for _, s := range damaged.Runs[:2] {
		s.Run.Evals, s.Run.Missing = nil, []string{rundir.EvalFile}
	}
	check(mustReport(t, damaged))
	added := reporttest.RateSweep(4)
	added.Manifest.Added = []sweepdir.Addition{{Seeds: added.Manifest.Seeds[2:], Finished: 1, Runs: 1}}
	if text := mustReport(t, added).Verdict.text(); !strings.Contains(text, "4 seeds (comparisons leave out seeds 3, 4)") {
		t.Error(text)
	}
	recorded := reporttest.Record(128, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.8, .01, 1)},
		reporttest.FakeArm{Name: "y", Run: reporttest.Around(.7, .01, 2)})
	check(mustReport(t, reporttest.FakeSweep(4, recorded...)))
	for kind := range unseen {
		t.Errorf("no sweep shows %s", kind)
	}
}

// noisyVerifiers is a sweep over the errors of the verifier: the policy is clearly worse from 30% wrong verdicts and from
// 40% false positives on. The last arm differs in another key, too, and is in no line.
func noisyVerifiers() *sweepdir.Sweep {
	var arms []reporttest.FakeArm
	for i, c := range []struct {
		name, p, q, loss string
		final            float64
	}{
		{"exact", "0", "0", "a", .93}, {"20 both", "0.2", "0.2", "a", .925}, {"10 both", "0.1", "0.1", "a", .93},
		{"30 both", "0.3", "0.3", "a", .6}, {"40 positives", "0.4", "0", "a", .5}, {"40 negatives", "0", "0.4", "a", .928},
		{"other loss", "0.1", "0.1", "b", .3},
	} {
		arms = append(arms, reporttest.FakeArm{Name: c.name, Run: reporttest.Around(c.final, .01, uint64(40+i)),
			Set: []sweepdir.Override{{Key: "reward.noise.false_positive", Value: c.p},
				{Key: "reward.noise.false_negative", Value: c.q}, {Key: "algorithm.loss_type", Value: c.loss}}})
	}
	sw := reporttest.FakeSweep(4, arms...)
	sw.Manifest.Reference = "exact"
	sw.Manifest.Varied = []string{"algorithm.loss_type", "reward.noise.false_negative", "reward.noise.false_positive"}
	return sw
}

// findingKinds are the kinds in findings.go that are not only parts of other findings.
func findingKinds(t *testing.T) map[analysis.Kind]bool {
	source, err := os.ReadFile("../analysis/findings.go")
	expect.OK(t, err)
	kinds := map[analysis.Kind]bool{}
	for _, m := range regexp.MustCompile(`Kind = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		kinds[analysis.Kind(m[1])] = true
	}
	for _, part := range []analysis.Kind{
		analysis.Effect, analysis.Difference, analysis.StillRising, analysis.SeedsStayed, analysis.SeedsLearned,
		analysis.GainByFormat, analysis.GainByAnswers, analysis.ArmStopped, analysis.ClearlyWorse,
		analysis.SeedsCollapsed, analysis.CollapsesMore, analysis.LookOut, analysis.LookEnd, analysis.RungConverged,
	} {
		delete(kinds, part)
	}
	return kinds
}

// planned is a sweep of three arms with looks at 4, 8 and 16 seeds, trained up to a number of seeds but without the
// last of each arm. At 4 seeds the second arm is beaten, and at 8 the sweep ends.
func planned(seeds, without int) *sweepdir.Sweep {
	sw := reporttest.FakeSweep(16, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)},
		reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}, reporttest.FakeArm{Name: "z", Run: reporttest.Around(.9, .01, 3)})
	m := &sw.Manifest
	m.Looks = []sweepdir.Look{{Seeds: 4, Level: .025}, {Seeds: 8, Level: .0125}, {Seeds: 16, Level: .0125}}
	if seeds == 8 {
		m.Looks[0].Taken = &sweepdir.Decision{GoOn: []int{0, 2}, Out: []sweepdir.ArmOut{{Arm: 1, Why: sweepdir.OutBeaten}}}
		m.Looks[1].Taken = &sweepdir.Decision{Ended: sweepdir.EndFutile}
	}
	for i, s := range sw.Runs {
		if s.Seed > uint64(seeds-without) || m.IsStopped(s.Entry) {
			s.Run, s.State = nil, sweepdir.Missing
			sw.Runs[i] = m.Settle(s)
		}
	}
	return sw
}

// counted is an arm with these right answers of so many problems, seed by seed.
func counted(name string, problems int, right ...int) reporttest.FakeArm {
	return reporttest.FakeArm{Name: name, Point: []string{name}, Set: []sweepdir.Override{{Key: analysis.RateKey, Value: name}},
		Run: func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .127, Final: float64(right[seed-1]) / float64(problems), Problems: problems}
		}}
}

// smollm2Rates are the final rewards of SmolLM2's learning rates on 128 problems.
func smollm2Rates() *sweepdir.Sweep {
	sw := reporttest.FakeSweep(4, counted("1e-5", 128, 114, 108, 110, 117), counted("3e-5", 128, 103, 111, 116, 109),
		counted("5e-5", 128, 100, 73, 98, 94), counted("0.0001", 128, 15, 32, 47, 81))
	sw.Manifest.Axes = reporttest.RatesAxis("1e-5", "3e-5", "5e-5", "0.0001")
	sw.Manifest.Axes[0].Written = sw.Manifest.Axes[0].Values
	return sw
}

// collapsing has an arm of which six of eight seeds end below half of their best, and one where all hold.
func collapsing() *sweepdir.Sweep {
	sw := reporttest.FakeSweep(8, counted("x", 1024, 900, 905, 910, 900, 905, 910, 900, 905), counted("y", 1024, 50, 40, 900, 60, 50, 40, 905, 60), counted("z", 1024, 890, 905, 915, 903, 895, 911, 907, 905))
	for _, s := range sw.Runs {
		s.Run.Result.Best.Sampled.AnswerReward = max(.9, s.Run.Result.Best.Sampled.AnswerReward)
	}
	return sw
}

// onTestOnly is a difference that the test problems do not show.
func onTestOnly() *sweepdir.Sweep {
	sw := reporttest.FakeSweep(4, counted("x", 1024, 900, 905, 910, 900), counted("y", 1024, 930, 933, 941, 929))
	for i, s := range sw.Runs {
		s.Run.Result.Test.Sampled.AnswerReward = .8 + .001*float64(i%3)
	}
	return sw
}

// halved is a sweep of two seeds in which successive halving stopped the first of five arms.
func halved() *sweepdir.Sweep {
	sw := reporttest.RateSweep(2)
	sw.Manifest.Halving = &sweepdir.Halving{Rungs: []sweepdir.Rung{{
		Step: 40, Ranking: []sweepdir.Ranked{{Arm: 2, Reward: .5}, {Arm: 0, Reward: .3}}, Stopped: []int{0},
	}}}
	for i := range sw.Runs {
		if s := &sw.Runs[i]; s.Arm == 0 {
			s.State, s.Run.Result = sweepdir.Stopped, nil
		}
	}
	return sw
}

// onTestReversed has an arm with the highest mean that the test problems put behind another one.
func onTestReversed() *sweepdir.Sweep {
	sw := reporttest.FakeSweep(4, counted("x", 1024, 900, 905, 910, 900), counted("y", 1024, 930, 933, 901, 929),
		counted("z", 1024, 500, 510, 505, 509))
	for _, s := range sw.Runs {
		s.Run.Result.Test.Sampled.AnswerReward = []float64{.8, .78, .4}[s.Arm] + .001*float64(s.Seed)
	}
	return sw
}

// The answer to a sweep of learning rates, in words.
func TestRaceInWords(t *testing.T) {
	a := mustReport(t, smollm2Rates())
	want := "Learning rate 1e-5 has the highest mean validation reward, 87.7% [82.7, 92.7] (85.5% when chosen by the other " +
		"seeds), 4 seeds. 0.0001 is clearly worse than 1e-5 (by 53.5 points [20.8, 86.2], p = 0.024) and than 3e-5 " +
		"(p = 0.026). 3e-5 and 5e-5 can still be the best: 3e-5 differs by at most 9.6 points; 5e-5 is 16.4 points lower " +
		"[3.4, 29.4], p = 0.079 among 6"
	if !strings.HasPrefix(a.Verdict.Headline, want) {
		t.Errorf("got  %s\nwant %s", a.Verdict.Headline, want)
	}
	wantFinding(t, a, finding{Kind: analysis.FewProblems, Count: 128})
	wantFinding(t, a, finding{Kind: analysis.SeedsSee, Count: 4, Of: 84})
	wantFinding(t, mustReport(t, onTestOnly()), finding{Kind: analysis.NotOnTest, Parts: []finding{{Kind: analysis.Beats, Arms: []int{1, 0}}}})
	grid := reporttest.GridSweep(4)
	for i, s := range grid.Runs {
		s.Run.Result.Test.Sampled.AnswerReward = .8 + .001*float64(i%3)
	}
	a = mustReport(t, grid)
	wantFinding(t, a, finding{Kind: analysis.NotOnTest, Parts: []finding{
		{Kind: analysis.MainEffect, Keys: []string{"loss_type", "length_normalization"}},
		{Kind: analysis.MainEffect, Keys: []string{"length_normalization", "loss_type"}}, {Kind: analysis.Reversal}}})
	for _, want := range []string{"p < 0.001; on the test problems 0.0 points [-0.3, 0.2])", "the effect of loss_type depends on " +
		"length_normalization on the validation problems only: on the test problems of the same runs the difference is"} {
		if !strings.Contains(a.Verdict.text(), want) {
			t.Errorf("no %q in %s", want, a.Verdict.text())
		}
	}
	wantFinding(t, mustReport(t, collapsing()), finding{Kind: analysis.CollapseRate, Parts: []finding{
		{Kind: analysis.SeedsCollapsed, Arms: []int{1}, Count: 6, Of: 8}, {Kind: analysis.SeedsCollapsed, Arms: []int{0, 2}, Of: 8},
		{Kind: analysis.CollapsesMore, Arms: []int{1, 0, 2}}}})
}

// Three sentences in full.
func TestSentences(t *testing.T) {
	for _, tt := range []struct {
		sweep *sweepdir.Sweep
		kind  analysis.Kind
		want  string
	}{
		{reporttest.BaselineSweep(4), analysis.Beats,
			`"reinforce_with_baseline" beats "no_baseline" by 13.9 points [12.4, 15.4], 4 seeds; on the test problems 13.9 points [12.4, 15.5]`},
		{reporttest.RateSweep(4), analysis.BestRate,
			"learning rate 0.001 has the highest mean validation reward, 91.8% [90.9, 92.7] (91.8% when chosen by the other " +
				"seeds), 4 seeds. 0.01 is clearly worse than 0.001 (by 90.9 points [90.2, 91.6], p < 0.001) and than 3 others. " +
				"0.0001 is clearly worse than 0.001 (by 35.2 points [33.8, 36.6], p < 0.001) and than 2 others. " +
				"0.0003 is clearly worse than 0.001 (by 15.3 points [13.2, 17.4], p < 0.001) and than 0.003 (p = 0.003). " +
				"0.003 can still be the best: 0.003 differs by at most 4.0 points. On the test problems it is ahead of 0.003 by " +
				"2.2 points [-0.1, 4.6], of 0.01 by 90.9 points [90.2, 91.7], of 0.0001 by 35.2 points [33.9, 36.6] and " +
				"of 0.0003 by 15.3 points [13.2, 17.4]; 0.0001 and 0.0003 learn slowly; 0.01 collapses"},
		{reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)},
			reporttest.FakeArm{Name: "right", Control: true, Run: reporttest.Around(.95, .01, 2)}), analysis.ControlGained,
			`control "right": did not collapse but gained 75.2 points [73.4, 76.9] over the base level`},
		{reporttest.ClipSweep(4), analysis.ClipHolds,
			`off-policy, with 4 updates a step and without a clip, "free" collapses: diverged in 4 of 4 seeds (step 70), ` +
				`final reward 9.5% [8.1, 10.9], below the base level of 19.7%. With a clip the policy held in these seeds: ` +
				`"symmetric" at 67.8% [64.6, 70.9] (the clip binds on 12.0% of the tokens)`},
		{onTestReversed(), analysis.Race,
			`"y" has the highest mean, 90.2% [87.8, 92.5] (90.2% when chosen by the other seeds), 4 seeds. "z" is clearly worse ` +
				`than "x" (by 38.8 points [37.9, 39.8], p < 0.001) and than "y" (p < 0.001). "x" can still be the best: "x" ` +
				`differs by at most 4.1 points. On the test problems it is ahead of "z" by 38.0 points [37.8, 38.2], and behind ` +
				`"x" by 2.0 points [1.8, 2.2]`},
	} {
		a := mustReport(t, tt.sweep)
		i := slices.IndexFunc(a.Findings, func(f finding) bool { return f.Kind == tt.kind })
		if i < 0 {
			t.Fatalf("no %s", tt.kind)
		}
		if got := a.sentence(&a.Findings[i]); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The differences next to a claim are those that its mean is of: not those of seeds that were added, or that chose.
func TestDifferencesAreThoseOfTheClaim(t *testing.T) {
	added := func(sw *sweepdir.Sweep) *sweepdir.Sweep {
		seeds := sw.Manifest.Seeds
		sw.Manifest.Added = []sweepdir.Addition{{Seeds: seeds[4:], Finished: 8, Runs: 8}}
		return sw
	}
	tuned := reporttest.TunedSweep(8)
	tuned.Manifest.Looks = []sweepdir.Look{{Seeds: 4, Choice: true, Taken: &sweepdir.Decision{GoOn: []int{1, 2}}}, {Seeds: 8, Level: .05}}
	for name, sw := range map[string]*sweepdir.Sweep{
		"added": added(reporttest.BaselineSweep(8)), "grid": added(reporttest.GridSweep(8)), "chosen": tuned,
	} {
		a := mustReport(t, sw)
		from := 0
		if name == "chosen" {
			from = 4
		}
		check := func(what string, values []float64, n int, mean float64) {
			t.Helper()
			got, _, _ := stats.MeanSD(values)
			if len(values) != 8 || len(stats.Finite(values)) != n || n != 4 || !stats.IsFinite(values[from]) || math.Abs(got-mean) > 1e-12 {
				t.Errorf("%s: %s: mean %v of %d seeds, and the differences are %v", name, what, mean, n, values)
			}
		}
		for _, c := range a.Comparisons {
			if c.N > 0 && c.Metric != "steps_to_90" && c.Metric != "steps_to_50" {
				check(c.Metric, c.Diffs, c.N, c.Mean)
			}
		}
		for _, f := range a.FindingsOf(analysis.Interaction, analysis.Reversal) {
			for _, part := range f.Parts {
				check(string(part.Kind), part.Numbers.Values, part.Numbers.N, part.Numbers.Mean)
			}
		}
		final := a.comparisonsTable(true)
		for _, row := range final.Rows {
			if each := row.Cells[3].Text; strings.Count(strings.ReplaceAll(each, "-, ", ""), ",") != 3 {
				t.Errorf("%s: each seed: %s", name, each)
			}
		}
	}
	// The means of the arms in a sentence differ by the difference next to them.
	for _, f := range mustReport(t, added(reporttest.BaselineSweep(8))).FindingsOf(analysis.ShortCompletion) {
		a := mustReport(t, added(reporttest.BaselineSweep(8)))
		w := words{a, &f.Parts[0]}
		if got := w.PairMean(0) - w.PairMean(1); math.Abs(got-f.Parts[0].Numbers.Mean) > 1e-9 {
			t.Errorf("the means are %v apart, the difference is %v", got, f.Parts[0].Numbers.Mean)
		}
	}
}

// What makes an arm that did not diverge a collapsed one is stated.
func TestEndingOfACollapse(t *testing.T) {
	arm := func(name string, final float64) reporttest.FakeArm {
		return reporttest.FakeArm{Name: name, Run: func(uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .5, Final: final, Problems: 1000}
		}}
	}
	a := mustReport(t, reporttest.FakeSweep(1, arm("x", .9), arm("y", .2)))
	if got, want := (words{a, &finding{Arms: []int{1}}}).Execute("ending"), "final reward 20.0%, below half of its best, 50.0%"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What there is not is not spoken of: an interval of one seed, and test problems.
func TestCaveatsOfOneSeed(t *testing.T) {
	caveats := func(seeds int) string {
		return strings.Join(mustReport(t, reporttest.BaselineSweep(seeds)).Verdict.Caveats, "\n")
	}
	if two := caveats(2); !strings.Contains(two, "In brackets: 95% intervals") || !strings.Contains(two, "the test problems were evaluated once") {
		t.Error(two)
	}
	if one := caveats(1); strings.Contains(one, "In brackets") {
		t.Error(one)
	}
	sw := reporttest.BaselineSweep(2)
	for i := range sw.Runs {
		sw.Runs[i].Run.Result.Test = nil
	}
	a := mustReport(t, sw)
	if all := strings.Join(a.Verdict.Caveats, "\n"); strings.Contains(all, "test problems") || !strings.Contains(all, "chosen on the validation problems.") {
		t.Error(all)
	}
}

// With other names for the arms the findings are the same.
func TestFindingsDoNotReadNames(t *testing.T) {
	for _, build := range []func(int) *sweepdir.Sweep{reporttest.BaselineSweep, reporttest.ClipSweep, reporttest.RewardSweep, reporttest.RateSweep} {
		sw := build(4)
		before, err := rundir.Marshal(mustReport(t, sw).Findings)
		expect.OK(t, err)
		m := &sw.Manifest
		for i := range m.Arms {
			if m.Arms[i].Name == m.Reference {
				m.Reference = fmt.Sprintf("<%d>", i)
			}
			m.Arms[i].Name, m.Arms[i].Label = fmt.Sprintf("<%d>", i), fmt.Sprintf("<%d>", i)
		}
		after, err := rundir.Marshal(mustReport(t, sw).Findings)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%v, with names:\n%s\nwithout:\n%s", err, before, after)
		}
	}
}

// Arms that start apart have no common base level in a table either.
func TestTablesOfArmsThatStartApart(t *testing.T) {
	a := mustAnalyse(t, reporttest.StartApart(reporttest.DrawnSweep(3, nil, reporttest.ManyArms(2)...)))
	own := analysis.Decimals(a.Arms[1].Of(analysis.InitialMetric).Mean, 3)
	if got, want := strings.Join(New(a).tableNotes(), " "), "Base level (before training) by arm: arm number 0 0.017, arm number 1 "+own; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
	var b bytes.Buffer
	if err := WriteSweepSummary(&b, New(a), "all"); err != nil || !strings.Contains(b.String(), "base level by arm: arm number 0 0.017, arm number 1 "+own+"; majority-answer baseline") {
		t.Errorf("%v: %s", err, b.String())
	}
}
