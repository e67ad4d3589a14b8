package config

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
)

// TestInertSettings: each rule about a setting without effect has a case that breaks it, and one
// that satisfies it.
func TestInertSettings(t *testing.T) {
	const files = " data.source=gsm8k train_file=a.jsonl val_file=b.jsonl"
	for _, test := range []struct{ set, with string }{ // inert; with effect
		{"generator_seed=2" + files, "generator_seed=2"},
		{"weight_add=2" + files, "weight_add=2"},
		{"weight_sub=2" + files, "weight_sub=2"},
		{"weight_mul=2" + files, "weight_mul=2"},
		{"unseen_size=2" + files, "unseen_size=2"},
		{"skip_bad=true", "skip_bad=true" + files},
		{"skip_bad=true", "skip_bad=true eval.sets=validation,./p.jsonl"},
		{"annotations=strip", ""},
		{"svamp_file=s.json", "svamp_file=s.json eval.sets=validation,svamp"},
		{"set_size=9", "set_size=9 eval.sets=validation,./p.jsonl"},
		{"sets_every_n_steps=20", "sets_every_n_steps=20 eval.sets=validation,./p.jsonl"},
		{"prompt_template=question_only", "prompt_template=r1_zero"},
		{"use_std_normalization=false loss_type=no_baseline", "use_std_normalization=false"},
		{"advantage_eps=0.1 normalizer=gpg", "advantage_eps=0.1 normalizer=whiten"},
		{"advantage_eps=0.1 use_std_normalization=false", "advantage_eps=0.1"},
		{"advantage_eps=0.1 pass_k=true use_std_normalization=false", "advantage_eps=0.1 pass_k=true"},
		{"normalize_constant=9", "normalize_constant=9 length_normalization=masked_normalize"},
		{"cliprange=0.1 train_batch_size=128", "cliprange=0.1 train_batch_size=128 loss_type=geo_mean"},
		{"cliprange=0.1 train_batch_size=128 loss_type=sapo", "cliprange=0.1 epochs_per_rollout_batch=2 loss_type=vanilla"},
		{"cliprange=0.1 loss_type=grpo_clip", "cliprange=0.1 train_batch_size=128 loss_type=grpo_clip"},
		{"epsilon_high=0.3 loss_type=grpo_clip", "epsilon_high=0.3 train_batch_size=128 loss_type=grpo_clip"},
		{"delta=3 loss_type=grpo_clip", "delta=3 train_batch_size=128 loss_type=grpo_clip"},
		{"dual_clip=3 loss_type=grpo_clip", "dual_clip=3 train_batch_size=128 loss_type=grpo_clip"},
		{"sapo_temperature_pos=3 loss_type=sapo", "sapo_temperature_pos=3 train_batch_size=128 loss_type=sapo"},
		{"sapo_temperature_neg=3 loss_type=sapo", "sapo_temperature_neg=3 train_batch_size=128 loss_type=sapo"},
		{"vespo_k_pos=1 loss_type=vespo", "vespo_k_pos=1 train_batch_size=128 loss_type=vespo"},
		{"vespo_lambda_pos=1 loss_type=vespo", "vespo_lambda_pos=1 train_batch_size=128 loss_type=vespo"},
		{"vespo_k_neg=1 loss_type=vespo", "vespo_k_neg=1 train_batch_size=128 loss_type=vespo"},
		{"vespo_lambda_neg=1 loss_type=vespo", "vespo_lambda_neg=1 train_batch_size=128 loss_type=vespo"},
		{"off_policy_mask=true", "off_policy_mask=true train_batch_size=128"},
		{"off_policy_mask_threshold=0.1 off_policy_mask=true", "off_policy_mask_threshold=0.1 off_policy_mask=true train_batch_size=128"},
		{"ref_model_sync_steps=200 beta=0.1", "ref_model_sync_steps=100 beta=0.1"},
		{"ref_model_mixup_alpha=0.5 ref_model_sync_steps=200 beta=0.1", "ref_model_mixup_alpha=0.5 ref_model_sync_steps=100 beta=0.1"},
		{"teacher_length_normalization=false teacher=base", "teacher_length_normalization=false teacher=base teacher_gamma=0.5"},
		{"lr_scheduler=linear n_grpo_steps=1", "lr_scheduler=linear n_grpo_steps=1 train_batch_size=128"},
		{"lr_scheduler=cosine warmup_steps=199", "lr_scheduler=cosine warmup_steps=198"},
		{"lr_scheduler=linear lr=0", "lr_scheduler=linear lr=0 algorithm.type=ppo loss_type=grpo_clip value_learning_rate=0.1"},
		{"warmup_steps=5 lr=0", "warmup_steps=5"},
		{"value_clip=0.1 algorithm.type=ppo loss_type=grpo_clip", "value_clip=0.1 value_epochs=2 algorithm.type=ppo loss_type=grpo_clip"},
		{"resample_every_n_steps=0 n_grpo_steps=1", "resample_every_n_steps=0 n_grpo_steps=2"},
		{"cliprange=0.1 loss_type=grpo_clip", "cliprange=0.1 loss_type=grpo_clip resample_every_n_steps=3"},
		{"loss_type=gpg algorithm.type=dpo", "algorithm.type=dpo"},
		{"use_std_normalization=false algorithm.type=dpo", "algorithm.type=dpo pairs_per_group=1"},
		{"reward_weights=2 algorithm.type=dpo", "reward_weights=2,1 functions=answer,format algorithm.type=dpo"},
		{"advantage_eps=0.1 algorithm.type=dpo", "algorithm.type=dpo resample_every_n_steps=0"},
		{"cliprange=0.1 algorithm.type=dpo train_batch_size=128", "algorithm.type=dpo train_batch_size=128"},
		{"length_normalization=token-mean algorithm.type=dpo", "algorithm.type=dpo dynamic_sampling=true"},
		{"group_size=4 algorithm.type=dpo pairs_file=p", "group_size=4 algorithm.type=dpo skip_bad=true eval_pairs_file=p"},
		{"sampling_temperature=2 algorithm.type=dpo pairs_file=p", "sampling_temperature=2 algorithm.type=dpo"},
		{"functions=format algorithm.type=dpo pairs_file=p", "functions=format algorithm.type=dpo"},
		{"", "loss_type=cispo epsilon_high=5"},                                           // it must be given, on-policy too
		{"", "loss_type=vanilla"},                                                        // which implies a dual clip
		{"", "loss_type=grpo_clip cliprange=0.2 normalize_constant=64 annotations=keep"}, // the defaults, given
	} {
		first, _, _ := strings.Cut(test.set, "=")
		if found := inertOf(t, test.with); len(found) > 0 {
			t.Errorf("%s: %v", test.with, found)
		}
		if test.set == "" {
			continue
		}
		found := false
		for _, s := range inertOf(t, test.set) {
			found = found || yamldoc.LastPart(s.Key) == first && strings.HasPrefix(s.Text, s.Key+" (") && strings.Contains(s.Text, "has no effect")
		}
		if !found {
			t.Errorf("%s: %v", test.set, inertOf(t, test.set))
		}
	}
}

func inertOf(t *testing.T, set string) []Inert {
	t.Helper()
	return InertSettings(loadSet(t, set).Config)
}

// TestPresetsHaveEffect: every setting of a published recipe has an effect.
func TestPresetsHaveEffect(t *testing.T) {
	for _, name := range Names() {
		r, err := Load(LoadOptions{Path: name})
		expect.OK(t, err)
		if found := InertSettings(r.Config); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
