package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
)

// aliases are short names of keys for --set and [Get], but not in files.
var aliases = map[string]string{"lr": "train.learning_rate"}

// secondNames are full paths by which another source knows a key. Files, the environment and --set
// accept them; the program writes the key's own name.
var secondNames = map[string]string{
	"train.num_iterations":    "train.epochs_per_rollout_batch", // TRL
	"train.lr_scheduler_type": "train.lr_scheduler",             // TRL
	"algorithm.epsilon":       "algorithm.cliprange",            // TRL
}

// secondValues are alternative spellings of values, replaced by the first spelling on reading.
var secondValues = map[string]map[string]string{
	"algorithm.loss_type": {
		"GRPO-No-Clip": "grpo_no_clip", // the 2025 assignment's text
		"noclip":       "grpo_no_clip", // the 2026 assignment
	},
	"algorithm.length_normalization": {
		"sequence": "masked_mean", // the 2026 assignment
	},
	"train.lr_scheduler": {
		"constant_with_warmup": "constant", // TRL, whose constant ignores warmup_steps
	},
	"algorithm.kl_estimator": {
		"kl":  "k1", // verl
		"mse": "k2", // verl
	},
}

// firstSpellings replaces second spellings of values.
func firstSpellings(root any) {
	for _, k := range keysOf(root) {
		if first, ok := secondValues[k.path][k.value.String()]; ok {
			k.value.SetString(first)
		}
	}
}

// findKey completes the name of a key: a full path, an alias, or a unique last part. Second names
// are accepted too. Keys of the section launcher need their full path, and so do those of
// algorithm.dpo whose last part other keys have too.
func findKey(name string, keys []string) (string, error) {
	for _, own := range []string{name, secondNames[name], aliases[name]} {
		if slices.Contains(keys, own) {
			return own, nil
		}
	}
	var matches []string
	for _, k := range keys {
		if yamldoc.LastPart(k) == name && !OfLauncher(k) {
			matches = append(matches, k)
		}
	}
	for second, own := range secondNames {
		if yamldoc.LastPart(second) == name && slices.Contains(keys, own) {
			matches = append(matches, own)
		}
	}
	if len(matches) > 1 {
		matches = slices.DeleteFunc(matches, func(k string) bool { return strings.HasPrefix(k, "algorithm.dpo.") })
	}
	// "temperature" is the last part of eval.temperature alone, but other tools mean
	// rollout.sampling_temperature.
	k, other := synonyms[name]
	if other && len(matches) > 0 && !slices.Contains(matches, k) && slices.Contains(keys, k) {
		return "", fmt.Errorf("%q may mean several keys: write one of %s, %s", name, strings.Join(matches, ", "), k)
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return "", fmt.Errorf("unknown key %s%s", textutil.Quote(name), suggestKey(name, keys, keys))
	}
	return "", fmt.Errorf("%q is the last part of several keys: write one of %s", name,
		strings.Join(matches, ", "))
}

// suggestKey ends the message about an unknown key. here are the keys valid in its place; keys are
// all keys, in case a key of another section was meant.
func suggestKey(word string, here, keys []string) string {
	if s := suggest.DidYouMean(word, here); s != "" {
		return s
	}
	didYouMean := func(s string) string { return fmt.Sprintf(" (did you mean %q?)", s) }
	// Aliases are valid only where full paths are, so not within a section of a file.
	s := suggest.Nearest(word, slices.Sorted(maps.Keys(aliases)))
	if s != "" && slices.Contains(keys, aliases[s]) && len(here) == len(keys) {
		return didYouMean(s)
	}
	if k, ok := synonyms[word]; ok {
		for _, name := range []string{k, yamldoc.LastPart(k)} { // of any section, or of this one
			if slices.Contains(keys, name) || slices.Contains(here, name) {
				return didYouMean(name)
			}
		}
	}
	last := make([]string, len(keys))
	for i, k := range keys {
		if last[i] = yamldoc.LastPart(k); OfLauncher(k) {
			last[i] = k
		}
	}
	if s := suggest.Nearest(yamldoc.LastPart(word), last); s != "" {
		return didYouMean(keys[slices.Index(last, s)])
	}
	if slices.Contains(keys, "train.n_grpo_steps") {
		return " (\"grpo config show --docs\" lists the keys)"
	}
	return ""
}

// synonyms are other tools' names (TRL, Hugging Face, vLLM) for keys, used only in suggestions.
var synonyms = map[string]string{
	"lr":                          "train.learning_rate",
	"max_steps":                   "train.n_grpo_steps",
	"steps":                       "train.n_grpo_steps",
	"per_device_train_batch_size": "train.train_batch_size",
	"betas":                       "train.adam_betas",
	"adam_epsilon":                "train.adam_eps",
	"grad_clip":                   "train.max_grad_norm",
	"lr_schedule":                 "train.lr_scheduler",
	"lr_decay_style":              "train.lr_scheduler",
	"warmup_ratio":                "train.warmup_steps",
	"lr_warmup_steps":             "train.warmup_steps",
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
	"completion_only_loss":        "stages.0.prompt_loss_weight",
	"assistant_only_loss":         "stages.0.prompt_loss_weight",
	"dataset_name":                "data.source",
	"dataset":                     "data.source",
	"train_dataset":               "data.train_file",
	"eval_dataset":                "data.val_file",
	"system_prompt":               "data.system_prompt",
	"bf16":                        "model.precision",
	"dtype":                       "model.precision",
	"lora_r":                      "train.lora.rank",
	"lora_rank":                   "train.lora.rank",
	"use_peft":                    "train.lora.rank",
	"use_lora":                    "train.lora.rank",
	"lora_alpha":                  "train.lora.alpha",
	"num_train_epochs":            "train.epochs_per_rollout_batch",
	"ppo_epochs":                  "train.epochs_per_rollout_batch",
}
