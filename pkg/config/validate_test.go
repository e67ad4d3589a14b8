package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// rules are configurations by --set that break a rule between keys, or of one key beyond its declaration: with what
// the message says and the keys that it shows with their values and origins, in this order.
var rules = []struct{ set, says, keys string }{
	{"name=", "must not be empty", "name"},
	{"weight_add=0 weight_sub=0 weight_mul=0", "not all be 0", "data.weight_add data.weight_sub data.weight_mul"},
	{"val_size=0", "at least", "data.val_size data.source"},
	{"data.source=task:sort difficulty=13", "must be from 2 to 12, the number of letters", "data.difficulty data.source"},
	{"data.source=task:sort difficulty=3 min_difficulty=4", "must be at most", "data.task.min_difficulty data.difficulty"},
	{"data.source=task:sort symbols=abba", "'b' appears twice", "data.task.symbols"},
	{"data.source=task:countdown operators=^", "want some of +-*/", "data.task.operators"},
	{"data.source=task:sort data.task.version=99", "has version 1 of the task's generator", "data.task.version"},
	{"data.source=gsm8k val_file=v.jsonl", "must name", "data.train_file data.source"},
	{"train_file=t.jsonl", "would not be read", "data.train_file data.source"},
	{"test_file=t.jsonl", "would not be read", "data.test_file data.source"},
	{"few_shot=4 prompt_template=chat init=x.gguf", "at most", "data.few_shot"},
	{"prompt_template=few_shot", "needs worked examples", "data.prompt_template"},
	{`data.stop=["x",""]`, "empty text", "data.stop"},
	{"prompt_template=chat", "needs", "data.prompt_template"},
	{"init=bas", "there is no file or folder of this name", "model.init"},
	{"group_size=7", "multiple", "rollout.rollout_batch_size rollout.group_size"},
	{"group_size=1", "at least", "rollout.group_size algorithm.loss_type"},
	{"sampling_top_k=5 logprobs=sampled model.device=cuda", "CPU only", "rollout.logprobs model.device"},
	{"sampling_min_tokens=65", "at most", "rollout.sampling_min_tokens rollout.sampling_max_tokens"},
	{"functions=answer,format", "one weight", "reward.reward_weights reward.functions"},
	{"train_batch_size=100", "multiple", "rollout.rollout_batch_size train.train_batch_size"},
	{"gradient_accumulation_steps=3", "multiple", "rollout.rollout_batch_size train.gradient_accumulation_steps"},
	{"train_batch_size=64 gradient_accumulation_steps=128", "multiple", "train.train_batch_size train.gradient_accumulation_steps"},
	{"warmup_steps=200", "less than", "train.warmup_steps train.n_grpo_steps"},
	{"warmup_steps=1600 train_batch_size=64 num_iterations=2", "less than", "train.warmup_steps train.n_grpo_steps"},
	{"train.lora.rank=8", "needs", "train.lora.rank"},
	{"train.lora.rank=8 init=x.gguf beta=0.1 ref_model_sync_steps=5", "can't be combined", "algorithm.ref_model_sync_steps train.lora.rank"},
	{"eval.min_tokens=9 eval.max_tokens=8", "at most", "eval.min_tokens eval.max_tokens"},
	{"eval.min_tokens=65", "at most", "eval.min_tokens rollout.sampling_max_tokens"},
	{"eval.sets=validation,unsen", "write", "eval.sets"},
	{"eval.samples=1001", "at most 1000", "eval.samples"},
	{"eval.samples=4 final_samples=3", "no effect", "eval.final_samples eval.samples"},
	{"pass_at=[1]", "no effect", "eval.pass_at eval.samples"},
	{"eval.samples=4 pass_at=[0]", "at least 1", "eval.pass_at"},
	{"eval.samples=4 pass_at=[1,8]", "at most", "eval.pass_at eval.samples"},
	{"eval.samples=4 final_samples=6 majority_at=[6,7]", "at most", "eval.majority_at eval.final_samples"},
	{"eval.samples=4 majority_at=[2,2]", "larger", "eval.majority_at"},
	{"final_samples=1001 majority_at=[2]", "more than 1000", "eval.majority_at eval.final_samples"},
	{"eval.sets=validation,./a.jsonl,./a.jsonl", "twice", "eval.sets"},
	{"eval.sets=unseen", "must include", "eval.sets"},
	{"eval.sets=validation,svamp", "because of", "eval.svamp_file eval.sets"},
	{"eval.sets=validation,x/svamp.json,y/svamp.json", "would be called", "eval.sets"},
	{"sets_every_n_steps=15 eval.sets=validation,./a.jsonl", "multiple", "eval.sets_every_n_steps eval.every_n_steps"},
	{"launcher.memory=4", "write", "launcher.memory"},
	{"launcher.time=1h", "write", "launcher.time"},
	{"launcher.partition=a;b", "one word", "launcher.partition"},
	{"launcher.qos=$a", "one word", "launcher.qos"},
	{"launcher.gres=#", "one word", "launcher.gres"},
	{"launcher.exclude=a|b", "one word", "launcher.exclude"},
	{"launcher.directives=#SBATCH", "write", "launcher.directives"},
	{"launcher.kubernetes.image=a;b", "one word", "launcher.kubernetes.image"},
	{"launcher.kubernetes.namespace=a;b", "one word", "launcher.kubernetes.namespace"},
	{"launcher.kubernetes.claim=a;b", "one word", "launcher.kubernetes.claim"},
	{"launcher.kubernetes.mount=a", "absolute", "launcher.kubernetes.mount"},
	{"launcher.kubernetes.labels=a", "write", "launcher.kubernetes.labels"},
	{"functions=soft_overlong overlong_cache=65", "at most", "reward.overlong_cache rollout.sampling_max_tokens"},
	{"functions=cosine cosine_min_value_correct=2", "at most", "reward.cosine_min_value_correct reward.cosine_max_value_correct"},
	{"functions=cosine cosine_max_value_wrong=-2", "at most", "reward.cosine_min_value_wrong reward.cosine_max_value_wrong"},
	{"functions=answer,last_number reward_weights=1,1 false_negative=0.1", "one verifier", "reward.noise.false_negative reward.functions"},
	{"functions=answer,cosine reward_weights=1,1 cosine_correct=r1_zero false_positive=0.1", "one verifier",
		"reward.noise.false_positive reward.functions"},
	{"false_positive=0.5 false_negative=0.5 loss_type=no_baseline correction=backward", "less than 1",
		"reward.noise.false_positive reward.noise.false_negative reward.noise.correction"},
	{"functions=answer,cosine reward_weights=1,1 false_positive=0.1 loss_type=no_baseline correction=forward", "contradicts",
		"reward.noise.correction reward.functions"},
	{"false_positive=0.1 baseline=none normalizer=gpg correction=forward", "contradicts",
		"reward.noise.correction algorithm.normalizer"},
	{"false_positive=0.1 baseline=none normalizer=group_mean correction=forward", "contradicts",
		"reward.noise.correction algorithm.normalizer"},
	{"beta=0.1 kl_in=reward resample_every_n_steps=0", "the policy that sampled", "algorithm.kl_in rollout.resample_every_n_steps"},
	{"algorithm.teacher=base resample_every_n_steps=4", "the policy that sampled", "algorithm.teacher rollout.resample_every_n_steps"},
	{"multi_objective_aggregation=normalize_then_sum loss_type=no_baseline", "contradicts", "reward.multi_objective_aggregation algorithm.loss_type"},
	{"multi_objective_aggregation=normalize_then_sum algorithm.type=ppo", "contradicts", "reward.multi_objective_aggregation algorithm.type"},
	{"multi_objective_aggregation=normalize_then_sum baseline=group_mean", "contradicts", "reward.multi_objective_aggregation algorithm.baseline"},
	{"multi_objective_aggregation=normalize_then_sum normalizer=group_std", "contradicts", "reward.multi_objective_aggregation algorithm.normalizer"},
	{"multi_objective_aggregation=normalize_then_sum scale_rewards=group", "contradicts", "reward.multi_objective_aggregation algorithm.scale_rewards"},
	{"multi_objective_aggregation=normalize_then_sum use_std_normalization=false", "contradicts", "reward.multi_objective_aggregation algorithm.use_std_normalization"},
	{"multi_objective_aggregation=normalize_then_sum pass_k=true", "contradicts", "reward.multi_objective_aggregation algorithm.pass_k"},
	{"multi_objective_aggregation=normalize_then_sum beta=1 kl_in=reward", "contradicts", "reward.multi_objective_aggregation algorithm.kl_in"},
	{"loss_type=grpo_clip dual_clip=1", "more than", "algorithm.dual_clip"},
	{"use_adaptive_entropy=true entropy_coef=1 entropy_coef_min=2", "at most", "algorithm.entropy_coef_min algorithm.entropy_coef_max"},
	{"use_adaptive_entropy=true entropy_coef=2", "at most", "algorithm.entropy_coef algorithm.entropy_coef_min algorithm.entropy_coef_max"},
	{"teacher=random", "must be base", "algorithm.teacher"},
	{"loss_type=dapo length_normalization=masked_mean", "contradicts", "algorithm.length_normalization algorithm.loss_type"},
	{"loss_type=luspo importance_sampling_level=token", "contradicts", "algorithm.importance_sampling_level algorithm.loss_type"},
	{"loss_type=luspo normalize_constant=64", "contradicts", "algorithm.normalize_constant algorithm.loss_type"},
	{"loss_type=cispo", "more than", "algorithm.epsilon_high algorithm.loss_type"},
	{"loss_type=grpo_clip delta=1.2", "more than", "algorithm.delta algorithm.cliprange"},
	{"loss_type=grpo_clip epsilon_high=3 delta=4", "more than", "algorithm.delta algorithm.epsilon_high"},
	{"loss_type=no_baseline baseline=group_mean", "contradicts", "algorithm.baseline algorithm.loss_type"},
	{"loss_type=no_baseline normalizer=batch_std", "contradicts", "algorithm.normalizer algorithm.loss_type"},
	{"loss_type=no_baseline scale_rewards=none", "contradicts", "algorithm.scale_rewards algorithm.loss_type"},
	{"scale_rewards=group baseline=leave_one_out", "contradicts", "algorithm.baseline algorithm.scale_rewards"},
	{"scale_rewards=batch normalizer=group_std", "contradicts", "algorithm.normalizer algorithm.scale_rewards"},
	{"use_std_normalization=true normalizer=batch_std", "contradicts", "algorithm.use_std_normalization algorithm.normalizer"},
	{"use_std_normalization=false scale_rewards=group", "contradicts", "algorithm.use_std_normalization algorithm.scale_rewards"},
	{"algorithm.type=ppo use_std_normalization=false normalizer=whiten_tokens", "contradicts", "algorithm.use_std_normalization algorithm.normalizer"},
	{"pass_k=true loss_type=no_baseline", "contradicts", "algorithm.pass_k algorithm.loss_type"},
	{"pass_k=true algorithm.type=ppo", "contradicts", "algorithm.pass_k algorithm.type"},
	{"pass_k=true baseline=none", "contradicts", "algorithm.pass_k algorithm.baseline"},
	{"pass_k=true normalizer=none", "contradicts", "algorithm.pass_k algorithm.normalizer"},
	{"pass_k=true scale_rewards=group", "contradicts", "algorithm.pass_k algorithm.scale_rewards"},
	{"algorithm.type=ppo baseline=group_mean", "contradicts", "algorithm.baseline algorithm.type"},
	{"algorithm.type=ppo normalizer=batch_std", "contradicts", "algorithm.normalizer algorithm.type"},
	{"algorithm.type=ppo scale_rewards=none", "contradicts", "algorithm.scale_rewards algorithm.type"},
	{"algorithm.type=ppo loss_type=no_baseline", "contradicts", "algorithm.loss_type algorithm.type"},
	{"algorithm.type=ppo teacher=base", "contradicts", "algorithm.teacher algorithm.type"},
	{"algorithm.type=ppo skip_flat_groups=true", "contradicts", "algorithm.skip_flat_groups algorithm.type"},
	{"teacher=base normalizer=whiten_tokens", "contradicts", "algorithm.teacher algorithm.normalizer"},
	{"skip_flat_groups=true beta=1", "contradicts", "algorithm.skip_flat_groups algorithm.beta"},
	{"skip_flat_groups=true entropy_coef=1", "contradicts", "algorithm.skip_flat_groups algorithm.entropy_coef"},
	{"skip_flat_groups=true use_adaptive_entropy=true", "contradicts", "algorithm.skip_flat_groups algorithm.use_adaptive_entropy"},
	{"skip_flat_groups=true teacher=base", "contradicts", "algorithm.skip_flat_groups algorithm.teacher"},
	{"skip_flat_groups=true normalizer=whiten_tokens", "contradicts", "algorithm.skip_flat_groups algorithm.normalizer"},
	{"group_size=1 loss_type=grpo_clip baseline=leave_one_out", "at least", "rollout.group_size algorithm.baseline"},
	{"group_size=1 baseline=none", "at least", "rollout.group_size algorithm.use_std_normalization"},
	{"group_size=1 baseline=none normalizer=group_std", "at least", "rollout.group_size algorithm.normalizer"},
	{"group_size=1 scale_rewards=batch", "at least", "rollout.group_size algorithm.scale_rewards"},
	{"group_size=1 pass_k=true", "at least", "rollout.group_size algorithm.pass_k"},
	{"group_size=1 algorithm.type=ppo dynamic_sampling=true", "at least", "rollout.group_size algorithm.dynamic_sampling"},
	{"group_size=1 multi_objective_aggregation=normalize_then_sum", "at least", "rollout.group_size reward.multi_objective_aggregation"},
	{"normalizer=group_mean functions=soft_overlong", "contradicts", "algorithm.normalizer reward.functions"},
	{"normalizer=group_mean reward_weights=-1", "contradicts", "algorithm.normalizer reward.reward_weights"},
	{"normalizer=group_mean beta=1 kl_in=reward", "contradicts", "algorithm.normalizer algorithm.kl_in"},
	{"loss_expr=-rato*A", `column 2, at "rato*A": unknown name "rato" (did you mean "ratio"?)`, "algorithm.loss_expr"},
	{"loss_expr=-A", "no gradient", "algorithm.loss_expr"},
	{"advantage_expr=r-", "column 3, at its end", "algorithm.advantage_expr"},
	{"loss_type=no_baseline advantage_expr=r", "contradicts", "algorithm.advantage_expr algorithm.loss_type"},
	{"multi_objective_aggregation=normalize_then_sum advantage_expr=r", "contradicts", "reward.multi_objective_aggregation algorithm.advantage_expr"},
	{"skip_flat_groups=true loss_expr=-ratio", "contradicts", "algorithm.skip_flat_groups algorithm.loss_expr"},
	{"group_size=1 advantage_expr=r dynamic_sampling=true", "at least", "rollout.group_size algorithm.dynamic_sampling"},
	{"algorithm.type=dpo loss_weights=1,2", "one weight", "algorithm.dpo.loss_weights algorithm.dpo.loss_type"},
	{"algorithm.type=dpo pairs=best_worst pairs_per_group=2", "contradicts", "algorithm.dpo.pairs_per_group algorithm.dpo.pairs"},
	{"algorithm.type=dpo algorithm.dpo.loss_type=exo_pair", "needs", "algorithm.dpo.loss_type"},
	{"algorithm.type=dpo group_size=1", "at least", "rollout.group_size algorithm.type"},
	{"algorithm.type=dpo train_batch_size=4", "multiple", "train.train_batch_size rollout.group_size algorithm.type"},
	{"algorithm.type=dpo pairs_file=p.jsonl group_size=1 rollout_batch_size=33", "even", "rollout.rollout_batch_size algorithm.dpo.pairs_file"},
}

