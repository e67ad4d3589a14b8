package report

import (
	"fmt"
	"strings"
	"testing"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// rateSweep is a learning-rate sweep with the shape of the assignment's.
func rateSweep(n int) *sweepdir.Sweep {
	arm := func(value string, run func(uint64) fakeRun) fakeArm {
		return fakeArm{name: "lr=" + value, set: []sweepdir.Override{{Key: rateKey, Value: value}}, point: []string{value}, run: run}
	}
	sw := fakeSweep(n,
		arm("0.0001", with(around(0.56, 0.012, 10), func(f *fakeRun) { f.linear, f.rate = true, 1e-4 })),
		arm("0.0003", with(around(0.75, 0.012, 20), func(f *fakeRun) { f.linear, f.rate = true, 3e-4 })),
		arm("0.001", around(0.933, 0.012, 30)),
		arm("0.003", with(around(0.92, 0.03, 40), func(f *fakeRun) { f.rate = 3e-3 })),
		arm("0.01", func(seed uint64) fakeRun {
			f := around(0.01, 0.004, 50)(seed)
			f.best, f.diverged, f.length, f.format, f.rate = 0.3, 10+10*int(seed%2), 46, 0.1, 1e-2
			return f
		}),
	)
	m := &sw.Manifest
	m.Command, m.Name, m.Title, m.Question = "sweep", "lr", "Learning rate", "Which learning rate?"
	m.Axes = []sweepdir.Axis{{Key: rateKey, Label: "learning rate", Short: "lr", Values: []string{"0.0001", "0.0003", "0.001", "0.003", "0.01"}, Log: true}}
	m.Varied = []string{rateKey}
	for i := range m.Arms {
		m.Arms[i].Label = "learning rate " + m.Arms[i].Point[0]
	}
	return sw
}

func shortRun(mean float64, purpose uint64) func(uint64) fakeRun {
	return with(around(mean, 0.012, purpose), func(f *fakeRun) { f.length -= 10 })
}

func baselineSweep(n int) *sweepdir.Sweep {
	sw := fakeSweep(n,
		fakeArm{name: "no_baseline", run: shortRun(0.80, 10)},
		fakeArm{name: "reinforce_with_baseline", run: around(0.93, 0.012, 20)})
	m := &sw.Manifest
	m.Question, m.Reference = "Does a baseline help?", "no_baseline"
	m.Fixed = []sweepdir.Override{{Key: "algorithm.length_normalization", Value: "masked_mean"}}
	m.Varied = []string{"algorithm.loss_type"}
	return sw
}

// gridSweep is baseline x length normalization as BASE_MODEL's figures have it.
func gridSweep(n int) *sweepdir.Sweep {
	set := func(loss, norm string) []sweepdir.Override {
		return []sweepdir.Override{{Key: "algorithm.loss_type", Value: loss}, {Key: "algorithm.length_normalization", Value: norm}}
	}
	sw := fakeSweep(n,
		fakeArm{name: "no_baseline, masked_mean", set: set("no_baseline", "masked_mean"), run: shortRun(0.80, 10)},
		fakeArm{name: "with baseline, masked_mean", set: set("reinforce_with_baseline", "masked_mean"), run: around(0.90, 0.012, 20)},
		fakeArm{name: "no_baseline, masked_normalize", set: set("no_baseline", "masked_normalize"), run: around(0.94, 0.012, 30)},
		fakeArm{name: "with baseline, masked_normalize", set: set("reinforce_with_baseline", "masked_normalize"), run: around(0.89, 0.012, 40)},
	)
	m := &sw.Manifest
	m.Varied = []string{"algorithm.length_normalization", "algorithm.loss_type"}
	for i, e := range m.Runs {
		m.Runs[i].Config = fmt.Sprintf("algorithm:\n  loss_type: %s\n  length_normalization: %s\n", m.Arms[e.Arm].Set[0].Value, m.Arms[e.Arm].Set[1].Value)
	}
	return sw
}

func clipSweep(n int) *sweepdir.Sweep {
	sw := fakeSweep(n,
		fakeArm{name: "on-policy", run: around(0.93, 0.012, 10)},
		fakeArm{name: "symmetric", run: with(around(0.64, 0.03, 20), func(f *fakeRun) { f.updates, f.clip, f.length = 4, 0.12, 19.6 })},
		fakeArm{name: "free", run: with(around(0.12, 0.02, 30), func(f *fakeRun) { f.updates, f.best, f.diverged, f.length = 4, 0.6, 70, 23.6 })})
	sw.Manifest.Reference = "on-policy"
	return sw
}

func rewardSweep(n int) *sweepdir.Sweep {
	sw := fakeSweep(n,
		fakeArm{name: "plain reward", run: around(0.93, 0.012, 10)},
		fakeArm{name: "style", control: true, run: with(around(0.02, 0.003, 20), func(f *fakeRun) { f.length, f.paid = 8+f.entropy, 1 })},
		fakeArm{name: "coin", control: true, run: with(around(0.002, 0.001, 30), func(f *fakeRun) { f.length, f.format, f.best, f.diverged = 46, 0.05, 0.3, 20 })})
	sw.Manifest.Reference = "plain reward"
	return sw
}

func mustReport(t testing.TB, sw *sweepdir.Sweep) *Report {
	t.Helper()
	return New(mustAnalyse(t, sw))
}

// text is everything that a verdict says.
func (v Verdict) text() string {
	return strings.Join(append(append(append([]string{v.Headline}, v.Lines...), v.Missing...), v.Caveats...), "\n")
}

func TestVerdict(t *testing.T) {
	noise4 := func(mean float64, purpose uint64) func(uint64) fakeRun { return around(mean, 0.03, purpose) }
	unfinished := func(state string) func(uint64) fakeRun {
		run := around(0.93, 0.012, 30)
		return func(seed uint64) fakeRun {
			f := run(seed)
			if seed > 2 {
				f.state, f.err = state, "panic: index out of range"
			}
			return f
		}
	}
	two := func(x, y func(uint64) fakeRun) *sweepdir.Sweep {
		return fakeSweep(4, fakeArm{name: "x", run: x}, fakeArm{name: "y", run: y})
	}
	change := func(sw *sweepdir.Sweep, f func(*sweepdir.Manifest)) *sweepdir.Sweep {
		f(&sw.Manifest)
		return sw
	}
	always := func(f fakeRun) func(uint64) fakeRun { return func(uint64) fakeRun { return f } }
	for _, tt := range []struct {
		name     string
		sweep    *sweepdir.Sweep
		headline string // its beginning
		want     []string
		never    []string
	}{
		{"a clear difference", baselineSweep(4),
			"reinforce_with_baseline beats no_baseline by 13.9 points [12.4, 15.4], 4 seeds.",
			[]string{
				"no_baseline falls into short completions: 14.6 tokens, where reinforce_with_baseline writes 24.6",
				"Held fixed: algorithm.length_normalization=masked_mean.",
				"All arms ran at learning rate 0.001.", "not other base models",
			}, []string{"not separable", "more than one key"}},
		{"no difference", two(noise4(0.9, 10), noise4(0.9, 20)),
			"y and x are not separable with 4 seeds (difference", []string{"would be needed to see a difference of this size"}, []string{"beats"}},
		{"the same in every seed", two(always(fakeRun{initial: .2, final: .5, greedy: .9}), always(fakeRun{initial: .2, final: .5, greedy: .9})),
			"x and y are not separable with 4 seeds (no difference in any of them).", nil, []string{"beats", "NaN", "more than 1000"}},
		{"apart by one problem in every seed", two(always(fakeRun{final: 500. / 1024}), always(fakeRun{final: 501. / 1024})),
			"y and x are not separable with 4 seeds (difference 0.1 points [-0.1, 0.3])", nil, []string{"beats"}},
		{"apart by everything in every seed", two(always(fakeRun{final: 0, problems: 128}), always(fakeRun{final: 1, problems: 128})),
			"y beats x by 100.0 points [98.8, 100.0], 4 seeds.", nil, []string{"not separable"}},
		{"a seed that did not learn", two(noise4(0.9, 10), func(seed uint64) fakeRun {
			return fakeRun{initial: .2, final: []float64{.82, .16, .85, .82}[seed-1]}
		}), "x and y are not separable",
			[]string{"y is bimodal across seeds: 1 of 4 seeds did not learn (seed 2, at 16.0%; before training 20.0%), the others end at 82.0% to 85.0%. Its mean"}, []string{"x is bimodal"}},
		{"seeds that stayed where they were", two(noise4(0.9, 10), func(seed uint64) fakeRun {
			return fakeRun{initial: .2, final: []float64{.2, .5, .21, .5}[seed-1]}
		}), "", []string{"y is bimodal across seeds: 2 of 4 seeds did not learn (seeds 1, 3, at 20.0% to 21.0%; before training 20.0%), the others end at 50.0%."}, nil},
		{"seeds far apart that all learned", two(noise4(0.9, 10), func(seed uint64) fakeRun {
			return fakeRun{initial: .2, final: []float64{.3, .9, .5, .9}[seed-1]}
		}), "", nil, []string{"bimodal"}},
		{"seeds that hardly learned", two(noise4(0.9, 10), func(seed uint64) fakeRun {
			return fakeRun{initial: .2, final: []float64{.21, .26, .2, .27}[seed-1]}
		}), "", nil, []string{"bimodal"}},
		{"at the ceiling", two(always(fakeRun{initial: .2, final: 1}), always(fakeRun{initial: .2, final: .995})),
			"", []string{"at the ceiling of the measure"}, nil},
		{"at the floor", two(always(fakeRun{final: 0}), always(fakeRun{final: .005})),
			"", []string{"at the floor of the measure"}, []string{"ceiling"}},
		{"one seed", fakeSweep(1, fakeArm{name: "x", run: around(.9, .01, 1)}, fakeArm{name: "y", run: around(.5, .01, 2)}),
			"x and y can't be told apart with 1 seed (difference", []string{"One seed shows what happened once"}, []string{"beats", "n/a", "1 seeds"}},
		{"one arm", fakeSweep(2, fakeArm{name: "x", run: around(.9, .01, 1)}),
			"x ends at", []string{"there is nothing to compare it with", "With 2 seeds only large differences"}, nil},
		{"nothing begun", two(always(fakeRun{state: sweepdir.Missing}), always(fakeRun{state: sweepdir.Missing})),
			"Nothing can be said yet: none of 8 runs has its result.",
			[]string{"8 of 8 runs have no result", "x, seed 1: not begun.", "y, seed 4: not begun."}, []string{"NaN", "n/a"}},
		{"half-finished", two(noise4(0.9, 10), unfinished(rundir.StateRunning)),
			"So far, with 6 of 8 runs: ", []string{"2 of 8 runs have no result; comparisons use the seeds that both arms have.", "y, seed 3: running after step 40.", "with 2 seeds"}, nil},
		{"an arm failed", two(noise4(0.9, 10), unfinished(rundir.StateFailed)),
			"So far, with 6 of 8 runs: ", []string{"y, seed 3: failed: panic: index out of range."}, nil},
		{"learning rates", rateSweep(4),
			"learning rate 0.001 has the highest mean validation reward, 91.8% [90.9, 92.7], 4 seeds, not separable from 0.003; 0.0001 and 0.0003 learn slowly; 0.01 collapses.",
			[]string{
				"0.0001 learns slowly: 56.6% [55.3, 57.9] after 200 steps, 35.2 points [33.8, 36.6] behind the best, still rising",
				"0.01 collapses: diverged in 4 of 4 seeds (steps 10 to 20), final reward 0.9% [0.4, 1.3], below the base level of 19.7%.",
				"over all 10 pairs of arms",
			}, []string{"All arms ran at learning rate", "may be better", "0.001 is best", "0.001 has the highest mean: 91.8% [90.9, 92.7] after 200 steps, still"}},
		{"the best rate is the last", change(rateSweep(4), func(m *sweepdir.Manifest) {
			for i, v := range []string{"0.00001", "0.00003", "1", "0.0001", "0.00002"} {
				m.Arms[i].Point = []string{v}
			}
		}), "learning rate 1 has the highest mean", []string{"The highest mean is at the largest rate with a result (1): a larger one may be better."}, nil},
		{"an interaction", gridSweep(4),
			"the effect of loss_type reverses with length_normalization: reinforce_with_baseline instead of no_baseline changes the final reward by 10.9 points",
			[]string{
				"with baseline, masked_mean beats no_baseline, masked_mean by 10.9 points",
				"with baseline, masked_normalize is beaten by no_baseline, masked_normalize (difference -4.5 points",
				"The short completions belong to loss_type no_baseline together with length_normalization masked_mean: length_normalization masked_normalize (24.6 tokens) or",
			}, []string{"more than one key"}},
		{"a grid with a stowaway", change(gridSweep(4), func(m *sweepdir.Manifest) {
			m.Varied = append(m.Varied, "train.max_grad_norm")
			for i, e := range m.Runs {
				m.Runs[i].Config += fmt.Sprintf("train:\n  max_grad_norm: %d\n", e.Arm/2)
			}
		}), "the effect of", []string{"Some arms differ in more than one key (no_baseline, masked_normalize and no_baseline, masked_mean: algorithm.length_normalization, train.max_grad_norm; "}, nil},
		{"held by the clip", clipSweep(4),
			"on-policy has the highest mean",
			[]string{
				"free diverged in 4 of 4 seeds (step 70); the last evaluation counts as its final reward: 9.5%",
				"off-policy, with 4 updates a step and without a clip, free falls apart: diverged in 4 of 4 seeds (step 70), final reward 9.5% [8.1, 10.9], below the base level of 19.7%. With a clip",
				"the policy holds: symmetric at 67.8% [64.6, 70.9] (the clip binds on 12.0% of the tokens).",
				"symmetric falls into short completions: 19.6 tokens",
			}, []string{"hacked", "free falls into short"}},
		{"controls", rewardSweep(4),
			"plain reward has the highest mean",
			[]string{
				"control style: the format is hacked: format reward 1.00 with answer reward 0.02 and 8.0 tokens a completion",
				"control coin: collapsed as it must (diverged in 4 of 4 seeds (step 20), final reward 0.0% [0.0, 0.2], below the base level of 19.7%).",
			}, []string{"coin diverged in", "falls into short"}},
		{"a control that learns", fakeSweep(4, fakeArm{name: "x", run: around(.9, .01, 1)}, fakeArm{name: "coin", control: true, run: around(.95, .01, 2)}),
			"", []string{"control coin: did not collapse but gained"}, []string{"as it must", "coin has the best", "coin has the highest"}},
		{"all diverge", two(with(around(.1, .01, 1), func(f *fakeRun) { f.diverged = 7 }), with(around(.05, .01, 2), func(f *fakeRun) { f.diverged = 9 })),
			"x beats y by", []string{"x diverged in 4 of 4 seeds (step 7)", "y diverged in 4 of 4 seeds (step 9)"}, []string{"has the best mean", "has the highest mean"}},
		{"several keys at once", change(baselineSweep(4), func(m *sweepdir.Manifest) { m.Varied = []string{"algorithm.loss_type", "train.max_grad_norm"} }),
			"", []string{"The arms differ in more than one key (algorithm.loss_type, train.max_grad_norm)"}, nil},
		{"the manifest's notes", change(baselineSweep(4), func(m *sweepdir.Manifest) { m.Notes = []string{"reverses under masked_normalize"} }),
			"", []string{"reverses under masked_normalize."}, nil},
		{"three arms with a reference", change(fakeSweep(4, fakeArm{name: "x", run: around(.9, .01, 1)}, fakeArm{name: "y", run: around(.5, .01, 2)}, fakeArm{name: "z", run: around(.9, .01, 3)}),
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
	for _, build := range []func(int) *sweepdir.Sweep{baselineSweep, clipSweep, rewardSweep, rateSweep} {
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
