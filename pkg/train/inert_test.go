package train

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// contexts are configurations in which every key is varied. Together they cover cases where a key
// has an effect and where it has none.
var contexts = []string{
	"",
	"loss_type=grpo_clip",
	"loss_type=grpo_clip train_batch_size=16",
	"loss_type=grpo_clip epochs_per_rollout_batch=2 importance_sampling_level=sequence beta=0.05",
	"loss_type=no_baseline length_normalization=constant",
	"loss_type=sapo",
	"loss_type=sapo train_batch_size=16",
	"loss_type=vespo",
	"loss_type=vespo train_batch_size=16",
	"loss_type=geo_mean train_batch_size=16",
	"loss_type=cispo epsilon_high=5 train_batch_size=16",
	"baseline=leave_one_out normalizer=none",
	"loss_type=grpo_clip resample_every_n_steps=0",
	"algorithm.type=dpo",
	"algorithm.type=dpo algorithm.dpo.loss_type=robust label_smoothing=0.1 resample_every_n_steps=0",
	"algorithm.type=dpo algorithm.dpo.loss_type=discopop,sft pairs=best_worst f_divergence_type=alpha_divergence train_batch_size=16 lr=0.0003",
	"normalizer=whiten_tokens gamma=0.9 beta=0.05 kl_in=reward",
	"pass_k=true use_std_normalization=false",
	"teacher=base teacher_gamma=0.5 beta=0.05 ref_model_sync_steps=1",
	"teacher=base ref_model_sync_steps=2 beta=0.05",
	"entropy_coef=0.01 top_entropy_quantile=0.5 loss_type=bnpo",
	"use_adaptive_entropy=true entropy_target=5 off_policy_mask=true epochs_per_rollout_batch=2",
	"off_policy_mask=true",
	"rollout.logprobs=sampled sampling_top_k=5 beta=0.05",
	"algorithm.type=ppo loss_type=grpo_clip",
	"algorithm.type=ppo loss_type=grpo_clip value_epochs=2 train_batch_size=16 use_std_normalization=false",
	"functions=[answer,cosine,soft_overlong,repetition] reward_weights=[1,1,1,1] multi_objective_aggregation=normalize_then_sum",
	"loss_type=no_baseline false_positive=0.2 false_negative=0.1",
	"loss_type=sapo train_batch_size=16 loss_expr=-min(ratio*A,clip(ratio,1-eps,1+eps_high)*A)+0.1*(logp-ref)**2-0.1*entropy",
	"loss_expr=-A*logp advantage_expr=r-mean+0.01*length",
	"use_std_normalization=false false_negative=0.3",
}