func TestRules(t *testing.T) {
	for _, test := range rules {
		problem := onlyProblem(t, test.set)
		rest := problem
		for _, key := range strings.Fields(test.keys) {
			_, after, ok := strings.Cut(rest, key+" (")
			if rest = after; !ok || !strings.Contains(problem, test.says) {
				t.Errorf("%s: %s\nwant %q about %s", test.set, problem, test.says, test.keys)
			}
		}
	}
}

// onlyProblem loads a configuration by --set that must have exactly one problem.
func onlyProblem(t *testing.T, set string) string {
	t.Helper()
	r, err := Load(LoadOptions{Set: strings.Fields(set)})
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != 1 {
		t.Errorf("%s: want one problem, got %v and %v", set, r, err)
		return ""
	}
	return e.Problems[0]
}

// withoutEffect are settings that are rejected, each alone besides with, because of another key.
var withoutEffect = []struct{ with, settings, because string }{
	{"", "few_shot_file=f.jsonl few_shot=3 system_prompt=Hi", "data.prompt_template"},
	{"", "data.fields.question=q data.fields.answer=a data.fields.solution=s data.answer=math", "data.source"},
	{"data.source=file train_file=a.jsonl val_file=b.jsonl", "ignore_case=true", "data.answer"},
	{"", "difficulty=3 min_difficulty=2 symbols=abc largest=9 operators=+ data.task.version=1", "data.source"},
	{"data.source=task:parity", "symbols=abc largest=9", "data.source"},
	{"", "precision=tf32 precision=bf16", "model.device"},
	{"init=x.gguf", "precision=tf32", "model.device"},
	{"", "adapter_base=x.gguf", "model.init"},
	{"", "pass_at=1 majority_at=1", "eval.samples"},
	{"", "train.lora.alpha=16 use_rslora=true train.lora.targets=q_proj", "train.lora.rank"},
	{"loss_type=vespo", "importance_sampling_level=sequence sapo_temperature_pos=2", "algorithm.loss_type"},
	{"loss_type=gpg", "dual_clip=3", "algorithm.loss_type"},
	{"", "kl_estimator=k1 kl_in=reward use_bias_correction_kl=true ref_model_sync_steps=10", "algorithm.beta"},
	{"beta=1 kl_in=reward", "use_bias_correction_kl=true", "algorithm.kl_in"},
	{"beta=1", "ref_model_mixup_alpha=0.5", "algorithm.ref_model_sync_steps"},
	{"", "entropy_target=1 entropy_coef_delta=1 entropy_coef_min=0.5 entropy_coef_max=2", "algorithm.use_adaptive_entropy"},
	{"", "off_policy_mask_threshold=1", "algorithm.off_policy_mask"},
	{"advantage_expr=r", "baseline=none normalizer=whiten scale_rewards=batch pass_k=true", "algorithm.advantage_expr"},
	{"algorithm.type=ppo", "advantage_expr=r", "algorithm.type"},
	{"loss_type=grpo_clip loss_expr=-A*logp", "epsilon_high=0.3 delta=3 dual_clip=2 importance_sampling_level=sequence", "algorithm.loss_expr"},
	{"loss_type=sapo loss_expr=-ratio*A*eps", "epsilon_high=0.3 sapo_temperature_pos=2", "algorithm.loss_expr"},
	{"loss_expr=-A*logp", "ref_model_sync_steps=3", "algorithm.beta"},
	{"", "dynamic_sampling_max_rounds=8", "algorithm.dynamic_sampling"},
	{"", "teacher_gamma=1 teacher_length_normalization=false", "algorithm.teacher"},
	{"", "gae_lambda=1 value_learning_rate=1 value_epochs=2 value_clip=0", "algorithm.type"},
	{"functions=format", "false_positive=0.1 false_negative=0.1", "reward.functions"},
	{"", "correction=forward correction=backward", "reward.noise.false_positive"},
	{"false_negative=0.1", "correction=forward correction=backward", "algorithm.loss_type"},
	{"false_negative=0.1 baseline=none normalizer=whiten", "correction=forward correction=backward", "algorithm.loss_type"},
	{"false_negative=0.1 use_std_normalization=false", "correction=forward", "algorithm.loss_type"},
	{"false_negative=0.1 pass_k=true", "correction=backward", "algorithm.loss_type"},
	{"false_negative=0.1 functions=answer,format reward_weights=1,1 multi_objective_aggregation=normalize_then_sum",
		"correction=forward correction=backward", "algorithm.loss_type"},
	{"false_negative=0.1 algorithm.type=dpo", "correction=forward correction=backward", "algorithm.type"},
	{"algorithm.type=dpo pairs_file=p.jsonl", "false_positive=0.1 false_negative=0.1", "algorithm.dpo.pairs_file"},

	{"", "algorithm.dpo.loss_type=hinge loss_weights=2 algorithm.dpo.beta=0.2 label_smoothing=0.1 f_divergence_type=forward_kl " +
		"f_alpha_divergence_coef=0.1 ld_alpha=0.5 use_weighting=true discopop_tau=0.1 pairs=best_worst pairs_per_group=1 " +
		"pairs_file=p.jsonl eval_pairs_file=p.jsonl", "algorithm.type"},
	{"algorithm.type=dpo", "beta=0.1 baseline=none normalizer=none scale_rewards=none gamma=0.5 epsilon_high=1 delta=3 dual_clip=2 " +
		"importance_sampling_level=sequence sapo_temperature_pos=2 loss_expr=-A*logp advantage_expr=r entropy_coef=1 use_adaptive_entropy=true " +
		"top_entropy_quantile=0.5 off_policy_mask=true mask_truncated_completions=true skip_flat_groups=true teacher=base", "algorithm.type"},
	{"algorithm.type=dpo", "label_smoothing=0.1 discopop_tau=0.1 loss_weights=2", "algorithm.dpo.loss_type"},
	{"algorithm.type=dpo algorithm.dpo.loss_type=sft", "ld_alpha=0.5 f_divergence_type=forward_kl", "algorithm.dpo.loss_type"},
	{"algorithm.type=dpo", "f_alpha_divergence_coef=0.1", "algorithm.dpo.f_divergence_type"},
	{"algorithm.type=dpo pairs=best_worst", "pairs_per_group=1", "algorithm.dpo.pairs"},
	{"algorithm.type=dpo pairs_file=p.jsonl", "pairs=best_worst pairs_per_group=2 resample_every_n_steps=0 dynamic_sampling=true",
		"algorithm.dpo.pairs_file"},
}

