package config

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/words"
)

// The rules, as data: those on single keys first, so that the rules that
// compare keys can pass over a key that is wrong in itself.

// dataRules and modelRules hold for both roots.
var dataRules = []rule{
	filled("name"),
	oneOf("data.source", "generated", "gsm8k", "svamp"),
	oneOf("data.annotations", "keep", "strip", "equation"),
	oneOf("data.prompt_template", "plain", "question_only", "r1_zero"),
	in(nonNegative, "data.weight_add"),
	in(nonNegative, "data.weight_sub"),
	in(nonNegative, "data.weight_mul"),
	in(sizeOrNo, "data.val_size"),
	custom(someValidation, "data.val_size", "data.source"),
	in(sizeOrNo, "data.test_size"),
	in(sizeOrNo, "data.unseen_size"),
	in(sizeOrNo, "data.train_size"),
	custom(someWeight, "data.weight_add", "data.weight_sub", "data.weight_mul"),
	custom(fileForSource, "data.train_file", "data.source"),
	custom(fileForSource, "data.val_file", "data.source"),
	custom(noFileWhenGenerated, "data.test_file", "data.source"),
}

var modelRules = []rule{
	in(interval{low: 1, high: 4096}, "model.hidden_size"),
	in(interval{low: 1, high: 16}, "model.num_layers"),
	custom(initKind, "model.init"),
	oneOf("model.device", "cpu", "cuda", "auto"),
	oneOf("model.precision", "float32", "tf32", "bf16"),
	effective("model.precision", "model.device", "the CPU computes in float32; set model.device to cuda or auto", func(v *view) bool { return v.text("model.device") != "cpu" }),
}

// rulesConfig are the rules of [Config].
var rulesConfig = slices.Concat(dataRules, modelRules, []rule{
	in(size, "rollout.rollout_batch_size"),
	in(size, "rollout.group_size"),
	in(positive, "rollout.sampling_temperature"),
	in(interval{low: 0, lowOpen: true, high: 1}, "rollout.sampling_top_p"),
	in(sizeOrNo, "rollout.sampling_top_k"),
	in(interval{low: 0, high: 1 << 16}, "rollout.sampling_min_tokens"),
	in(interval{low: 1, high: 1 << 16}, "rollout.sampling_max_tokens"),
	atMost("rollout.sampling_min_tokens", "rollout.sampling_max_tokens"),
	multiple("rollout.rollout_batch_size", "rollout.group_size"),

	in(counter, "train.n_grpo_steps"),
	in(counter, "train.epochs_per_rollout_batch"),
	in(sizeOrNo, "train.train_batch_size"),
	in(size, "train.gradient_accumulation_steps"),
	in(nonNegative, "train.learning_rate"),
	eachIn(interval{low: 0, high: 1, highOpen: true}, "train.adam_betas"),
	in(positive, "train.adam_eps"),
	in(nonNegative, "train.weight_decay"),
	in(nonNegative, "train.max_grad_norm"),
	multiple("rollout.rollout_batch_size", "train.train_batch_size"),
	custom(accumulationDivides, "train.train_batch_size", "train.gradient_accumulation_steps", "rollout.rollout_batch_size"),

	in(counter, "eval.every_n_steps"),
	in(positive, "eval.temperature"),
	in(interval{low: 0, lowOpen: true, high: 1}, "eval.top_p"),
	in(sizeOrNo, "eval.top_k"),
	in(interval{low: 0, high: 1 << 16}, "eval.min_tokens"),
	in(interval{low: 0, high: 1 << 16}, "eval.max_tokens"),
	custom(evalLength, "eval.min_tokens", "eval.max_tokens", "rollout.sampling_max_tokens"),
	in(sizeOrNo, "eval.save_samples"),
	in(counterOrNo, "output.checkpoint_every_n_steps"),
	in(size, "output.keep_checkpoints"),
	oneOf("output.keep", "all", "best"),
}, rulesReward, rulesAlgorithm)