// others are values of a key other than its default.
var others = map[string][]string{
	"data.annotations": {"strip"}, "data.prompt_template": {"question_only", "r1_zero"}, "data.skip_bad": {"true"},
	"data.generator_seed": {"2"}, "data.weight_add": {"2"}, "data.weight_sub": {"2"}, "data.weight_mul": {"2"}, "data.train_size": {"20"},
	"model.init":                 {"random"},
	"rollout.rollout_batch_size": {"96"}, "rollout.group_size": {"4"}, "rollout.sampling_temperature": {"1.3"}, "rollout.sampling_top_p": {"0.8"},
	"rollout.sampling_top_k": {"3"}, "rollout.sampling_min_tokens": {"12"}, "rollout.sampling_max_tokens": {"20"}, "rollout.resample_every_n_steps": {"0", "2"},
	"rollout.logprobs":        {"sampled", "sampled rollout.sampling_top_k=5"},
	"algorithm.dpo.loss_type": rl.PreferenceLosses(), "algorithm.dpo.loss_weights": {"[2, 0.5]"}, "algorithm.dpo.beta": {"1"}, "algorithm.dpo.label_smoothing": {"0.3"},
	"algorithm.dpo.f_divergence_type": rl.Divergences(), "algorithm.dpo.f_alpha_divergence_coef": {"3"}, "algorithm.dpo.ld_alpha": {"0.3"},
	"algorithm.dpo.use_weighting": {"true"}, "algorithm.dpo.discopop_tau": {"1"}, "algorithm.dpo.pairs": rl.PairRules(), "algorithm.dpo.pairs_per_group": {"1"},
	"reward.functions": {"[format]"}, "reward.reward_weights": {"[2]", "[1, 2, 1, 1]"},
	"reward.multi_objective_aggregation": {"normalize_then_sum"}, "reward.overlong_cache": {"40"}, "reward.repetition_n_grams": {"1"},
	"reward.repetition_max_penalty": {"-2"}, "reward.cosine_correct": {"last_number"}, "reward.cosine_max_len": {"30"},
	"reward.cosine_min_value_correct": {"0.2"}, "reward.cosine_max_value_correct": {"2"}, "reward.cosine_min_value_wrong": {"-2"}, "reward.cosine_max_value_wrong": {"-0.1"},
	"reward.noise.false_positive": {"0.9"}, "reward.noise.false_negative": {"0.9"}, "reward.noise.correction": rl.Corrections(),
	"algorithm.type": {"ppo", "dpo"}, "algorithm.loss_type": rl.RecipeNames(), "algorithm.loss_expr": {"-2*ratio*A"}, "algorithm.advantage_expr": {"r"}, "algorithm.baseline": rl.Baselines(), "algorithm.normalizer": config.Normalizers(),
	"algorithm.scale_rewards": {"group", "batch", "none"}, "algorithm.use_std_normalization": {"true", "false"}, "algorithm.advantage_eps": {"0.1"},
	"algorithm.pass_k": {"true"}, "algorithm.gamma": {"0.5"}, "algorithm.cliprange": {"0.0001"}, "algorithm.epsilon_high": {"0.0001", "7", "0.2"}, "algorithm.delta": {"1.3"},
	"algorithm.dual_clip": {"1.00001"}, "algorithm.importance_sampling_level": rl.ImportanceLevels(), "algorithm.length_normalization": rl.Aggregations(),
	"algorithm.normalize_constant": {"10"}, "algorithm.sapo_temperature_pos": {"9"}, "algorithm.sapo_temperature_neg": {"9"},
	"algorithm.vespo_k_pos": {"9"}, "algorithm.vespo_lambda_pos": {"9"}, "algorithm.vespo_k_neg": {"9"}, "algorithm.vespo_lambda_neg": {"9"},
	"algorithm.beta": {"0.1"}, "algorithm.kl_estimator": rl.KLEstimators(), "algorithm.kl_in": {"reward"}, "algorithm.use_bias_correction_kl": {"true"},
	"algorithm.ref_model_sync_steps": {"1", "2", "9"}, "algorithm.ref_model_mixup_alpha": {"0.1"}, "algorithm.entropy_coef": {"0.1"}, "algorithm.use_adaptive_entropy": {"true algorithm.entropy_target=5"},
	"algorithm.entropy_target": {"0"}, "algorithm.entropy_coef_delta": {"0.1"}, "algorithm.entropy_coef_min": {"0.1"}, "algorithm.entropy_coef_max": {"0.001"},
	"algorithm.top_entropy_quantile": {"0.3"}, "algorithm.off_policy_mask": {"true"}, "algorithm.off_policy_mask_threshold": {"9"},
	"algorithm.mask_truncated_completions": {"true"}, "algorithm.skip_flat_groups": {"true"}, "algorithm.dynamic_sampling": {"true"}, "algorithm.dynamic_sampling_max_rounds": {"2"},
	"algorithm.teacher": {"base"}, "algorithm.teacher_gamma": {"0.9"}, "algorithm.teacher_length_normalization": {"false"}, "algorithm.gae_lambda": {"0.5"},
	"algorithm.value_learning_rate": {"0.1"}, "algorithm.value_epochs": {"2"}, "algorithm.value_clip": {"0.00001", "0"},
	"train.n_grpo_steps": {"3"}, "train.epochs_per_rollout_batch": {"2"}, "train.train_batch_size": {"16"}, "train.gradient_accumulation_steps": {"2"}, "train.micro_batch_tokens": {"90"}, "train.learning_rate": {"0.1"}, "train.adam_betas": {"[0.5, 0.5]"},
	"train.adam_eps": {"0.1"}, "train.weight_decay": {"0.1"}, "train.max_grad_norm": {"0.001"},
	"train.lr_scheduler": {"linear", "cosine"}, "train.warmup_steps": {"1"},
}

