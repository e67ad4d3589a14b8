package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func TestLossesRefuse(t *testing.T) {
	const config = `"loss_type": "grpo"`
	tests := []struct{ name, old, new, want string }{
		{"empty", lossExample, " \n", "f.json: the file is empty"},
		{"syntax", `"mask": [[1, 1], [1, 0]]`, `"mask": [[1, 1], [1, 0]`, "f.json: line 5: "},
		{"NaN", `[[-1, -2], [-1, -3]]`, `[[NaN, -2], [-1, -3]]`, "f.json: line 5: invalid character 'N' at start of value (JSON has no NaN and no Infinity; write null for a missing number)"},
		{"trailing", lossExample, lossExample + "{}", "f.json: line 13: invalid character"},
		{"a list", lossExample, "[]", "f.json: a list; it must be an object"},
		{"null", lossExample, "null", "f.json: inputs.mask: missing"},
		{"no inputs", `"inputs"`, `"_inputs"`, "f.json: line 1: inputs.mask: missing"},
		{"inputs twice", `"_source": "a remark"`, `"inputs": {}`, "f.json: inputs: the field appears twice"},
		{"no cases", `"cases"`, `"_cases"`, `f.json: no cases: there is neither a list "cases"`},
		{"cases of another kind", lossExample, `{"inputs": {"mask": [[1]], "per_token_logps": [[1]], "advantages": [1]}, "cases": {}}`, "f.json: cases: an object; it must be a list"},
		{"unknown field of the file", `"_source"`, `"source"`, "f.json: source: unknown field (known: "},
		{"unknown input", `"advantages"`, `"logps": [], "advantages"`, "f.json: inputs.logps: unknown field"},
		{"no mask", `"mask"`, `"_mask"`, "f.json: inputs.mask: missing"},
		{"mask of 2", `[[1, 1], [1, 0]]`, `[[1, 1], [2, 0]]`, "f.json: line 4: inputs.mask[1][0]: 2; a mask is 0 or 1"},
		{"mask of null", `[[1, 1], [1, 0]]`, `[[1, 1], [null, 0]]`, "f.json: inputs.mask[1][0]: null; it must be a number"},
		{"flat mask", `[[1, 1], [1, 0]]`, `[1, 1]`, "f.json: inputs.mask[0]: a number; it must be a list of numbers"},
		{"empty mask", `[[1, 1], [1, 0]]`, `[]`, "inputs.mask: no tokens"},
		{"ragged mask", `[[1, 1], [1, 0]]`, `[[1, 1], [1]]`, "f.json: inputs.mask[1]: 1 numbers; the rows before it have 2"},
		{"ragged matrix", `[[-1, -2], [-1, -3]]`, `[[-1, -2], [-1, -3, -4]]`, "f.json: inputs.per_token_logps[1]: 3 numbers"},
		{"string in a matrix", `[[-1, -2], [-1, -3]]`, `[[-1, "x"], [-1, -3]]`, "f.json: inputs.per_token_logps[0][1]: a string; it must be a number"},
		{"number out of range", `[[-1, -2], [-1, -3]]`, `[[-1, -2], [1e999, -3]]`, "per_token_logps[1][0]: out of the range"},
		{"null under the mask", `[[-1, -2], [-1, -3]]`, `[[-1, -2], [null, -3]]`, "f.json: inputs.per_token_logps[1][0]: null where the mask is 1"},
		{"another shape", `[[-1, -2], [-1, -3]]`, `[[-1], [-2]]`, "f.json: inputs.per_token_logps: shape (2, 1), but the mask is of shape (2, 2)"},
		{"B", `"mask"`, `"B": 3, "mask"`, "f.json: inputs.B: 3, but the mask is of shape (2, 2)"},
		{"T is not a whole number", `"mask"`, `"T": 2.5, "mask"`, "f.json: inputs.T: 2.5; it must be a whole number"},
		{"advantages", `[1, -1]`, `[1, -1, 0]`, "f.json: inputs.advantages: 3 numbers; there are 2 sequences"},
		{"null advantage", `[1, -1]`, `[1, null]`, "f.json: inputs.advantages[1]: null"},
		{"advantages of a wrong shape", `[1, -1]`, `[[1], [-1]]`, "f.json: inputs.advantages: shape (2, 1)"},
		{"no config", `"config"`, `"_config"`, "f.json: cases[0].config: missing"},
		{"config of another kind", `{"loss_type": "grpo"}`, `"grpo"`, "f.json: cases[0].config: a string; it must be an object"},
		{"a case of another kind", `{"config": {"loss_type": "grpo"}}`, `3`, "f.json: cases[0]: a number; it must be an object"},
		{"no loss type", config, ``, `f.json: cases[0].config.loss_type: unknown name "" (known: grpo, bnpo`},
		{"unknown loss type", `"loss_type": "dapo"`, `"loss_type": "dap"`, `f.json: cases[1].config.loss_type: unknown name "dap" (did you mean "dapo"?)`},
		{"loss type of another kind", config, `"loss_type": 3`, "f.json: cases[0].config.loss_type: a number; it must be a string"},
		{"unknown field", `"epsilon_high"`, `"epsilon_hi"`, `f.json: line 11: cases[1].config.epsilon_hi: unknown field (did you mean "epsilon_high"?)`},
		{"unknown field of a case", `"config": {"loss_type": "grpo"}`, `"config": {"loss_type": "grpo"}, "name": "x"`, "f.json: cases[0].name: unknown field"},
		{"field twice", config, config + `, "beta": 0, "beta": 1`, "f.json: line 10: cases[0].config.beta: the field appears twice"},
		{"epsilon of another kind", config, config + `, "epsilon": "0.2"`, "f.json: cases[0].config.epsilon: a string; it must be a number"},
		{"epsilon too small", config, config + `, "epsilon": 0`, "f.json: cases[0].config: trl loss: loss \"grpo_clip\": epsilon"},
		{"epsilon_high", `0.28`, `0`, "f.json: cases[1].config.epsilon_high: 0; it must be above 0"},
		{"delta", config, config + `, "delta": -1`, "f.json: cases[0].config.delta: -1; it must be above 0"},
		{"quantile", config, config + `, "top_entropy_quantile": 0`, "f.json: cases[0].config.top_entropy_quantile: 0; it must be above 0"},
		{"steps", config, config + `, "gradient_accumulation_steps": 0`, "f.json: cases[0].config.gradient_accumulation_steps: 0; it must be a whole number"},
		{"level", config, config + `, "importance_sampling_level": "word"`, `f.json: cases[0].config.importance_sampling_level: unknown name "word"`},
		{"on_policy", config, config + `, "on_policy": 1`, "f.json: cases[0].config.on_policy: a number; it must be true or false"},
		{"no length for dr_grpo", config, `"loss_type": "dr_grpo"`, "f.json: cases[0].config.max_completion_length: missing"},
		{"no cap for cispo", config, `"loss_type": "cispo"`, "f.json: cases[0].config.epsilon_high: missing"},
		{"luspo by token", config, `"loss_type": "luspo"`, "f.json: cases[0].config: trl loss: luspo needs"},
		{"sapo temperature", config, `"loss_type": "sapo", "sapo_temperature_neg": 0`, "f.json: cases[0].config.sapo_temperature_neg: 0; it must be above 0"},
		{"beta without a reference", config, config + `, "beta": 0.04`, "f.json: cases[0]: beta is 0.04, but inputs.ref_per_token_logps is missing"},
		{"entropy without entropies", config, config + `, "entropy_coef": 0.01`, "f.json: cases[0]: entropy_coef is 0.01, but inputs.entropies is missing"},
		{"quantile without entropies", config, config + `, "top_entropy_quantile": 0.2`, "f.json: cases[0]: top_entropy_quantile is 0.2, but inputs.entropies is missing"},
		{"formula", config, config + `, "loss_expr": "-rato*A"`, `f.json: cases[0].config.loss_expr: column 2, at "rato*A": unknown name "rato"`},
		{"formula without a reference", config, config + `, "loss_expr": "logp - ref"`, "f.json: cases[0]: loss: reference log-probs are missing"},
		{"expected loss", `{"config": {"loss_type": "grpo"}}`, `{"config": {"loss_type": "grpo"}, "loss": "x"}`, "f.json: cases[0].loss: a string"},
		{"expected gradient", `{"config": {"loss_type": "grpo"}}`, `{"config": {"loss_type": "grpo"}, "grad_per_token_logps": [[1]]}`, "f.json: cases[0]: the expected gradient is not of the batch's shape (2, 2)"},
		{"expected metrics", `{"config": {"loss_type": "grpo"}}`, `{"config": {"loss_type": "grpo"}, "metrics": {"kl": "x"}}`, "f.json: cases[0].metrics.kl: a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := losses(File{"f.json", edit(t, lossExample, tt.old, tt.new)})
			wantError(t, err, tt.want)
			wantError(t, err, "explain loss: ")
		})
	}
}

