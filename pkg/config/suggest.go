package config

import (
	"fmt"
	"slices"
	"strings"
)

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before []int
	prev := make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row := make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(t)]
}

// nearest returns the candidate closest to word, or "" when none is so close
// that it was probably meant. Ties go to the first candidate.
func nearest(word string, candidates []string) string {
	word = strings.ToLower(word)
	if len(word) > 100 {
		return "" // no name is so long; comparing would cost much for nothing
	}
	best, bestDistance := "", 1+len(word)/3
	for _, c := range candidates {
		if d := distance(word, strings.ToLower(c)); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean is the end of an error message, or "".
func didYouMean(word string, candidates []string) string {
	if s := nearest(word, candidates); s != "" {
		return fmt.Sprintf(" (did you mean %q?)", s)
	}
	return ""
}

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
	if s := didYouMean(word, here); s != "" {
		return s
	}
	if k, ok := synonyms[word]; ok && slices.Contains(keys, k) {
		return fmt.Sprintf(" (did you mean %q?)", k)
	}
	last := make([]string, len(keys))
	for i, k := range keys {
		last[i] = lastPart(k)
	}
	if s := nearest(lastPart(word), last); s != "" {
		return fmt.Sprintf(" (did you mean %q?)", keys[slices.Index(last, s)])
	}
	return ""
}
