package config

import (
	"fmt"
	"maps"
	"slices"

	"grpo/internal/words"
)

// synonyms are names of other tools (TRL, Hugging Face, vLLM) for our keys. They
// only serve to answer an unknown key with the right one.
var synonyms = map[string]string{
	"lr":                          "train.learning_rate",
	"max_steps":                   "train.n_grpo_steps",
	"steps":                       "train.n_grpo_steps",
	"per_device_train_batch_size": "train.train_batch_size",
	"betas":                       "train.adam_betas",
	"adam_epsilon":                "train.adam_eps",
	"grad_clip":                   "train.max_grad_norm",
	"num_generations":             "rollout.group_size",
	"generation_batch_size":       "rollout.rollout_batch_size",
	"batch_size":                  "rollout.rollout_batch_size",
	"temperature":                 "rollout.sampling_temperature",
	"top_p":                       "rollout.sampling_top_p",
	"top_k":                       "rollout.sampling_top_k",
	"min_tokens":                  "rollout.sampling_min_tokens",
	"max_tokens":                  "rollout.sampling_max_tokens",
	"max_new_tokens":              "rollout.sampling_max_tokens",
	"max_completion_length":       "rollout.sampling_max_tokens",
	"clip_range":                  "algorithm.cliprange",
	"advantage_normalizer":        "algorithm.normalizer",
	"adv_estimator":               "algorithm.baseline",
	"loss_mode":                   "algorithm.loss_type",
	"loss_agg_mode":               "algorithm.length_normalization",
	"loss_normalization":          "algorithm.length_normalization",
	"normalization_constant":      "algorithm.normalize_constant",
	"loss_scale_factor":           "algorithm.normalize_constant",
	"clip_ratio":                  "algorithm.cliprange",
	"clip_ratio_high":             "algorithm.epsilon_high",
	"clip_ratio_c":                "algorithm.dual_clip",
	"kl_coef":                     "algorithm.beta",
	"kl_loss_coef":                "algorithm.beta",
	"kl_loss_type":                "algorithm.kl_estimator",
	"kl_penalty":                  "algorithm.kl_estimator",
	"use_kl_in_reward":            "algorithm.kl_in",
	"sync_ref_model":              "algorithm.ref_model_sync_steps",
	"lam":                         "algorithm.gae_lambda",
	"cliprange_value":             "algorithm.value_clip",
	"critic_learning_rate":        "algorithm.value_learning_rate",
	"teacher_model":               "algorithm.teacher",
	"overlong_filtering":          "algorithm.mask_truncated_completions",
	"filter_groups":               "algorithm.dynamic_sampling",
	"soft_punish_cache":           "reward.overlong_cache",
	"reward_funcs":                "reward.functions",
	"eval_steps":                  "eval.every_n_steps",
	"save_steps":                  "output.checkpoint_every_n_steps",
	"save_total_limit":            "output.keep_checkpoints",
}

// suggestKey answers an unknown key: word as it was written, the names that are
// valid in its place, and all keys of the configuration, one of which may have
// been meant from the wrong section.
func suggestKey(word string, here, keys []string) string {
	if s := words.DidYouMean(word, here); s != "" {
		return s
	}
	// Aliases are valid where every key is, so not in a section of a file.
	if s := words.Nearest(word, slices.Sorted(maps.Keys(aliases))); s != "" && slices.Contains(keys, aliases[s]) && len(here) == len(keys) {
		return fmt.Sprintf(" (did you mean %q?)", s)
	}
	if k, ok := synonyms[word]; ok && slices.Contains(keys, k) {
		return fmt.Sprintf(" (did you mean %q?)", k)
	}
	last := make([]string, len(keys))
	for i, k := range keys {
		last[i] = lastPart(k)
	}
	if s := words.Nearest(lastPart(word), last); s != "" {
		return fmt.Sprintf(" (did you mean %q?)", keys[slices.Index(last, s)])
	}
	if slices.Contains(keys, "train.n_grpo_steps") {
		return " (\"grpo config show --docs\" lists the keys)"
	}
	return ""
}
