package train

import "testing"

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
