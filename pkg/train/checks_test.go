package train

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// ready returns a trainer that has not made its first step.
func ready(t testing.TB, cfg config.Config) *trainer {
	t.Helper()
	r := &trainer{cfg: config.Resolve(cfg), opts: Options{Threads: 1, Now: time.Now, Observer: &watch{}}, clock: newStopwatch(time.Now)}
	expect.OK(t, r.prepare())
	t.Cleanup(r.close)
	r.sampler = r.Policy.NewSampler()
	return r
}

// Each check finds the faults it is for, and counts its successes.
func TestChecksFindFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(r *rollout)
		check func(r *trainer, x *rollout) error
		want  string
		count int // of what is whole
	}{
		{"a log-probability too few", func(x *rollout) { x.completions[1].LogProbs = x.completions[1].LogProbs[1:] }, completions, "completion 1", 4},
		{"no tokens", func(x *rollout) { x.completions[2].Tokens, x.completions[2].LogProbs = nil, nil }, completions, "completion 2 has 0 tokens", 4},
		{"too many tokens", func(x *rollout) {
			c := &x.completions[0]
			c.Tokens, c.LogProbs = append(c.Tokens, 5, 5, 5, 5, 5), append(c.LogProbs, 0, 0, 0, 0, 0)
		}, completions, "the limit is 4 tokens", 4},
		{"an end within", func(x *rollout) { x.completions[0].Tokens[0], x.completions[0].Ended = tokenizer.EOS, false }, completions, "completion 0", 4},
		{"ended without <eos>", func(x *rollout) {
			c := &x.completions[3]
			c.Ended, c.Tokens[len(c.Tokens)-1] = true, 5
		}, completions, "completion 3", 4},
		{"a mask that is too long", func(x *rollout) { x.completions[1].Tokens = x.completions[1].Tokens[:2] }, mask, "mask of completion 1", 4},
		{"an advantage", func(x *rollout) { x.advantages[3] += 1e-3 }, advantages, "group 1", 2},
		{"advantage of a zero-variance group", func(x *rollout) { x.rewards[0], x.rewards[1] = 1, 1 }, advantages, "group 0", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, mini(t, "sampling_min_tokens=4"))
			x, err := r.rollout(1)
			expect.OK(t, err)
			x.rewards = []float64{0, 1, 1, 0}
			expect.OK(t, r.advantages(x, 1))
			r.state.Checks = 0
			if err := tt.check(r, x); err != nil || r.state.Checks != tt.count {
				t.Fatalf("before anything is spoilt: %d checks, %v", r.state.Checks, err)
			}
			tt.spoil(x)
			r.state.Checks = 0
			if err := tt.check(r, x); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "check") || r.state.Checks != 0 {
				t.Errorf("%d checks, error %v, want one with %q", r.state.Checks, err, tt.want)
			}
		})
	}
}

func completions(r *trainer, x *rollout) error { return r.checkCompletions(x, 1) }
func advantages(r *trainer, x *rollout) error  { return r.checkAdvantages(x, 1) }

// mask compares the rollout with a mask of full rows, as it was sampled.
func mask(r *trainer, x *rollout) error {
	m := &model.TokenMatrix{B: len(x.completions), T: 4, Mask: make([]bool, 4*len(x.completions))}
	for i := range m.Mask {
		m.Mask[i] = true
	}
	return r.checkMask(x, span(0, m.B), m)
}

func TestCheckOfSamplerAndGraph(t *testing.T) {
	r := ready(t, mini(t))
	for _, tt := range []struct {
		diff float64
		ok   bool
	}{{0, true}, {1e-4, true}, {1.1e-4, false}, {math.Inf(1), false}, {math.NaN(), false}} {
		if err := r.checkSampler(&updateStats{step: 3, maxDiff: &tt.diff}); (err == nil) != tt.ok {
			t.Errorf("a difference of %g: %v", tt.diff, err)
		}
	}
	// In a real step: old log-probabilities of a policy other than the graph's.
	x, err := r.rollout(1)
	expect.OK(t, err)
	expect.OK(t, r.advantages(x, 1))
	x.completions[2].LogProbs[0] += 2e-4
	expect.Error(t, expect.Err(r.update(x, 1)), "sampler and graph differ")
}