// rulesSFT are the rules of [SFT].
var rulesSFT = slices.Concat(dataRules, modelRules, []rule{
	in(size, "eval_size"),
	custom(evalFits, "eval_size", "data.val_size"),
	filled("stages.*.name"),
	oneOf("stages.*.corpus", "capability", "preference", "answers"),
	in(interval{low: 1, high: 1 << 27}, "stages.*.examples"),
	in(counter, "stages.*.steps"),
	in(size, "stages.*.batch_size"),
	in(nonNegative, "stages.*.learning_rate"),
	in(counterOrNo, "stages.*.warmup_steps"),
	in(share, "stages.*.final_lr_ratio"),
	eachIn(interval{low: 0, high: 1, highOpen: true}, "stages.*.adam_betas"),
	in(positive, "stages.*.adam_eps"),
	in(nonNegative, "stages.*.weight_decay"),
	in(nonNegative, "stages.*.max_grad_norm"),
	in(nonNegative, "stages.*.prompt_loss_weight"),
	in(share, "stages.*.stop_at_sampled_accuracy"),
	in(counter, "stages.*.every_n_steps"),
	in(share, "stages.*.accept_sampled_min"),
	in(share, "stages.*.accept_sampled_max"),
	atMost("stages.*.batch_size", "stages.*.examples"),
	atMost("stages.*.warmup_steps", "stages.*.steps"),
	atMost("stages.*.accept_sampled_min", "stages.*.accept_sampled_max"),
	custom(corpusForSource, "stages.*.corpus", "data.source"),
})

// someValidation: 0 is all problems of a file; of the generator it would be none.
func someValidation(v *view, k []string) string {
	if v.num(k[0]) == 0 && v.text(k[1]) == "generated" {
		return v.name(k[0]) + " must be at least 1 for generated problems (0 stands for all problems of a file)"
	}
	return ""
}

// evalFits: an evaluation takes some of the validation problems.
func evalFits(v *view, k []string) string {
	if v.num(k[1]) == 0 {
		return ""
	}
	return atMost(k[0], k[1]).check(v, k)
}

func someWeight(v *view, k []string) string {
	for _, key := range k {
		if v.num(key) > 0 {
			return ""
		}
	}
	return fmt.Sprintf("%s, %s and %s must not all be 0", v.name(k[0]), v.name(k[1]), v.name(k[2]))
}

// fileForSource: a source of files needs the file, and the generator reads none.
func fileForSource(v *view, k []string) string {
	if v.text(k[1]) != "generated" && v.text(k[0]) == "" {
		return fmt.Sprintf("%s must name a file, because of %s", v.name(k[0]), v.name(k[1]))
	}
	return noFileWhenGenerated(v, k)
}

// noFileWhenGenerated: a file that would be ignored in silence is a mistake.
func noFileWhenGenerated(v *view, k []string) string {
	if v.text(k[1]) == "generated" && v.text(k[0]) != "" {
		return fmt.Sprintf("%s would not be read, because of %s (set data.source to gsm8k or svamp)", v.name(k[0]), v.name(k[1]))
	}
	return ""
}

// initKind: two words, or something that looks like a path, so that a slip in
// a word does not become a missing file.
func initKind(v *view, k []string) string {
	s := v.text(k[0])
	if s == "base" || s == "random" || strings.ContainsAny(s, `/\.`) {
		return ""
	}
	return fmt.Sprintf("%s must be base, random or the path of a safetensors file (write ./%s for a file of this name)%s",
		v.name(k[0]), s, words.DidYouMean(s, []string{"base", "random"}))
}

// evalLength: an evaluation's bounds leave it a length.
func evalLength(v *view, k []string) string {
	longest := k[1]
	if v.num(longest) == 0 {
		longest = k[2]
	}
	return atMost("", "").check(v, []string{k[0], longest})
}

// accumulationDivides: micro-batches are of equal size.
func accumulationDivides(v *view, k []string) string {
	batch := k[0]
	if v.values[batch].Int() == 0 {
		batch = k[2]
	}
	return multiple("", "").check(v, []string{batch, k[1]})
}

// corpusForSource: two of the corpora are written by the generator.
func corpusForSource(v *view, k []string) string {
	if v.text(k[0]) != "answers" && v.text(k[1]) != "generated" {
		return fmt.Sprintf("%s is made of generated problems and does not go with %s (use answers)", v.name(k[0]), v.name(k[1]))
	}
	return ""
}