func TestVerlLossesRefuse(t *testing.T) {
	const file = `{"inputs": {"mask": [[1]], "per_token_logps": [[-1]], "old_per_token_logps": [[-1.5]], "advantages": [1]},
		"policy_losses": [{"loss_mode": "vanilla", "loss_agg_mode": "token-mean", "config": {"clip_ratio": 0.2}}]}`
	expect.OK(t, expect.Err(losses(File{"f.json", []byte(file)})))
	tests := []struct{ name, old, new, want string }{
		{"mode", "vanilla", "plain", `f.json: policy_losses[0].loss_mode: unknown name "plain"`},
		{"aggregation", "token-mean", "mean", `f.json: policy_losses[0].loss_agg_mode: unknown name "mean"`},
		{"clip of 0", "0.2", "0", "f.json: policy_losses[0].config.clip_ratio: 0; it must be above 0"},
		{"dual clip", `"clip_ratio": 0.2`, `"clip_ratio_c": 0.5`, "f.json: policy_losses[0]: verl loss: dual clip"},
		{"unknown field", `"clip_ratio"`, `"cliprange"`, "f.json: policy_losses[0].config.cliprange: unknown field"},
		{"batch info", `"clip_ratio": 0.2`, `"global_batch_info": {"dp": 1}`, "f.json: policy_losses[0].config.global_batch_info.dp: unknown field"},
		{"tau", `"clip_ratio": 0.2`, `"tau_pos": -1`, "f.json: policy_losses[0].config.tau_pos: -1"},
		{"list", `[{"loss_mode"`, `{"x": [{"loss_mode"`, "line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := losses(File{"f.json", edit(t, file, tt.old, tt.new)})
			wantError(t, err, tt.want)
		})
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	const tokens = 20_000
	row := "[" + strings.Repeat("1,", tokens-1) + "1]"
	inputs := `{"mask": [` + row + `], "per_token_logps": [` + row + `], "advantages": [1]}`
	cases := strings.Repeat(`{"config":{"loss_type":"grpo"}},`, maxNumbers/tokens) + `{"config":{"loss_type":"grpo"}}`
	_, err := losses(File{"f.json", []byte(`{"inputs": ` + inputs + `, "cases": [` + cases + `]}`)})
	wantError(t, err, "f.json: 210 cases of 20000 tokens are more than")

	_, err = rewards(File{"f.json", []byte(`{"cases": [` + strings.Repeat(`{"response": "", "ground_truth": 1},`, maxCases) + `{"response": "", "ground_truth": 1}]}`)})
	wantError(t, err, "f.json: cases: more than 100000 cases")
	const width = 4096
	wide := "[" + strings.Repeat("1,", width-1) + "1]"
	many := strings.Repeat(wide+",", maxNumbers/width) + wide
	_, err = losses(File{"f.json", []byte(`{"inputs": {"mask": [` + many + `], "per_token_logps": [[1]], "advantages": [1]}}`)})
	wantError(t, err, "f.json: inputs.mask[1024][0]: more than 4194304 numbers")
}