func TestCheckOfSplits(t *testing.T) {
	p := func(questions ...string) (out []gsm8k.Problem) {
		for _, q := range questions {
			out = append(out, gsm8k.Problem{Question: q})
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		problems dataset.Splits
		want     string
		count    int
	}{
		{"apart", dataset.Splits{Train: p("a", "b"), Val: p("c"), Test: p("d"), Unseen: p("e")}, "", 3},
		{"no test", dataset.Splits{Train: p("a", "b"), Val: p("c")}, "", 1},
		{"val", dataset.Splits{Train: p("a", "b"), Val: p("c", "b")}, `1 questions of the split "val"`, 0},
		{"unseen", dataset.Splits{Train: p("a", "b"), Val: p("c"), Unseen: p("a", "b")}, `2 questions of the split "unseen"`, 1},
	} {
		r := &trainer{data: trainData{problems: &tt.problems}}
		err := r.checkSplits()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || r.state.Checks != tt.count {
			t.Errorf("%s: %d checks, %v", tt.name, r.state.Checks, err)
		}
	}
}

func TestCheckOfEvaluations(t *testing.T) {
	good := rundir.Counts{N: 4, CorrectNum: 3, ErrorNum: 1, FormattedRight: 3, Unformatted: 1, AnswerReward: 0.75, FormatReward: 0.75}
	r := &trainer{}
	if err := r.checkEval(rundir.Eval{Sampled: good, Greedy: &good}); err != nil || r.state.Checks != 2 {
		t.Errorf("%d checks, %v", r.state.Checks, err)
	}
	for name, spoil := range map[string]func(c *rundir.Counts){
		"a problem too few": func(c *rundir.Counts) { c.N = 5 }, "another reward": func(c *rundir.Counts) { c.AnswerReward = 0.8 },
		"a category too many": func(c *rundir.Counts) { c.FormattedWrong = 1 },
	} {
		bad := good
		spoil(&bad)
		for _, e := range []rundir.Eval{{Sampled: bad}, {Sampled: good, Greedy: &bad}} {
			if err := r.checkEval(e); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

func TestCheckOfLines(t *testing.T) {
	r := &trainer{}
	nan := math.NaN()
	if err := r.checkLine(rundir.Metrics{Step: 1, Loss: 0.1 + 0.2, GradNorm: nan, Rewards: map[string]rundir.Stat{"a": {Std: nan}}}); err != nil || r.state.Checks != 1 {
		t.Errorf("%d checks, %v", r.state.Checks, err)
	}
	// A name that is not UTF-8 reads back changed.
	expect.Error(t, r.checkLine(rundir.Metrics{Step: 1, Rewards: map[string]rundir.Stat{"a\xff": {}}}), "reads back")
}

// Rounding never reaches the bound on the sum of advantages, even if rewards differ only in their
// last bit; a change that matters always exceeds it.
func TestAdvantagesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 16).Draw(t, "size")
		base := rapid.SampledFrom([]float64{0, 1, 0.3, 1e6, 1e-9}).Draw(t, "base")
		rewards := rapid.SliceOfN(rapid.OneOf(
			rapid.Just(base), rapid.Just(math.Nextafter(base, 2)), rapid.Just(base+1), rapid.Float64Range(0, 10), rapid.Just(math.NaN()),
		), 2*size, 2*size).Draw(t, "rewards")
		adv, _, err := rl.GroupAdvantages(rewards, size, rl.AdvantageOptions{
			Baseline:   rapid.SampledFrom([]rl.Baseline{rl.BaselineGroupMean, rl.BaselineLeaveOneOut}).Draw(t, "baseline"),
			Normalizer: rapid.SampledFrom([]rl.Normalizer{rl.NormalizerNone, rl.NormalizerGroupStd, rl.NormalizerBatchStd, rl.NormalizerGroupMean, rl.NormalizerGPG}).Draw(t, "normalizer"),
			Eps:        rapid.SampledFrom([]float64{0, 1e-9, 1e-6, 1e-4}).Draw(t, "eps"),
		})
		expect.OK(t, err)
		for g := range 2 {
			r, a := rewards[g*size:(g+1)*size], adv[g*size:(g+1)*size]
			sum, bound := residue(r, a)
			if !(sum <= bound) {
				t.Fatalf("%v of rewards %v add up to %g, beyond %g", a, r, sum, bound)
			}
			low, high, scored := math.Inf(1), math.Inf(-1), 0
			for _, v := range r {
				if !math.IsNaN(v) {
					low, high, scored = min(low, v), max(high, v), scored+1
				}
			}
			if scored < 2 || high-low < 1e-3*max(1, high) {
				continue
			}
			var total float64
			for _, v := range a {
				total += math.Abs(v)
			}
			a[0] += 1e-3 * total
			if sum, bound := residue(r, a); total > 0 && sum <= bound {
				t.Fatalf("%v of rewards %v pass: %g within %g", a, r, sum, bound)
			}
		}
	})
}