func TestSettingsWithoutEffect(t *testing.T) {
	var all strings.Builder
	c := Default()
	tests := slices.Clone(withoutEffect)
	for _, k := range keysOf(&c) { // the parameters of losses and rewards
		for _, name := range k.needs {
			if n := needOf(name, &c); strings.Contains(name, ".") && n.key != "" && k.hasNeutral && !strings.HasPrefix(name, "dpo.") {
				tests = append(tests, struct{ with, settings, because string }{"", k.path + "=" + sampleOf(t, k.path), n.key})
			}
		}
	}
	for _, test := range tests {
		for _, setting := range strings.Fields(test.settings) {
			problem := onlyProblem(t, test.with+" "+setting)
			name, _, _ := strings.Cut(setting, "=")
			own, because, ok := strings.Cut(problem, ") has no effect, because of ")
			if key, err := FindKey(name); err != nil || !ok || !strings.HasPrefix(own, key.Path+" (") || !strings.HasPrefix(because, test.because+" (") {
				t.Errorf("%s %s: %s, want it because of %s", test.with, setting, problem, test.because)
			}
			fmt.Fprintln(&all, problem)
		}
	}
	// Every need that rejects is not met by one of the settings.
	for _, k := range keysOf(&c) {
		for _, name := range k.needs {
			if n := needOf(name, &c); k.hasNeutral && !n.notice && !strings.Contains(all.String(), n.fix) {
				t.Errorf("%s needs %s, but no setting is without effect for lack of it", k.path, name)
			}
		}
	}
}