func TestAdvantageFilesRefuse(t *testing.T) {
	const file = `{"grpo": [
		{"rewards_per_func": [[1, 0.1], [0, null]], "num_generations": 2, "reward_weights": [1, 0.5]},
		{"rewards_per_func": [[1], [0]], "num_generations": 2, "scale_rewards": "none"}],
		"rloo": [{"rewards_per_func": [1, 0], "num_generations": 2, "reward_clip_range": [-1, 1]}]}`
	expect.OK(t, expect.Err(groupedAdvantages(File{"f.json", []byte(file)}, TRLEps)))
	tests := []struct{ name, old, new, want string }{
		{"no lists", file, `{}`, `f.json: no cases: there is neither a list "grpo" nor a list "rloo"`},
		{"a loss file", file, `{"cases": []}`, "f.json: cases: unknown field (known: grpo, rloo"},
		{"a string", `"grpo"`, `"other": "x", "grpo"`, "f.json: other: unknown field"},
		{"no rewards", `"rewards_per_func": [[1, 0.1], [0, null]], `, ``, "f.json: grpo[0].rewards_per_func: no rewards, or missing"},
		{"empty rewards", `[[1], [0]]`, `[]`, "f.json: grpo[1].rewards_per_func: no rewards"},
		{"ragged rewards", `[[1], [0]]`, `[[1], [0, 1]]`, "f.json: grpo[1].rewards_per_func[1]: 2 numbers"},
		{"rewards of strings", `[[1], [0]]`, `[["1"], [0]]`, "f.json: grpo[1].rewards_per_func[0][0]: a string"},
		{"no group size", `"num_generations": 2, "scale_rewards"`, `"scale_rewards"`, "f.json: grpo[1].num_generations: missing"},
		{"group size of 3", `"num_generations": 2, "scale_rewards"`, `"num_generations": 3, "scale_rewards"`, "f.json: grpo[1]: advantages: 2 rewards cannot be split into groups of 3"},
		{"group size of 0", `"num_generations": 2, "scale_rewards"`, `"num_generations": 0, "scale_rewards"`, "f.json: grpo[1].num_generations: 0; it must be a whole number"},
		{"weights", `[1, 0.5]`, `[1]`, "f.json: grpo[0].reward_weights: 1 weights for 2 reward functions"},
		{"scale", `"none"`, `"std"`, `f.json: grpo[1].scale_rewards: unknown name "std" (known: group, batch, none)`},
		{"aggregation", `"scale_rewards": "none"`, `"multi_objective_aggregation": "sum"`, "f.json: grpo[1].multi_objective_aggregation: unknown name"},
		{"range", `[-1, 1]`, `[1, -1]`, "f.json: rloo[0].reward_clip_range: it must be [lowest, highest]"},
		{"range of another kind", `[-1, 1]`, `"all"`, "f.json: rloo[0].reward_clip_range: a string"},
		{"beta", `"reward_clip_range": [-1, 1]`, `"beta": 0.1`, "f.json: rloo[0]: beta is 0.1, but rloo_beta_inputs is missing"},
		{"beta inputs", `"grpo"`, `"rloo_beta_inputs": {"mask": [[1]]}, "grpo"`, "f.json: rloo_beta_inputs.old_per_token_logps: missing"},
		{"expected advantages", `"scale_rewards": "none"`, `"advantages": [1]`, "f.json: grpo[1].advantages: 1 expected advantages for 2 rewards"},
		{"expected null", `"scale_rewards": "none"`, `"advantages": [1, null]`, "f.json: grpo[1].advantages[1]: null"},
		{"unknown field", `"scale_rewards"`, `"scale"`, "f.json: grpo[1].scale: unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := groupedAdvantages(File{"f.json", edit(t, file, tt.old, tt.new)}, TRLEps)
			wantError(t, err, tt.want)
			wantError(t, err, "explain advantages: ")
		})
	}
	_, err := groupedAdvantages(File{"f.json", []byte(file)}, -1)
	wantError(t, err, "eps")
}

