package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"grpo/internal/reporttest"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func mustReport(t testing.TB, sw *sweepdir.Sweep) *Report {
	t.Helper()
	return New(mustAnalyse(t, sw))
}

// text is everything that a verdict says.
func (v Verdict) text() string {
	return strings.Join(append(append(append([]string{v.Headline}, v.Lines...), v.Missing...), v.Caveats...), "\n")
}

func TestVerdict(t *testing.T) {
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
	always := func(f reporttest.FakeRun) func(uint64) reporttest.FakeRun {
		return func(uint64) reporttest.FakeRun { return f }
	}
	for _, tt := range []struct {
		name     string
		sweep    *sweepdir.Sweep
		headline string // its beginning
		want     []string
		never    []string
	}{
		{"a clear difference", reporttest.BaselineSweep(4),
			"reinforce_with_baseline beats no_baseline by 13.9 points [12.4, 15.4], 4 seeds.",
			[]string{
				"no_baseline falls into short completions: 14.6 tokens, where reinforce_with_baseline writes 24.6",
				"Held fixed: algorithm.length_normalization=masked_mean.",
				"All arms ran at learning rate 0.001.", "not other base models",
			}, []string{"not separable", "more than one key"}},
		{"no difference", two(noise4(0.9, 10), noise4(0.9, 20)),
			"y and x are not separable with 4 seeds (difference", []string{"would be needed to see a difference of this size"}, []string{"beats"}},
		{"the same in every seed", two(always(reporttest.FakeRun{Initial: .2, Final: .5, Greedy: .9}), always(reporttest.FakeRun{Initial: .2, Final: .5, Greedy: .9})),
			"x and y are not separable with 4 seeds (no difference in any of them).", nil, []string{"beats", "NaN", "more than 1000"}},
		{"apart by one problem in every seed", two(always(reporttest.FakeRun{Final: 500. / 1024}), always(reporttest.FakeRun{Final: 501. / 1024})),
			"y and x are not separable with 4 seeds (difference 0.1 points [-0.1, 0.3])", nil, []string{"beats"}},
		{"apart by everything in every seed", two(always(reporttest.FakeRun{Final: 0, Problems: 128}), always(reporttest.FakeRun{Final: 1, Problems: 128})),
			"y beats x by 100.0 points [98.8, 100.0], 4 seeds.", nil, []string{"not separable"}},
		{"a seed that did not learn", two(noise4(0.9, 10), func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: []float64{.82, .16, .85, .82}[seed-1]}
		}), "x and y are not separable",
			[]string{"y is bimodal across seeds: 1 of 4 seeds did not learn (seed 2, at 16.0%; before training 20.0%), the others end at 82.0% to 85.0%. Its mean"}, []string{"x is bimodal"}},
		{"seeds that stayed where they were", two(noise4(0.9, 10), func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: []float64{.2, .5, .21, .5}[seed-1]}
		}), "", []string{"y is bimodal across seeds: 2 of 4 seeds did not learn (seeds 1, 3, at 20.0% to 21.0%; before training 20.0%), the others end at 50.0%."}, nil},
		{"seeds far apart that all learned", two(noise4(0.9, 10), func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: []float64{.3, .9, .5, .9}[seed-1]}
		}), "", nil, []string{"bimodal"}},
		{"seeds that hardly learned", two(noise4(0.9, 10), func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: []float64{.21, .26, .2, .27}[seed-1]}
		}), "", nil, []string{"bimodal"}},
		{"at the ceiling", two(always(reporttest.FakeRun{Initial: .2, Final: 1}), always(reporttest.FakeRun{Initial: .2, Final: .995})),
			"", []string{"at the ceiling of the measure"}, nil},
		{"at the floor", two(always(reporttest.FakeRun{Final: 0}), always(reporttest.FakeRun{Final: .005})),
			"", []string{"at the floor of the measure"}, []string{"ceiling"}},
		{"one seed", reporttest.FakeSweep(1, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}),
			"x and y can't be told apart with 1 seed (difference", []string{"One seed shows what happened once"}, []string{"beats", "n/a", "1 seeds"}},
		{"one arm", reporttest.FakeSweep(2, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}),
			"x ends at", []string{"there is nothing to compare it with", "With 2 seeds only large differences"}, nil},
		{"nothing begun", two(always(reporttest.FakeRun{State: sweepdir.Missing}), always(reporttest.FakeRun{State: sweepdir.Missing})),
			"Nothing can be said yet: none of 8 runs has its result.",
			[]string{"8 of 8 runs have no result", "x, seed 1: not begun.", "y, seed 4: not begun."}, []string{"NaN", "n/a"}},
		{"half-finished", two(noise4(0.9, 10), unfinished(rundir.StateRunning)),
			"So far, with 6 of 8 runs: ", []string{"2 of 8 runs have no result; comparisons use the seeds that both arms have.", "y, seed 3: running after step 40.", "with 2 seeds"}, nil},
		{"an arm failed", two(noise4(0.9, 10), unfinished(rundir.StateFailed)),
			"So far, with 6 of 8 runs: ", []string{"y, seed 3: failed: panic: index out of range."}, nil},
		{"learning rates", reporttest.RateSweep(4),
			"learning rate 0.001 has the highest mean validation reward, 91.8% [90.9, 92.7], 4 seeds, not separable from 0.003; 0.0001 and 0.0003 learn slowly; 0.01 collapses.",
			[]string{
				"0.0001 learns slowly: 56.6% [55.3, 57.9] after 200 steps, 35.2 points [33.8, 36.6] behind the best, still rising",
				"0.01 collapses: diverged in 4 of 4 seeds (steps 10 to 20), final reward 0.9% [0.4, 1.3], below the base level of 19.7%.",
				"over all 10 pairs of arms",
			}, []string{"All arms ran at learning rate", "may be better", "0.001 is best", "0.001 has the highest mean: 91.8% [90.9, 92.7] after 200 steps, still"}},
		{"the best rate is the last", change(reporttest.RateSweep(4), func(m *sweepdir.Manifest) {
			for i, v := range []string{"0.00001", "0.00003", "1", "0.0001", "0.00002"} {
				m.Arms[i].Point = []string{v}
			}
		}), "learning rate 1 has the highest mean", []string{"The highest mean is at the largest rate with a result (1): a larger one may be better."}, nil},
		{"an interaction", reporttest.GridSweep(4),
			"the effect of loss_type reverses with length_normalization: reinforce_with_baseline instead of no_baseline changes the final reward by 10.9 points",
			[]string{
				"with baseline, masked_mean beats no_baseline, masked_mean by 10.9 points",
				"with baseline, masked_normalize is beaten by no_baseline, masked_normalize (difference -4.5 points",
				"The short completions belong to loss_type no_baseline together with length_normalization masked_mean: length_normalization masked_normalize (24.6 tokens) or",
			}, []string{"more than one key"}},
		{"a grid with a stowaway", change(reporttest.GridSweep(4), func(m *sweepdir.Manifest) {
			m.Varied = append(m.Varied, "train.max_grad_norm")
			for i, e := range m.Runs {
				m.Runs[i].Config += fmt.Sprintf("train:\n  max_grad_norm: %d\n", e.Arm/2)
			}
		}), "the effect of", []string{"Some arms differ in more than one key (no_baseline, masked_normalize and no_baseline, masked_mean: algorithm.length_normalization, train.max_grad_norm; "}, nil},
		{"held by the clip", reporttest.ClipSweep(4),
			"on-policy has the highest mean",
			[]string{
				"free diverged in 4 of 4 seeds (step 70); the last evaluation counts as its final reward: 9.5%",
				"off-policy, with 4 updates a step and without a clip, free falls apart: diverged in 4 of 4 seeds (step 70), final reward 9.5% [8.1, 10.9], below the base level of 19.7%. With a clip",
				"the policy holds: symmetric at 67.8% [64.6, 70.9] (the clip binds on 12.0% of the tokens).",
				"symmetric falls into short completions: 19.6 tokens",
			}, []string{"hacked", "free falls into short"}},
		{"controls", reporttest.RewardSweep(4),
			"plain reward has the highest mean",
			[]string{
				"control style: the format is hacked: format reward 1.00 with answer reward 0.02 and 8.0 tokens a completion",
				"control coin: collapsed as it must (diverged in 4 of 4 seeds (step 20), final reward 0.0% [0.0, 0.2], below the base level of 19.7%).",
			}, []string{"coin diverged in", "falls into short"}},
		{"a control that learns", reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "coin", Control: true, Run: reporttest.Around(.95, .01, 2)}),
			"", []string{"control coin: did not collapse but gained"}, []string{"as it must", "coin has the best", "coin has the highest"}},
		{"all diverge", two(reporttest.With(reporttest.Around(.1, .01, 1), func(f *reporttest.FakeRun) { f.Diverged = 7 }), reporttest.With(reporttest.Around(.05, .01, 2), func(f *reporttest.FakeRun) { f.Diverged = 9 })),
			"x beats y by", []string{"x diverged in 4 of 4 seeds (step 7)", "y diverged in 4 of 4 seeds (step 9)"}, []string{"has the best mean", "has the highest mean"}},
		{"several keys at once", change(reporttest.BaselineSweep(4), func(m *sweepdir.Manifest) { m.Varied = []string{"algorithm.loss_type", "train.max_grad_norm"} }),
			"", []string{"The arms differ in more than one key (algorithm.loss_type, train.max_grad_norm)"}, nil},
		{"the manifest's notes", change(reporttest.BaselineSweep(4), func(m *sweepdir.Manifest) { m.Notes = []string{"reverses under masked_normalize"} }),
			"", []string{"reverses under masked_normalize."}, nil},
		{"three arms with a reference", change(reporttest.FakeSweep(4, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}, reporttest.FakeArm{Name: "z", Run: reporttest.Around(.9, .01, 3)}),
			func(m *sweepdir.Manifest) { m.Reference = "y" }),
			"y ends at", []string{"it is beaten by x (by 39.1 points [36.6, 41.5]) and z (by", "x beats y by", "z beats y by", "over the 2 comparisons"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := mustReport(t, tt.sweep).Verdict
			if !strings.HasPrefix(v.Headline, tt.headline) {
				t.Errorf("headline %q\nwant      %q", v.Headline, tt.headline)
			}
			text := v.text()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q\n%s", want, text)
				}
			}
			for _, never := range append(tt.never, "NaN", "%!", "..", "  ", "-0.0 ") {
				if strings.Contains(text, never) {
					t.Errorf("it says %q\n%s", never, text)
				}
			}
		})
	}
}

