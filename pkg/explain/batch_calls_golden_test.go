package explain

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// args are the arguments and results of a call in a file.
type args = map[string]any

// callsFile is a file of calls.
func callsFile(t testing.TB, calls ...args) File {
	t.Helper()
	data, err := json.Marshal(map[string]any{"calls": calls})
	expect.OK(t, err)
	return File{"f.json", data}
}

// nested is a tensor of the reference data as nested lists.
func nested(t *testing.T, v any) any {
	t.Helper()
	array := v.(map[string]any)
	data, ok := array["data"].([]any)
	if !ok {
		return array["data"]
	}
	for _, side := range slices.Backward(array["shape"].([]any)) {
		var rows []any
		for row := range slices.Chunk(data, int(side.(float64))) {
			rows = append(rows, row)
		}
		data = rows
	}
	return data[0]
}

// TestGoldenCalls: the results in the assignment's own fixtures agree, of every function that a call can name.
func TestGoldenCalls(t *testing.T) {
	in := decode(t, golden.File(t, "golden", "cs336-2025", "inputs.json"))
	pick := func(with args, names ...string) args {
		for _, n := range names {
			with[n] = in[n]
		}
		return with
	}
	reduced := func(function string, dim any) args {
		return args{"function": function, "tensor": in["logits"], "mask": in["mask"], "dim": dim, "normalize_constant": in["normalize_constant"]}
	}
	clip := func(cliprange float64) args {
		return pick(args{"function": "compute_grpo_clip_loss", "cliprange": cliprange}, "advantages", "policy_log_probs", "old_log_probs")
	}
	loss := func(lossType string) args {
		return pick(args{"function": "run_compute_policy_gradient_loss", "loss_type": lossType, "raw_rewards": in["raw_rewards_or_advantages"],
			"cliprange": 0.5}, "advantages", "policy_log_probs", "old_log_probs")
	}
	sft := pick(args{"function": "sft_microbatch_train_step"}, "policy_log_probs", "response_mask", "gradient_accumulation_steps")
	rewards := func(std bool) args {
		return pick(args{"function": "compute_group_normalized_rewards", "raw_rewards": in["dummy_raw_rewards"], "normalize_by_std": std},
			"group_size", "advantage_eps")
	}
	naive := pick(args{"function": "compute_naive_policy_gradient_loss"}, "raw_rewards_or_advantages", "policy_log_probs")
	aggregate := func(how string) args {
		return args{"function": "aggregate_loss_across_microbatch", "per_token_policy_gradient_loss": in["policy_log_probs"],
			"mask": in["response_mask"], "loss_normalization": how, "normalization_constant": 42}
	}
	off := func(method string) args {
		return pick(args{"function": "compute_policy_gradient_loss", "importance_reweighting_method": method, "cliprange": 0.1},
			"raw_rewards_or_advantages", "policy_log_probs", "old_log_probs", "response_mask")
	}
	calls := map[string]args{
		"test_compute_entropy": {"function": "compute_entropy", "logits": in["logits"]},
		"test_compute_group_normalized_rewards_normalize_by_std":    rewards(true),
		"test_compute_group_normalized_rewards_no_normalize_by_std": rewards(false),
		"test_compute_naive_policy_gradient_loss":                   naive,
		"test_compute_grpo_clip_loss_large_cliprange":               clip(10),
		"test_compute_grpo_clip_loss_small_cliprange":               clip(0.1),
		"test_compute_policy_gradient_loss_no_baseline":             loss("no_baseline"),
		"test_compute_policy_gradient_loss_reinforce_with_baseline": loss("reinforce_with_baseline"),
		"test_compute_policy_gradient_loss_grpo_clip":               loss("grpo_clip"),
		"test_masked_mean_dim0":                                     reduced("masked_mean", 0),
		"test_masked_mean_dim1":                                     reduced("masked_mean", 1),
		"test_masked_mean_dimlast":                                  reduced("masked_mean", -1),
		"test_masked_mean_dimNone":                                  reduced("masked_mean", nil),
		"test_masked_normalize_dim0":                                reduced("masked_normalize", 0),
		"test_masked_normalize_dim1":                                reduced("masked_normalize", 1),
		"test_masked_normalize_dimlast":                             reduced("masked_normalize", -1),
		"test_masked_normalize_dimNone":                             reduced("masked_normalize", nil),
		"test_sft_microbatch_train_step":                            sft,
		"test_sft_microbatch_train_step_normalize":                  pick(maps.Clone(sft), "normalize_constant"),
		"test_grpo_microbatch_train_step_grpo_clip": pick(args{"function": "grpo_microbatch_train_step", "loss_type": "grpo_clip", "cliprange": 0.1,
			"raw_rewards": in["raw_rewards_or_advantages"]},
			"policy_log_probs", "old_log_probs", "response_mask", "advantages", "gradient_accumulation_steps"),
		"test_compute_group_normalized_rewards_grpo":         {"function": "compute_group_normalized_rewards", "raw_rewards": []int{1, 0, 0, 1}, "group_size": 2},
		"test_compute_policy_gradient_loss_on_policy":        naive,
		"test_aggregate_loss_across_microbatch_sequence":     aggregate("sequence"),
		"test_aggregate_loss_across_microbatch_constant":     aggregate("constant"),
		"test_compute_policy_gradient_loss_off_policy":       off("noclip"),
		"test_compute_policy_gradient_loss_off_policy/2":     off("grpo"),
		"test_compute_rollout_rewards":                       nil,
		"test_get_response_log_probs":                        nil, // a model's
		"test_tokenize_prompt_and_output":                    nil,
		"test_grpo_microbatch_train_step_grpo_clip_10_steps": nil, // ten times one step
		"test_sft_microbatch_train_step_10_steps":            nil,
	}
	names := map[string]string{ // of results
		"array": "result", "loss": "loss", "policy_log_probs_grad": "policy_log_probs_grad", "normalized_rewards": "normalized_rewards",
		"advantages": "advantages", "noclip_loss": "result", "clipped_loss": "result",
	}
	for _, edition := range []string{"cs336-2025", "cs336-2026"} {
		expected := decode(t, golden.File(t, "golden", edition, "expected.json"))
		var all []args
		for _, test := range slices.Sorted(maps.Keys(expected)) {
			if strings.HasPrefix(test, "test_grpo_train_step") { // below
				continue
			}
			call, ok := calls[test]
			if !ok {
				t.Errorf("%s %s: no call", edition, test)
			}
			for name, array := range expected[test].(map[string]any) {
				result, ok := names[name]
				if call == nil || !ok {
					continue
				}
				with := maps.Clone(call)
				if name == "clipped_loss" {
					with = maps.Clone(calls[test+"/2"])
				}
				with[result] = nested(t, array)
				all = append(all, with)
			}
		}
		checkGolden(t, edition, all, 15)
	}
	checkGolden(t, "train steps", goldenTrainSteps(t), 5)
}

