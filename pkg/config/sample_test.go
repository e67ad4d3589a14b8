package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
	"grpo/pkg/rl"
)

// samples are valid configurations as keys with values other than the default, so that a source
// that does not reach a key is detected. Together they have every key; no single valid
// configuration could.
var samples = []map[string]string{
	{
		"name": "other", "seed": "18446744073709551615",
		"data.source": "gsm8k", "data.train_file": "a.jsonl", "data.val_file": "B.jsonl", "data.test_file": "c d.jsonl",
		"data.fields.question": "Input", "data.fields.answer": "target value", "data.fields.solution": "work.done", "data.answer": "text", "data.ignore_case": "true", "data.skip_bad": "true", "data.annotations": "strip", "data.prompt_template": "chat", "data.system_prompt": "Solve it.", "data.few_shot": "2", "data.few_shot_file": "Few.jsonl", "data.stop": "[a b]",
		"data.generator_seed": "0", "data.weight_add": "0.1", "data.weight_sub": "2", "data.weight_mul": "0",
		"data.val_size": "10", "data.test_size": "0", "data.unseen_size": "11", "data.train_size": "12",
		"model.hidden_size": "128", "model.num_layers": "1", "model.init": "Runs/x.safetensors", "model.device": "cuda", "model.precision": "tf32", "model.adapter_base": "./b.gguf",
		"rollout.rollout_batch_size": "512", "rollout.group_size": "16", "rollout.sampling_temperature": "0.7",
		"rollout.sampling_top_p": "0.95", "rollout.sampling_top_k": "20", "rollout.sampling_min_tokens": "4",
		"rollout.sampling_max_tokens": "32",
		"reward.extract":              "boxed", "eval.reward": "format",
		"reward.functions": "[format, answer]", "reward.reward_weights": "[0.25, -1]",
		"algorithm.loss_type": "grpo_clip", "algorithm.use_std_normalization": "false", "algorithm.advantage_eps": "1e-4",
		"algorithm.cliprange": "0.3", "algorithm.length_normalization": "masked_normalize", "algorithm.normalize_constant": "100.5",
		"train.n_grpo_steps": "7", "train.epochs_per_rollout_batch": "2", "train.train_batch_size": "128",
		"train.gradient_accumulation_steps": "4", "train.micro_batch_tokens": "900", "train.gradient_checkpointing": "true", "train.learning_rate": "3e-4", "train.adam_betas": "[0.8, 0.99]",
		"train.adam_eps": "1e-9", "train.weight_decay": "0.01", "train.max_grad_norm": "0",
		"train.lr_scheduler": "cosine", "train.warmup_steps": "55", "train.stop_on_divergence": "true",
		"train.lora.rank": "8", "train.lora.alpha": "16", "train.lora.targets": "[v_proj, q_proj]", "train.lora.use_rslora": "true",
		"eval.every_n_steps": "5", "eval.temperature": "0.8", "eval.top_p": "0.9", "eval.top_k": "30", "eval.min_tokens": "2", "eval.max_tokens": "48", "eval.greedy": "false", "eval.save_samples": "0",
		"eval.sets": "[validation, svamp, p.jsonl]", "eval.svamp_file": "SVAMP.json", "eval.set_size": "9", "eval.sets_every_n_steps": "10", "eval.final_size": "15", "eval.final_samples": "5", "eval.samples": "3", "eval.pass_at": "[1, 4]", "eval.majority_at": "[3]",
		"output.checkpoint_every_n_steps": "50", "output.checkpoint_every_minutes": "2.5", "output.keep_checkpoints": "3", "output.keep": "best", "output.tensorboard": "true", "output.formats": "[png, pdf]",
		"report.margin": "0.01",
		"launcher.type": "slurm", "launcher.cpus": "2", "launcher.memory": "1.5G", "launcher.time": "1-02:30:00", "launcher.parallelism": "8",
		"launcher.partition": "Long", "launcher.account": "a1", "launcher.qos": "low", "launcher.gres": "gpu:1", "launcher.exclude": "node7",
		"launcher.setup": "[module load cuda, ulimit -n 4096]", "launcher.directives": "[--constraint=avx512]",
		"launcher.kubernetes.image": "example.com/grpo:1", "launcher.kubernetes.namespace": "rl", "launcher.kubernetes.claim": "data",
		"launcher.kubernetes.mount": "/data", "launcher.kubernetes.labels": "[team=rl]", "launcher.kubernetes.gpus": "1",
	},
	{
		"algorithm.loss_type": "grpo_clip", "algorithm.baseline": "leave_one_out", "algorithm.normalizer": "batch_std",
		"algorithm.gamma": "0.99", "algorithm.epsilon_high": "0.28", "algorithm.delta": "4", "algorithm.dual_clip": "3",
		"algorithm.importance_sampling_level": "sequence", "algorithm.beta": "0.04", "algorithm.kl_estimator": "k3+",
		"algorithm.use_bias_correction_kl": "true", "algorithm.ref_model_sync_steps": "10", "algorithm.ref_model_mixup_alpha": "0.5",
		"algorithm.entropy_coef": "0.01", "algorithm.use_adaptive_entropy": "true", "algorithm.entropy_target": "0.3",
		"algorithm.entropy_coef_delta": "0.002", "algorithm.entropy_coef_min": "0.001", "algorithm.entropy_coef_max": "0.5",
		"algorithm.top_entropy_quantile": "0.2", "algorithm.off_policy_mask": "true", "algorithm.off_policy_mask_threshold": "0.5",
		"algorithm.mask_truncated_completions": "true", "algorithm.dynamic_sampling": "true",
		"algorithm.dynamic_sampling_max_rounds": "3", "algorithm.teacher": "./T.safetensors", "algorithm.teacher_gamma": "0.9",
		"algorithm.teacher_length_normalization": "false",
	},
	{
		"algorithm.type": "ppo", "algorithm.loss_type": "grpo_clip", "algorithm.gae_lambda": "0.9",
		"algorithm.value_learning_rate": "0.01", "algorithm.value_epochs": "3", "algorithm.value_clip": "0.5",
		"algorithm.beta": "0.1", "algorithm.kl_in": "reward",
	},
	{"algorithm.pass_k": "true", "algorithm.skip_flat_groups": "true"},
	{
		"algorithm.loss_expr":      "-min(ratio*A, clip(ratio, 1 - eps, 1 + eps)*A) + 0.01 * exp(ref - logp)",
		"algorithm.advantage_expr": "(r - mean) / (std + 1e-6) - 0.1 * length / max(length)",
	},
	{"algorithm.scale_rewards": "batch", "rollout.sampling_top_k": "20", "rollout.logprobs": "sampled"},
	{
		"reward.noise.false_positive": "0.1", "reward.noise.false_negative": "0.2", "reward.noise.correction": "forward",
		"algorithm.baseline": "none",
	},
	{
		"algorithm.type": "dpo", "algorithm.dpo.loss_type": "[exo_pair, discopop]", "algorithm.dpo.loss_weights": "[1, 0.5]",
		"algorithm.dpo.beta": "0.2", "algorithm.dpo.label_smoothing": "0.01", "algorithm.dpo.f_divergence_type": "alpha_divergence",
		"algorithm.dpo.f_alpha_divergence_coef": "0.3", "algorithm.dpo.ld_alpha": "0.9", "algorithm.dpo.use_weighting": "true",
		"algorithm.dpo.discopop_tau": "0.1", "algorithm.dpo.pairs": "length_controlled", "algorithm.dpo.pairs_per_group": "2",
		"algorithm.dpo.eval_pairs_file": "held.jsonl", "rollout.resample_every_n_steps": "0",
	},
	{
		"data.source": "task:sort", "data.difficulty": "5", "data.task.min_difficulty": "3", "data.task.symbols": "abcXYZ",
		"data.task.version": "1",
	},
	{"data.source": "task:countdown", "data.task.largest": "12", "data.task.operators": "+-*/"},
	{"algorithm.type": "dpo", "algorithm.dpo.pairs_file": "pairs.jsonl"},
	{
		"reward.functions": "[last_number, soft_overlong, cosine]", "reward.reward_weights": "[1, 0.5, 2]",
		"reward.multi_objective_aggregation": "normalize_then_sum", "reward.overlong_cache": "8", "reward.cosine_correct": "r1_zero",
		"reward.cosine_min_value_correct": "0.25", "reward.cosine_max_value_correct": "2",
		"reward.cosine_min_value_wrong": "-2", "reward.cosine_max_value_wrong": "0",
	},
}