func TestRewardFiles(t *testing.T) {
	const file = `{"cases": [
		{"response": "r </think> <answer>72</answer>", "ground_truth": "72"},
		{"response": "\\boxed{72}", "ground_truth": [71, "72"], "fn": "question_only", "reward": 1},
		{"response": "72", "ground_truth": 72, "reward": 1}]}`
	b, err := Rewards(File{"f.json", []byte(file)})
	expect.OK(t, err)
	for i, want := range []float64{1, 1, 0} {
		if got := b.Cases.([]RewardCase)[i].Reward; got != want {
			t.Errorf("case %d: reward %v, want %v", i, got, want)
		}
	}
	textHas(t, textOf(t, b), "2 formatted and correct, 0 formatted and wrong, 1 unformatted", "differs: reward", "case 2, reward: expected 1, got 0", "2 cases, and 1 differs by more")
	tests := []struct{ name, old, new, want string }{
		{"no cases", `"cases"`, `"_cases"`, "f.json: cases: no cases"},
		{"none", file, `{"cases": []}`, "f.json: cases: no cases"},
		{"no response", `"response": "72", `, ``, "f.json: cases[2].response: missing"},
		{"response of another kind", `"response": "72"`, `"response": 72`, "f.json: cases[2].response: a number; it must be a string"},
		{"no gold", `, "ground_truth": "72"`, ``, "f.json: cases[0].ground_truth: missing"},
		{"gold of another kind", `"ground_truth": "72"`, `"ground_truth": {}`, "f.json: cases[0].ground_truth: "},
		{"no golds", `[71, "72"]`, `[]`, "f.json: cases[1].ground_truth: "},
		{"function", `"question_only"`, `"boxed"`, `f.json: cases[1].fn: unknown name "boxed" (known: question_only, question_only_reward_fn, r1_zero, r1_zero_reward_fn)`},
		{"unknown field", `"fn"`, `"function"`, "f.json: cases[1].function: unknown field"},
		{"expected reward", `"ground_truth": 72, "reward": 1`, `"ground_truth": 72, "reward": true`, "f.json: cases[2].reward: a boolean"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rewards(File{"f.json", edit(t, file, tt.old, tt.new)})
			wantError(t, err, tt.want)
			wantError(t, err, "explain reward: ")
		})
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadFile(filepath.Join(dir, "none.json"), nil)
	wantError(t, err, "none.json: no such file")
	_, err = ReadFile(dir, nil)
	wantError(t, err, "is a directory")
	big := filepath.Join(dir, "big.json")
	expect.OK(t, os.WriteFile(big, nil, 0o644))
	expect.OK(t, os.Truncate(big, maxFile+1))
	_, err = ReadFile(big, nil)
	wantError(t, err, "big.json: more than 32 MiB")
}

func TestUnknownMetricIsNamed(t *testing.T) {
	var c Check
	c.add("nosuch", []float64{noMetric}, []float64{5})
	if got := c.Differences[0].String(); got != "nosuch: expected 5, got no metric of this name" {
		t.Error(got)
	}
}