// What is named is found by the numbers: with other names for the arms the
// verdict is the same but for them.
func TestVerdictDoesNotReadNames(t *testing.T) {
	for _, build := range []func(int) *sweepdir.Sweep{reporttest.BaselineSweep, reporttest.ClipSweep, reporttest.RewardSweep, reporttest.RateSweep} {
		sw := build(4)
		before := mustReport(t, sw).Verdict.text()
		m := &sw.Manifest
		for i := range m.Arms {
			if m.Arms[i].Name == m.Reference {
				m.Reference = fmt.Sprintf("<%d>", i)
			}
			before = strings.ReplaceAll(before, m.Arms[i].Label, fmt.Sprintf("<%d>", i))
			m.Arms[i].Name, m.Arms[i].Label = fmt.Sprintf("<%d>", i), fmt.Sprintf("<%d>", i)
		}
		after := mustReport(t, sw).Verdict.text()
		// "learning rate 0.001" is an arm's label and, in two sentences, the rate.
		for i := range m.Arms {
			if p := m.Arms[i].Point; len(p) > 0 {
				after = strings.ReplaceAll(after, "learning rate "+p[0], fmt.Sprintf("<%d>", i))
			}
		}
		if before != after {
			t.Errorf("with names:\n%s\nwithout:\n%s", before, after)
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
	if err := WriteSweepSummary(&b, New(a)); err != nil || !strings.Contains(b.String(), "base level by arm: arm number 0 0.017, arm number 1 "+own+"; majority-answer baseline") {
		t.Errorf("%v: %s", err, b.String())
	}
}
