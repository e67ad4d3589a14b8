package train

import (
	"math"
	"testing"

	"grpo/pkg/rundir"
)

var noiseSet = []string{"reward.noise.false_positive=0.2", "reward.noise.false_negative=0.3"}

// TestNoiseIsExact: a run with a noisy verifier has the same bits on other numbers of threads and after a resume, also
// with rounds of dynamic sampling, and its metrics add up; evaluation keeps the true verdicts.
func TestNoiseIsExact(t *testing.T) {
	long(t)
	cfg := small(append(noiseSet, "dynamic_sampling=true", "group_size=4", "output.checkpoint_every_n_steps=2")...)
	run, _ := resumesExactly(t, cfg, 3)
	clean := mustRun(t, small("n_grpo_steps=1", "group_size=4"), t.TempDir(), 1)
	flips := 0.0
	for _, m := range run.Metrics {
		n := float64(cfg.Rollout.RolloutBatchSize)
		noise := m.Noise
		flips += noise["false_positives"] * noise["false_negatives"]
		moved := (noise["false_positives"] - noise["false_negatives"]) / n
		if math.Abs(noise["noisy_answer_reward"]-noise["true_answer_reward"]-moved) > 1e-12 {
			t.Errorf("step %d: the flips don't explain the difference of the rewards: %v", m.Step, noise)
		}
		if noise["true_answer_reward"] != m.AnswerReward || noise["noisy_answer_reward"] != m.Rewards["answer"].Mean {
			t.Errorf("step %d: answer reward %v, rewards %v, noise %v", m.Step, m.AnswerReward, m.Rewards, noise)
		}
	}
	if flips == 0 {
		t.Error("no step has both kinds of errors")
	}
	if clean.Metrics[0].Noise != nil {
		t.Error("a run without noise reports it")
	}
	if a, b := run.Evals[0], clean.Evals[0]; rundir.CompareEvals([]rundir.Eval{a}, []rundir.Eval{b}) != nil {
		t.Errorf("the evaluation before training depends on noise: %+v and %+v", a, b)
	}
}

// TestNoiseEverywhere: micro-batches and algorithms don't change which verdicts are wrong, and every algorithm that
// samples trains on them.
func TestNoiseEverywhere(t *testing.T) {
	long(t)
	first := func(set ...string) rundir.Metrics {
		return mustRun(t, small(append(append(noiseSet, "n_grpo_steps=1", "group_size=4"), set...)...), t.TempDir(), 2).Metrics[0]
	}
	want := first()
	for _, set := range [][]string{
		{"gradient_accumulation_steps=4"},
		{"train.micro_batch_tokens=100"},
		{"algorithm.type=dpo"},
		{"algorithm.type=ppo", "loss_type=grpo_clip"},
		{"loss_type=no_baseline", "reward.noise.correction=backward"},
		{"baseline=greedy", "normalizer=none"},
	} {
		got := first(set...)
		for name, value := range want.Noise {
			if got.Noise[name] != value {
				t.Errorf("%v: %s is %v, want %v", set, name, got.Noise[name], value)
			}
		}
		corrected := set[0] == "loss_type=no_baseline"
		mean := got.Noise["noisy_answer_reward"]
		if corrected {
			mean = (mean - 0.2) / 0.5
		}
		if math.Abs(got.Reward.Mean-mean) > 1e-12 {
			t.Errorf("%v: mean reward %v, want %v", set, got.Reward.Mean, mean)
		}
	}
}