// TestNeedsExist: the names in tags are in the table, and its keys are keys.
func TestNeedsExist(t *testing.T) {
	c := Default()
	keys, used := keysOf(&c), map[string]bool{}
	for _, k := range keys {
		for _, name := range k.needs {
			used[name] = true
			n := needOf(name, &c)
			if _, family := strings.CutPrefix(name, "dpo."); family {
				continue // used by the default's loss
			}
			if n.met == nil || strings.HasPrefix(name, "loss.") && n.fix == "it is for " {
				t.Errorf("%s needs %q, which does not exist", k.path, name)
			}
			if n.key != "" && keys.find(n.key) == nil {
				t.Errorf("%q is about %s, which is no key", name, n.key)
			}
		}
	}
	for name := range needs {
		if !used[name] {
			t.Errorf("no key needs %q", name)
		}
	}
}

// problemsOf lists the problems of a configuration with one value.
func problemsOf[T Root](c T, path string, value any) []string {
	k := keysOf(&c).find(path)
	k.value.Set(reflect.ValueOf(value).Convert(k.value.Type()))
	return newValidator(any(&c).(root), nil).validate()
}

// TestDeclarations: each key rejects values out of its range and not in its list, and accepts those at the ends and in
// the list, in every kind of configuration.
func TestDeclarations(t *testing.T) {
	testDeclarations(t, Default())
	testDeclarations(t, RewardModel{})
	testDeclarations(t, SFT{Stages: []Stage{DefaultStage()}})
}