// goldenTrainSteps are the train steps of 2026: rewards to advantages to loss and gradient.
func goldenTrainSteps(t *testing.T) (all []args) {
	in := decode(t, golden.File(t, "golden", "cs336-2026", "train_step_cases.json"))
	for test, c := range in["cases"].(map[string]any) {
		c := c.(map[string]any)
		call := args{"function": "grpo_train_step", "policy_log_probs": c["policy_log_probs"], "loss": c["loss_official"],
			"policy_log_probs_grad": c["dloss_dlogp"], "old_log_probs": in["old_log_probs_offpolicy"]}
		for _, n := range []string{"response_mask", "raw_rewards", "group_size", "gradient_accumulation_steps", "advantage_eps", "cliprange"} {
			call[n] = in[n]
		}
		settings := c["settings"].(map[string]any)
		for from, to := range map[string]string{"baseline": "baseline", "norm": "advantage_normalizer", "how": "importance_reweighting_method"} {
			if v, ok := settings[from]; ok {
				call[to] = v
			}
		}
		if agg, ok := settings["agg"].([]any); ok {
			call["loss_normalization"], call["normalization_constant"] = agg[0], agg[1]
		}
		if strings.Contains(test, "off_policy") && call["importance_reweighting_method"] == nil {
			t.Errorf("%s: %v", test, settings)
		}
		all = append(all, call)
	}
	return all
}

func checkGolden(t *testing.T, edition string, calls []args, atLeast int) {
	b, err := Losses(callsFile(t, calls...))
	expect.OK(t, err)
	if err := b.Disagreement(); err != nil {
		t.Errorf("%s: %v\n%s", edition, err, textOf(t, b))
	}
	if all, checked, _ := b.sum(); len(calls) < atLeast || checked != len(calls) || all.Values < len(calls) {
		t.Errorf("%s: %d calls, %d compared", edition, len(calls), checked)
	}
}
