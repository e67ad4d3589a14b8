package explain

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// step is a micro-batch step of two sequences, of 2 and 3 of 4 tokens, at ratios of 1.5, 0.5 and 1.
func step(change args) args {
	call := args{
		"function": "grpo_microbatch_train_step", "loss_type": "grpo_clip", "cliprange": 0.2, "gradient_accumulation_steps": 3,
		"policy_log_probs": [][]float64{{-1, math.Log(0.3), math.Log(0.1), -5}, {math.Log(0.3), math.Log(0.1), math.Log(0.5), -7}},
		"old_log_probs":    [][]float64{{-2, math.Log(0.2), math.Log(0.2), -4}, {math.Log(0.2), math.Log(0.2), math.Log(0.5), -2}},
		"response_mask":    [][]bool{{false, true, true, false}, {true, true, true, false}},
		"advantages":       []float64{1, -1}, "raw_rewards": []float64{1, 0},
	}
	for name, v := range change {
		call[name] = v
	}
	return call
}

// TestStepByHand: the terms are 1.2 (clipped, gradient 0), 0.5 | -1.5, -0.8 (clipped), -1.
func TestStepByHand(t *testing.T) {
	loss := -(1.7/2 - 3.3/3) / 2 / 3
	b, err := Losses(callsFile(t, step(args{"loss": loss,
		"policy_log_probs_grad": [][]float64{{0, 0, -0.5 / 12, 0}, {1.5 / 18, 0, 1. / 18, 0}}})))
	expect.OK(t, err)
	expect.OK(t, b.Disagreement())
	c := b.Cases.([]Call)[0]
	same(t, "loss", c.Expected[0].Data, []float64{loss})
	if c.Expected[0].Name != "loss" || len(c.Expected[0].Shape) != 0 || !slices.Equal(c.Expected[1].Shape, []int{2, 4}) {
		t.Errorf("%+v", c.Expected)
	}
}