func testDeclarations[T Root](t *testing.T, c T) {
	ranges, of := 0, 0
	for _, k := range keysOf(&c) {
		check := func(value any, ok bool, want string) {
			t.Helper()
			if k.value.Kind() == reflect.Slice && k.value.Type().Elem().Kind() == reflect.String {
				value = []string{value.(string)}
			}
			rejected := slices.ContainsFunc(problemsOf(c, k.path, value), func(p string) bool {
				return strings.HasPrefix(p, k.path+" (") && strings.Contains(p, want)
			})
			if rejected == ok {
				t.Errorf("%s = %v: rejected %v, as %q", k.path, value, rejected, want)
			}
		}
		for _, s := range k.of {
			check(s, true, "must be one of")
			of++
		}
		if k.of != nil {
			check("nonsense", false, "must be one of "+k.of[0])
			check(k.of[0]+"x", false, fmt.Sprintf("(did you mean %q?)", k.of[0]))
		}
		if k.in == nil {
			continue
		}
		ranges++
		below, above := k.in.low, k.in.high // the nearest values outside
		if k.value.Kind() == reflect.Int || k.value.Type() == reflect.TypeFor[[]int]() {
			below, above = below-1, above+1
		} else {
			if !k.in.lowOpen {
				below = math.Nextafter(below, math.Inf(-1))
			}
			if !k.in.highOpen {
				above = math.Nextafter(above, math.Inf(1))
			}
		}
		number := func(x float64) any {
			switch k.value.Interface().(type) {
			case []float64:
				return []float64{x}
			case []int:
				return []int{int(x)}
			case [2]float64:
				return [2]float64{0, x}
			}
			return x
		}
		check(number(below), false, "must be "+k.in.String())
		if !k.in.lowOpen {
			check(number(k.in.low), true, "must be "+k.in.String())
		}
		if !math.IsInf(k.in.high, 1) {
			check(number(above), false, "must be "+k.in.String())
			check(number(math.Min(k.in.high, math.Nextafter(above, k.in.low))), true, "must be "+k.in.String())
		}
	}
	if ranges < 10 || of < 6 {
		t.Errorf("%d ranges and %d values", ranges, of)
	}
}