// weightsOf trains without a folder and returns the weights.
func weightsOf(t *testing.T, cfg config.Config, problems map[string]*dataset.Splits) []float32 {
	t.Helper()
	run := &trainer{cfg: cfg, model: modelOf(t, cfg.Model, cfg.Train.LoRA), opts: options("", &watch{}, 1)}
	defer run.close()
	var err error
	if run.data.problems = problems[fmt.Sprint(cfg.Data)]; run.data.problems == nil {
		run.data.problems, err = dataset.Load(cfg.Data, cfg.Answers())
		expect.OK(t, err)
		problems[fmt.Sprint(cfg.Data)] = run.data.problems
	}
	run.data.template, err = gsm8k.LookupTemplate(cfg.Data.PromptTemplate)
	expect.OK(t, err)
	expect.OK(t, run.build())
	run.sampler = run.Policy.NewSampler()
	for step := range cfg.Train.NGRPOSteps {
		if _, _, err := run.trainStep(step+1, newStopwatch(time.Now).lap); err != nil {
			t.Fatal(err)
		}
	}
	return run.Params.Flat
}

// reached reports whether these short runs reach the limit or case that a setting is about; longer
// ones do, so the setting is not without effect.
func reached(context, key, v string) bool {
	switch key + "=" + v {
	case "algorithm.teacher=base": // what samples is the teacher
		return !strings.Contains(context, "resample_every_n_steps=0")
	case "algorithm.delta=1.3", "algorithm.epsilon_high=7", "algorithm.kl_estimator=low_var_kl",
		"algorithm.dynamic_sampling=true":
		return false
	}
	return true
}

// rounding is the possible effect of another order of sums on AdamW, a tenth of its rate here.
const rounding = 3e-4

// distance is the largest difference of two weights.
func distance(a, b []float32) (d float64) {
	for i, x := range a {
		d = max(d, math.Abs(float64(x)-float64(b[i])))
	}
	return d
}

// TestEverySettingHasAnEffect trains pairs of configurations that differ in one key: either the weights
// differ, or the two are known to be the same experiment, which a sweep refuses.
func TestEverySettingHasAnEffect(t *testing.T) {
	long(t)
	base := []string{"n_grpo_steps=2", "rollout_batch_size=32", "data.val_size=8", "data.test_size=0", "data.unseen_size=0", "sampling_max_tokens=30", "group_size=4", "lr=0.003"}
	load := func(set ...string) (config.Config, error) {
		r, err := config.Load(config.LoadOptions{Set: append(slices.Clone(base), set...)})
		if err != nil {
			return config.Config{}, err
		}
		return r.Config, nil
	}
	problems := map[string]*dataset.Splits{}
	for i, c := range contexts {
		t.Run(c, func(t *testing.T) {
			if os.Getenv("GRPO_LONG") == "" && i%40 != 0 {
				t.Skip("only every fortieth context, and one value of a key, without GRPO_LONG, which CI sets")
			}
			cfg, err := load(strings.Fields(c)...)
			expect.OK(t, err)
			first, experiment := weightsOf(t, cfg, problems), config.Hash(config.Experiment(cfg))
			for _, key := range slices.Sorted(maps.Keys(others)) {
				// Sampling and its problems do not depend on the loss.
				if section, _, _ := strings.Cut(key, "."); c != "" && slices.Contains([]string{"data", "model", "rollout"}, section) {
					continue
				}
				values := others[key]
				if os.Getenv("GRPO_LONG") == "" {
					values = values[:1]
				}
				for _, v := range values {
					other, err := load(append(strings.Fields(c), strings.Fields(key+"="+v)...)...)
					if err != nil || config.Hash(other) == config.Hash(cfg) {
						continue
					}
					alike := config.Hash(config.Experiment(other)) == experiment
					switch d := distance(first, weightsOf(t, other, problems)); {
					case d == 0 && !alike && reached(c, key, v):
						t.Errorf("%s=%s changes no bit of the weights and is taken for a different experiment", key, v)
					case d > rounding && alike:
						t.Errorf("%s=%s moves the weights by %g and is taken for the same experiment", key, v, d)
					}
				}
			}
		})
	}
}