// Each mistake is named, in the loss and the gradient apart.
func TestMistakesAreNamed(t *testing.T) {
	mean := func(k float64) float64 { return -(1.7/2 - 3.3/3) / 2 / 3 * k }
	group := func(change args) args {
		call := args{"function": "compute_group_normalized_rewards", "raw_rewards": []float64{1, 0, 0.5, 0, 1, 1, 1, 1}, "group_size": 4,
			"advantage_eps": 0}
		for name, v := range change {
			call[name] = v
		}
		return call
	}
	reduce := func(function string, result any) args {
		return args{"function": function, "tensor": [][]int{{1, 2, 3}, {4, 5, 7}}, "mask": [][]int{{1, 1, 0}, {0, 1, 1}}, "dim": 1,
			"normalize_constant": 4, "result": result}
	}
	// Two micro-batches of two sequences: the losses of the tokens are 4 5, 1 and 3, 1 1.
	right := ((4.+5)/2 + 1 + 3 + (1.+1)/2) / 4
	whole := func(change args) args {
		call := args{"function": "grpo_train_step", "importance_reweighting_method": "none", "loss_normalization": "sequence",
			"gradient_accumulation_steps": 2, "advantages": []float64{-1, -1, -1, -1},
			"policy_log_probs": [][]float64{{4, 5, 0}, {1, 0, 2}, {3, 0, 0}, {1, 1, 0}}, "response_mask": [][]int{{1, 1, 0}, {1, 0, 0}, {1, 0, 0}, {1, 1, 0}}}
		for name, v := range change {
			call[name] = v
		}
		return call
	}
	token := func(result [][]any) args {
		return args{"function": "compute_grpo_clip_loss", "advantages": [][]int{{1}, {-1}}, "cliprange": 0.2, "result": result,
			"policy_log_probs": [][]float64{{math.Log(1.5)}, {math.Log(0.5)}}, "old_log_probs": [][]int{{0}, {0}}}
	}
	gspo := args{"function": "compute_policy_gradient_loss", "importance_reweighting_method": "gspo", "cliprange": 0.9,
		"raw_rewards_or_advantages": []int{1}, "policy_log_probs": [][]float64{{0.3, 0.1}}, "old_log_probs": [][]float64{{0, 0}}}
	gspo["result"] = [][]float64{{-math.Exp(0.4), -math.Exp(0.4)}}
	for _, tt := range []struct {
		call args
		want string
	}{
		{step(args{"loss": mean(3)}), "loss: expected 0.041666667, got 0.125\n  These are the numbers without the division by gradient_accumulation_steps (3)."},
		{step(args{"loss": mean(1. / 3)}), "divided twice by gradient_accumulation_steps (3)"},
		{step(args{"loss": mean(2)}), "with a sum over the sequences in place of their mean"},
		{step(args{"loss": -(1.7 - 3.3) / 5 / 3}), "one masked_mean over all tokens (dim=None)"},
		{step(args{"loss": -(1.7 - 3.3) / 4 / 2 / 3}), "divided by the padded length"},
		{step(args{"loss": nil}), "got NaN\n  These are the numbers of a masked_mean over the wrong dimension"},
		{step(args{"loss": -mean(1)}), "The sign is turned"},
		{step(args{"loss": -(2./2 - 3./3) / 2 / 3}), "without the clip"},
		{step(args{"loss": -((1.2+0.8)/2 - (1.2+0.8+1)/3) / 2 / 3}), "with the clipped term alone"},
		{step(args{"loss_type": "reinforce_with_baseline", "loss": -(math.Log(0.03) / 2) / 2 / 3}), "with raw_rewards in place of advantages"},
		{step(args{"policy_log_probs_grad": make([][4]int, 2)}),
			"policy_log_probs_grad[0][2]: expected -0.041666667, got 0 (3 of 8 numbers differ)\n  All are 0: is the graph cut"},
		{step(args{"policy_log_probs_grad": [][]float64{{0, 0, -5. / 12, 0}, {15. / 18, 0, 10. / 18, 0}}}), "Every number is 10 times the expected one"},
		{step(args{"loss": 0.5}), "got 0.5\n\n"},
		{whole(args{"loss": right * 2}), "without the division by gradient_accumulation_steps (2)"},
		{whole(args{"loss": right / 2}), "divided twice by gradient_accumulation_steps (2)"},
		{whole(args{"loss": (4. + 5 + 1 + 2 + 3 + 1 + 1) / 3 / 4}), "with all tokens, the mask left out"},
		{whole(args{"loss": ((4.+5+1)/3 + (3.+1+1)/3) / 2}), "one masked_mean over all tokens"},
		{whole(args{"loss": right * 1.3}), "got 3.0875\n\n"},
		{step(args{"response_mask": [][]bool{{false, true, true, false}, {false, false, false, false}}, "loss": nil}), "got NaN\n  NaN comes from 0/0"},
		{group(args{"advantage_eps": 1e-6, "baseline": "none", "advantage_normalizer": "std", "advantages": []any{2.0889329, 0, 1.0444664, 0, 1e6, 1e6, 1e6, 1}}), "advantages[7]: expected 1e6, got 1 (1 of 8 numbers differ)"},
		{group(args{"advantage_eps": 0, "baseline": "none", "advantage_normalizer": "std", "advantages": []any{2.0889329, 0, 1.0444664, 0, nil, nil, nil, nil}}), "expected 0, got NaN (4 of 8 numbers differ)"},
		{args{"function": "grpo_train_step", "importance_reweighting_method": "none", "loss_normalization": "sequence", "raw_rewards": []int{1, 1},
			"group_size": 2, "baseline": "none", "advantage_normalizer": "std", "advantage_eps": 1e-6, "policy_log_probs": [][]int{{-1}, {-1}},
			"response_mask": [][]int{{1}, {1}}, "loss": 1}, "loss: expected 1e6, got 1"},
		{group(args{"advantage_eps": 1e-6, "advantages": []any{1.50755672, -0.90453403, 0.30151134, -0.90453403, 0, 0, 0, 0}}), "unbiased=False"},
		{group(args{"advantage_eps": 1e-6, "advantages": []any{1.3055797, -0.7833478, 0.2611159, -0.7833478, nil, nil, nil, nil}}), "without advantage_eps"},
		{group(args{"advantages": []any{0.625, -0.375, 0.125, -0.375, 0, 0, 0, 0}}), "without the division by the group's standard deviation"},
		{group(args{"normalize_by_std": false, "advantages": []any{0.125, -2. / 3, -0.375, -2. / 3, 0.125, 1. / 3, 0.125, 1. / 3}}), "got 0.125 (8 of 8"},
		{group(args{"normalize_by_std": false, "advantages": []any{0.125, -0.5, -0.375, -0.5, 0.125, 0.5, 0.125, 0.5}}), "not next to each other"},
		{group(args{"normalize_by_std": false, "normalized_rewards": []any{0.5, -0.5, 0.25, -0.25, 0, 0, 0, 0}}), "groups of 2 completions"},
		{reduce("masked_mean", []int{1, 4}), "divided by the number of all elements"},
		{reduce("masked_mean", []float64{2, 16. / 3}), "of all elements, the mask left out"},
		{reduce("masked_mean", []float64{1, 3.5, 7}), "result: expected shape (2,), got (3,)"},
		{reduce("masked_normalize", []int{3, 12}), "of the sum, without the division"},
		{token([][]any{{-1.5}, {0.5}}), "with the larger of the two terms"},
		{gspo, "with the sum of the log-ratios of a sequence in place of their mean"},
	} {
		b, err := Losses(callsFile(t, args{"function": "compute_entropy", "logits": []int{0, 0}, "result": math.Ln2}, tt.call))
		if err != nil {
			t.Errorf("%v: %v", tt.call, err)
			continue
		}
		text := textOf(t, b) + "\n"
		if !strings.Contains(text, tt.want) || !strings.Contains(text, "The file has your results for 2 calls, and 1 differs") {
			t.Errorf("want %q in:\n%s", tt.want, text)
		}
		expect.Error(t, b.Disagreement(), "your results in f.json: 1 of 2 calls differs: call 1, "+tt.call["function"].(string))
	}
}