// Methods whose advantages need not sum to 0 are not checked.
func TestWhereAdvantagesAddUp(t *testing.T) {
	for _, tt := range []struct {
		set  []string
		want bool
	}{
		{nil, true}, {[]string{"use_std_normalization=false"}, true}, {[]string{"scale_rewards=batch"}, true},
		{[]string{"baseline=leave_one_out", "normalizer=none"}, true}, {[]string{"normalizer=group_mean"}, true}, {[]string{"normalizer=gpg"}, true},
		{[]string{"loss_type=no_baseline"}, false}, {[]string{"baseline=batch_mean"}, false}, {[]string{"baseline=length_weighted"}, false},
		{[]string{"baseline=greedy"}, false}, {[]string{"normalizer=whiten"}, false}, {[]string{"pass_k=true"}, false},
		{[]string{"beta=0.1", "kl_in=reward"}, false}, {[]string{"beta=0.1"}, true},
		{[]string{"algorithm.type=ppo", "loss_type=grpo_clip"}, false},
		{[]string{"reward.functions=answer,format", "reward.reward_weights=1,1", "multi_objective_aggregation=normalize_then_sum"}, false},
	} {
		r := &trainer{cfg: config.Resolve(small(tt.set...))}
		if got := r.sumsToZero(); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.set, got, tt.want)
		}
	}
}

// BenchmarkChecks measures the cost of the checks in a step of the default size (256 completions of
// up to 64 tokens), and the step itself.
func BenchmarkChecks(b *testing.B) {
	r := ready(b, config.Default())
	x, m, err := r.trainStep(1, newStopwatch(time.Now).lap)
	expect.OK(b, err)
	rows, matrix := span(0, x.shape.B), &model.TokenMatrix{B: x.shape.B, T: x.shape.T, Mask: x.mask}
	b.Run("checks", func(b *testing.B) {
		for b.Loop() {
			for _, err := range []error{
				r.checkCompletions(x, 1), r.checkMask(x, rows, matrix), r.checkAdvantages(x, 1), r.checkSampler(&updateStats{maxDiff: new(float64)}), r.checkLine(m),
			} {
				expect.OK(b, err)
			}
		}
	})
	b.Run("step", func(b *testing.B) {
		step := 1
		for b.Loop() {
			step++
			if _, _, err := r.trainStep(step, newStopwatch(time.Now).lap); err != nil {
				b.Fatal(err)
			}
		}
	})
}