// init adds a sample for each parameter of a loss or a reward that has none.
func init() {
	c := Default()
	for _, k := range keysOf(&c) {
		for _, name := range k.needs {
			family, option, _ := strings.Cut(name, ".")
			value := strings.TrimPrefix(k.format()+"1", "0") // 1.051, 31, -11
			switch {
			case hasSample(k.path):
			case family == "loss":
				samples = append(samples, map[string]string{k.path: value, "algorithm.loss_type": rl.LossesWith(option)[0]})
			case family == "reward":
				samples = append(samples, map[string]string{k.path: value, "reward.functions": "[" + option + "]"})
			}
		}
	}
}

func hasSample(path string) bool {
	return slices.ContainsFunc(samples, func(s map[string]string) bool { return s[path] != "" })
}

// sampleOf returns the first sample of a key.
func sampleOf(t testing.TB, key string) string {
	t.Helper()
	for _, s := range samples {
		if v, ok := s[key]; ok {
			return v
		}
	}
	t.Fatalf("no sample has %s", key)
	return ""
}

// TestEverySourceReachesEveryKey: viper drops environment values of unknown keys and lower-cases
// known ones; neither may affect the result.
func TestEverySourceReachesEveryKey(t *testing.T) {
	keys := keysOf(Default()).paths()
	for _, key := range keys {
		sampleOf(t, key)
	}
	defaults := map[string]string{}
	for _, f := range keysOf(Default()) {
		defaults[f.path] = yamldoc.Format(f.value)
	}
	for i, sample := range samples {
		var file strings.Builder
		var env, set []string
		var flags []Flag
		section := ""
		for _, key := range keys {
			value, ok := sample[key]
			if !ok {
				continue
			}
			head, rest, nested := strings.Cut(key, ".")
			if nested && head != section {
				section = head
				fmt.Fprintf(&file, "%s:\n", head)
			}
			if part, name, deeper := strings.Cut(rest, "."); deeper {
				if !strings.Contains(file.String(), "  "+part+":\n") {
					fmt.Fprintf(&file, "  %s:\n", part)
				}
				fmt.Fprintf(&file, "    %s: %s\n", name, value)
			} else if nested {
				fmt.Fprintf(&file, "  %s: %s\n", rest, value)
			} else {
				fmt.Fprintf(&file, "%s: %s\n", key, value)
			}
			env = append(env, EnvName(key)+"="+value)
			set = append(set, key+"="+value)
			flags = append(flags, Flag{Key: key, Name: "--x", Value: value})
		}
		for name, opts := range map[string]LoadOptions{
			"file": {Path: write(t, file.String())}, "env": {Env: env}, "set": {Set: set}, "flags": {Flags: flags},
		} {
			r, err := Load(opts)
			if err != nil {
				t.Errorf("sample %d, %s: %v", i, name, err)
				continue
			}
			for _, row := range r.Rows() {
				value, given := sample[row.Key]
				if given != (row.Origin.Source != SourceDefault) {
					t.Errorf("sample %d, %s: %s comes from the %v", i, name, row.Key, row.Origin)
				}
				if !given {
					continue
				}
				v := reflect.New(keysOf(Default()).find(row.Key).value.Type()).Elem()
				expect.OK(t, yamldoc.SetText(v, value))
				if want := yamldoc.Format(v); row.Value != want {
					t.Errorf("sample %d, %s: %s is %s, want %s", i, name, row.Key, row.Value, want)
				}
				if row.Value == defaults[row.Key] {
					t.Errorf("sample %d: %s has the default value %s", i, row.Key, row.Value)
				}
			}
		}
	}
}
