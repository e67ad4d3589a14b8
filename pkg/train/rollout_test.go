package train

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// A run that samples from an earlier policy has the same bits if it is interrupted and continued,
// whether the checkpoint has that policy, it is the initial one, or it has just been renewed.
func TestOldPolicyResumesExactly(t *testing.T) {
	long(t)
	for _, tt := range []struct {
		every string
		steps []int
	}{{"0", []int{2}}, {"3", []int{3, 4}}} {
		cfg := small("resample_every_n_steps="+tt.every, "loss_type=grpo_clip", "output.checkpoint_every_n_steps=1", "eval.greedy=false", "n_grpo_steps=5", "data.val_size=16", "data.test_size=0", "data.unseen_size=0")
		want := mustRun(t, cfg, t.TempDir(), 2)
		for _, step := range tt.steps {
			dir := interrupted(t, cfg, step)
			sameBits(t, want, mustRun(t, cfg, dir, 3))
		}
		for i, m := range want.Metrics {
			renewed := i == 0 || tt.every == "3" && i%3 == 0
			if renewed != (m.ClipFraction == nil) || renewed != (m.SamplerDiff != nil) {
				t.Errorf("every %s steps, step %d: clip fraction %v, difference of the sampler %v", tt.every, m.Step, m.ClipFraction, m.SamplerDiff)
			}
		}
	}
}

// The old policy of adapters, too, which is the base until they change something.
func TestOldPolicyOfAdapters(t *testing.T) {
	long(t)
	cfg := tinyDecoder(t, "train.lora.rank=2", "resample_every_n_steps=2", "n_grpo_steps=4", "eval.every_n_steps=4", "output.checkpoint_every_n_steps=1")
	want := mustRun(t, cfg, t.TempDir(), 2)
	for _, step := range []int{1, 3} {
		dir := interrupted(t, cfg, step)
		sameBits(t, want, mustRun(t, cfg, dir, 1))
	}
}

// The first rollouts are those of an on-policy run until the policy has moved, and then differ.
func TestOldPolicySamples(t *testing.T) {
	long(t)
	set := []string{"n_grpo_steps=3", "eval.every_n_steps=3", "eval.greedy=false", "data.val_size=10", "data.test_size=0", "data.unseen_size=0"}
	now := mustRun(t, small(set...), t.TempDir(), 1)
	old := mustRun(t, small(append(set, "resample_every_n_steps=2")...), t.TempDir(), 1)
	a, b := now.Metrics, old.Metrics
	if a[0].Loss != b[0].Loss || a[1].Reward == b[1].Reward && a[1].Length == b[1].Length {
		t.Errorf("losses of step 1 %v, %v; rewards of step 2 %v, %v", a[0].Loss, b[0].Loss, a[1].Reward, b[1].Reward)
	}
}

// Parts are all completions in their order, none has more than the limit unless it is a
// single completion, and none could take the next completion too.
func TestParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(rt, what) }
		shared, group := draw(0, 9, "shared"), draw(1, 4, "group")
		r := &rollout{groupSize: group}
		for p := range draw(2, 6, "prompts") {
			prompt := append(make([]int, shared), 100+p) // they differ after what they share
			r.prompts = append(r.prompts, append(prompt, make([]int, draw(0, 6, "prompt"))...))
			for range group {
				r.completions = append(r.completions, model.Completion{Tokens: make([]int, draw(1, 12, "completion"))})
			}
		}
		rows := span(0, len(r.completions))
		tokens := func(rows []int) int { // distinct inputs
			n, last := shared, -1
			for _, i := range rows {
				if g := i / group; g != last {
					n, last = n+len(r.prompts[g])-shared, g
				}
				n += len(r.completions[i].Tokens) - 1
			}
			return n
		}
		for _, limit := range []int{0, draw(1, 120, "limit")} {
			run := &trainer{microTokens: limit}
			parts := run.parts(r, rows, 1)
			if !slices.Equal(slices.Concat(parts...), rows) {
				rt.Fatalf("parts %v", parts)
			}
			if limit == 0 && len(parts) != 1 {
				rt.Fatalf("%d parts without a limit", len(parts))
			}
			for k, part := range parts {
				if limit > 0 && len(part) > 1 && tokens(part) > limit {
					rt.Fatalf("part %v has %d tokens, the limit is %d", part, tokens(part), limit)
				}
				if k > 0 && tokens(append(slices.Clone(parts[k-1]), part[0])) <= limit {
					rt.Fatalf("part %v could begin with %d", parts[k-1], part[0])
				}
			}
		}
	})
}

// A group has zero variance exactly if pkg/rl finds a standard deviation of 0.
func TestZeroVariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 0.1, 1e-200, math.NaN()}), 1, 5).Draw(t, "group")
		_, stats, err := rl.GroupAdvantages(group, len(group), rl.AdvantageOptions{Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone})
		expect.OK(t, err)
		if got := zeroVariance(group); got != (stats.FracRewardZeroStd == 1) {
			t.Fatalf("%v: %v, share of such groups by pkg/rl: %v", group, got, stats.FracRewardZeroStd)
		}
	})
}