func TestCallsRefuse(t *testing.T) {
	for _, tt := range []struct {
		call args
		want string
	}{
		{args{}, "calls[0].function: unknown name \"\""},
		{args{"function": "masked_maen"}, `did you mean "masked_mean"?`},
		{step(args{"cliprang": 1}), `calls[0].cliprang: unknown field (did you mean "cliprange"?)`},
		{step(args{"cliprange": nil}), "calls[0].cliprange: missing"},
		{step(args{"loss_type": "grpo"}), `calls[0].loss_type: unknown name "grpo"`},
		{step(args{"old_log_probs": nil}), "calls[0].old_log_probs: missing"},
		{step(args{"old_log_probs": [][]int{{1}, {2}}}), "calls[0].old_log_probs: shape (2, 1), but policy_log_probs is of shape (2, 4)"},
		{step(args{"response_mask": nil}), "calls[0].response_mask: missing"},
		{step(args{"response_mask": []int{1, 2}}), "calls[0].response_mask: shape (2,), but the tensor it masks is of shape (2, 4)"},
		{step(args{"response_mask": [][]int{{1, 1, 1, 2}, {1, 1, 1, 1}}}), "calls[0].response_mask: 2 at [0][3]; a mask is 0 or 1"},
		{step(args{"policy_log_probs": 3}), "calls[0].policy_log_probs: shape (); it must be (batch_size, sequence_length)"},
		{step(args{"policy_log_probs": []any{[]any{1, nil, 1, 1}, []int{1, 2, 3, 4}}}), "calls[0].policy_log_probs[0][1]: null; it must be a number"},
		{step(args{"policy_log_probs": [][]int{{1, 2}, {1}}}), "1 elements; the lists before it have 2 (pad the shorter ones)"},
		{step(args{"policy_log_probs": []any{1, []int{1}}}), "a list; it must be a number"},
		{step(args{"policy_log_probs": []any{[]int{1}, 1}}), "a number; it must be a list of numbers"},
		{step(args{"policy_log_probs": "x"}), "a string; it must be a"},
		{step(args{"advantages": []int{1}}), "calls[0].advantages: shape (1,); it must be (2, 1), a number for each sequence"},
		{step(args{"gradient_accumulation_steps": 0}), "calls[0].gradient_accumulation_steps: 0; it must be a whole number"},
		{step(args{"length_normalization": "sum"}), `calls[0].length_normalization: unknown name "sum"`},
		{step(args{"normalize_constant": 0}), "calls[0]: the constant that divides is 0"},
		{step(args{"function": "grpo_train_step", "loss_normalization": "constant"}), "calls[0].normalization_constant: missing"},
		{args{"function": "compute_group_normalized_rewards", "raw_rewards": []int{1}}, "calls[0].group_size: missing"},
		{args{"function": "compute_group_normalized_rewards", "raw_rewards": []int{1, 0, 1}, "group_size": 2}, "3 rewards cannot be split"},
		{args{"function": "masked_mean", "tensor": []int{1}, "mask": []int{1}, "dim": 1}, "calls[0].dim: 1; the tensor is of shape (1,)"},
		{args{"function": "compute_entropy", "logits": 1}, "calls[0].logits: a number; its last dimension is the vocabulary"},
	} {
		_, err := Losses(callsFile(t, tt.call))
		wantError(t, err, "explain loss: f.json: line 1: ")
		wantError(t, err, tt.want)
	}
	_, err := GroupedAdvantages(File{"f.json", []byte(`{"calls": []}`)}, 0)
	wantError(t, err, `explain advantages: f.json: no calls: the list "calls" is empty`)
}

// The examples agree, and both commands take them.
func TestExamplesAgree(t *testing.T) {
	for _, edition := range Editions {
		text, err := Example("json", edition)
		expect.OK(t, err)
		for _, read := range []func(File) (Batch, error){Losses, func(f File) (Batch, error) { return GroupedAdvantages(f, 0) }} {
			b, err := read(File{"f.json", []byte(text)})
			expect.OK(t, err)
			expect.OK(t, b.Disagreement())
			for i, c := range b.Cases.([]Call) {
				if n := b.checks[i].Values; n == 0 || len(c.Differences) > 0 {
					t.Errorf("%s: %s: %d numbers compared", edition, c.Function, n)
				}
			}
		}
		script, err := Example("torch", edition)
		expect.OK(t, err)
		for _, part := range []string{"# Runs your functions", "assignment 5 (" + edition + ")", "def keep(", "def check(", "print(json.dumps("} {
			if !strings.Contains(script, part) {
				t.Errorf("the script of %s lacks %q", edition, part)
			}
		}
	}
	_, err := Example("numpy", "2025")
	expect.Error(t, err, "known: json, torch")
	_, err = Example("json", "2024")
	expect.Error(t, err, "known: 2025, 2026")
}