// TestRulesAtTheirLimits: the most extreme value that each rule allows.
func TestRulesAtTheirLimits(t *testing.T) {
	for _, set := range []string{
		"group_size=1 loss_type=no_baseline", "group_size=256", "sampling_min_tokens=64", "train_batch_size=256",
		"gradient_accumulation_steps=256", "lr=0", "adam_betas=0,0", "sampling_top_p=1", "weight_add=0 weight_sub=0",
		"test_size=0 unseen_size=0", "data.source=gsm8k train_file=a val_file=b", "init=random", "init=./base",
		"functions=random", "false_positive=1 false_negative=1", "functions=cosine false_positive=0.1", "advantage_eps=0", "max_grad_norm=0", "n_grpo_steps=1", "rollout_batch_size=1048576",
		"reward_weights=0", "reward_weights=-1", "warmup_steps=199", "warmup_steps=1599 train_batch_size=64 num_iterations=2",
		"warmup_steps=2147483647 n_grpo_steps=2147483647 num_iterations=2147483647",
		// a correction has an effect
		"false_negative=0.1 correction=backward use_std_normalization=false", "false_negative=0.1 correction=forward baseline=none",
		"false_negative=0.1 correction=backward functions=answer,format reward_weights=1,1",
		"false_negative=0.1 correction=backward beta=0.1 kl_in=reward", "false_negative=0.1 correction=forward algorithm.type=ppo",
		"false_negative=0.1 correction=forward baseline=none normalizer=whiten_tokens gamma=0.9",
		"false_negative=0.1 correction=backward pass_k=true use_std_normalization=false",
	} {
		if _, err := Load(LoadOptions{Set: strings.Fields(set)}); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

const twoStages = `name: two
stages:
  - name: capability
    corpus: capability
    examples: 100
    steps: 10
    warmup_steps: 5
  - name: preference
    corpus: preference
    steps: 20
    accept_sampled_max: 0.25
`

func TestRulesSFT(t *testing.T) {
	path := write(t, twoStages)
	tests := []struct{ set, want string }{
		{"stages.0.name=", `stages.0.name ("", --set stages.0.name) must not be empty`},
		{"stages.1.name=capability", `stages.1.name ("capability", --set stages.1.name) must not be the same as stages.0.name ("capability", FILE: line 3)`},
		{"stages.0.steps=4", `stages.0.warmup_steps (5, FILE: line 7) must be at most stages.0.steps (4, --set stages.0.steps)`},
		{"stages.0.batch_size=101", `stages.0.batch_size (101, --set stages.0.batch_size) must be at most stages.0.examples (100, FILE: line 5)`},
		{"stages.1.accept_sampled_min=0.5", `stages.1.accept_sampled_min (0.5, --set stages.1.accept_sampled_min) must be at most stages.1.accept_sampled_max (0.25`},
		{"eval_size=1025", `eval_size (1025, --set eval_size) must be at most data.val_size (1024, default)`},
		{"data.source=gsm8k data.train_file=a data.val_file=b stages.0.corpus=answers", `stages.1.corpus ("preference", FILE: line 9) consists of generated problems and can't be combined with data.source ("gsm8k", --set data.source) (use answers)`},
		{"steps=5", `--set: "steps" is the last part of several keys: write one of stages.0.steps, stages.1.steps`},
		{"stages.2.steps=5", `--set: unknown key "stages.2.steps"`},
		{"lr=5", `--set: unknown key "lr"`},
	}
	for _, test := range tests {
		_, err := LoadSFT(LoadOptions{Path: path, Set: strings.Fields(test.set)})
		wantError(t, test.set, err, strings.ReplaceAll(test.want, "FILE", path))
	}
	_, err := LoadSFT(LoadOptions{Path: write(t, "seed: 1\n")})
	wantError(t, "no stages", err, "stages must have at least one stage")
}

func TestValidate(t *testing.T) {
	c := Default()
	if err := Validate(&c); err != nil {
		t.Errorf("the default: %v", err)
	}
	sft := DefaultSFT()
	sft.Stages = []Stage{DefaultStage()}
	expect.Error(t, Validate(&sft), "check config: 3 problems")
	c.Rollout.GroupSize = 7
	err := Validate(&c)
	want := "check config: rollout.rollout_batch_size (256) must be a multiple of rollout.group_size (7)"
	if err == nil || err.Error() != want || !errors.Is(err, ErrConfig) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var zero Config
	if err := Validate(&zero); err == nil {
		t.Error("the zero configuration is accepted")
	}
}

// TestValidateEveryValue: no number may be NaN or infinite and no string unprintable, because it
// could not be written and read back.
func TestValidateEveryValue(t *testing.T) {
	for i, f := range keysOf(Default()) {
		var bad []reflect.Value
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			switch f.value.Interface().(type) {
			case float64:
				bad = append(bad, reflect.ValueOf(x))
			case []float64:
				bad = append(bad, reflect.ValueOf([]float64{x}))
			case [2]float64:
				bad = append(bad, reflect.ValueOf([2]float64{0, x}))
			}
		}
		switch f.value.Interface().(type) {
		case string:
			bad = append(bad, reflect.ValueOf("a\nb"), reflect.ValueOf("\xff"))
		case []string:
			bad = append(bad, reflect.ValueOf([]string{"a\x00"}))
		}
		for _, b := range bad {
			c := Default()
			keysOf(&c)[i].value.Set(b)
			expect.Error(t, Validate(&c), f.path)
		}
	}
}

// Where a key is wrong, model.init was not looked for: nothing is said of it.
func TestUnknownKeyHidesNoCheckpoint(t *testing.T) {
	_, err := Load(LoadOptions{Set: []string{"lorra.rank=4", "model.init=taught", "train.lora.rank=16", "data.prompt_template=chat"}})
	if err == nil || !strings.Contains(err.Error(), `unknown key "lorra.rank"`) || strings.Contains(err.Error(), "model.init") {
		t.Errorf("error %v", err)
	}
}
