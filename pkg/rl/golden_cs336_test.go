package rl

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model/kernel"
)

type snapshot struct {
	Shape []int
	Data  array
}

type cs336Inputs struct {
	GroupSize         int     `json:"group_size"`
	AdvantageEps      float64 `json:"advantage_eps"`
	Accumulation      int     `json:"gradient_accumulation_steps"`
	Cliprange         float64 `json:"cliprange_fixture"`
	NormalizeConstant float64 `json:"normalize_constant"`
	RawRewards        array   `json:"raw_rewards_or_advantages"`
	Advantages        array
	PolicyLogProbs    array `json:"policy_log_probs"`
	OldLogProbs       array `json:"old_log_probs"`
	ResponseMask      array `json:"response_mask"`
	Logits            array
	Mask              array
	DummyRawRewards   array `json:"dummy_raw_rewards"`
}

// cs336Shape is that of the fixtures: two sequences of ten tokens.
var cs336Shape = Shape{2, 10}

type cs336Check func(t *testing.T, in cs336Inputs, want map[string]snapshot)

func TestGoldenCS336(t *testing.T) {
	for _, edition := range []struct {
		dir   string
		cases map[string]cs336Check
		skip  map[string]string
	}{
		{"cs336-2025", cs336Common(), map[string]string{
			"test_get_response_log_probs":     "needs the weights of Qwen2.5-Math-1.5B",
			"test_tokenize_prompt_and_output": "needs the tokenizer of Qwen2.5-Math-1.5B",
		}},
		{"cs336-2026", cs336New(), map[string]string{
			"test_get_response_log_probs":                            "needs the weights of a GPT-2 that the snapshots lack",
			"test_tokenize_prompt_and_output":                        "tokenization is checked in pkg/model (TestGoldenTokenizePromptAndOutput)",
			"test_grpo_train_step_off_policy[grpo]":                  "weights after the step need GPT-2; loss and gradient in train_step_cases.json",
			"test_grpo_train_step_off_policy[noclip]":                "as above",
			"test_grpo_train_step_standard_on_policy":                "as above",
			"test_grpo_train_step_variants_on_policy[grpo_constant]": "as above",
			"test_grpo_train_step_variants_on_policy[rft]":           "as above",
		}},
	} {
		t.Run(edition.dir, func(t *testing.T) {
			var in cs336Inputs
			var want map[string]map[string]snapshot
			unmarshal(t, sharedFile(t, "cs336-2025/inputs.json"), &in, "batch_size", "input_ids", "labels",
				"repeated_ground_truths", "rollout_responses", "seq_length", "vocab_size")
			unmarshal(t, sharedFile(t, edition.dir+"/expected.json"), &want, "dtype")
			for _, name := range sortedKeys(want) {
				check, ok := edition.cases[name]
				why, skip := edition.skip[name]
				switch {
				case skip:
					t.Logf("skipped %s: %s", name, why)
				case !ok:
					t.Run(name, func(t *testing.T) { t.Error("no check for this fixture") })
				default:
					t.Run(name, func(t *testing.T) { check(t, in, want[name]) })
				}
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// tokenLosses checks one call of compute_policy_gradient_loss and its kin.
func tokenLosses(key string, cfg LossConfig, adv func(cs336Inputs) array, offPolicy bool) cs336Check {
	return func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
		all := slices.Repeat([]bool{true}, cs336Shape.Len())
		b := Batch{Shape: cs336Shape, LogProbs: in.PolicyLogProbs, Advantages: adv(in), Mask: all}
		if offPolicy {
			b.OldLogProbs = in.OldLogProbs
		}
		got := make([]float64, cs336Shape.Len())
		expect.OK(t, TokenLosses(cfg, b, got))
		sameValues(t, key, got, want[key].Data)
	}
}

func rawRewards(in cs336Inputs) array { return in.RawRewards }
func advantages(in cs336Inputs) array { return in.Advantages }

func groupNormalized(useStd bool) cs336Check {
	return func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
		opt := AssignmentAdvantages(ReinforceWithBaseline, useStd, in.AdvantageEps)
		got, _, err := GroupAdvantages(in.DummyRawRewards, in.GroupSize, opt)
		expect.OK(t, err)
		sameValues(t, "normalized_rewards", got, want["normalized_rewards"].Data)
		sameValues(t, "raw_rewards", in.DummyRawRewards, want["raw_rewards"].Data)
	}
}

func maskedDim(mean bool, dim int) cs336Check {
	return func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
		mask := in.Mask.bools()
		x, shape := poison(in.Logits, mask), []int{2, 10, 100}
		var got []float64
		var err error
		if mean {
			got, err = MaskedMean(x, mask, shape, dim)
		} else {
			got, err = MaskedNormalize(x, mask, shape, dim, in.NormalizeConstant)
		}
		expect.OK(t, err)
		sameValues(t, "array", got, want["array"].Data)
		nan := 0
		for _, v := range got {
			if math.IsNaN(v) {
				nan++
			}
		}
		if expect := map[bool]int{true: 260}[mean && dim == 0]; nan != expect {
			t.Errorf("%d NaN, want %d", nan, expect)
		}
	}
}

// trainStep checks a micro-batch step: its loss, and its gradient summed over
// the given number of steps (the fixtures repeat the last sum in every row).
func trainStep(steps int, step func(in cs336Inputs, mask []bool) (Result, error)) cs336Check {
	return func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
		var losses []float64
		grad := make([]float64, cs336Shape.Len())
		for range steps {
			r, err := step(in, in.ResponseMask.bools())
			expect.OK(t, err)
			losses = append(losses, r.Loss)
			for i, g := range r.Grad {
				grad[i] += g
			}
		}
		sameValues(t, "loss", losses, want["loss"].Data)
		sameValues(t, "policy_log_probs_grad", slices.Repeat(grad, steps), want["policy_log_probs_grad"].Data)
	}
}

// grpoMicrobatchTrainStep is the assignment's grpo_microbatch_train_step: the
// loss of one of k micro-batches of equal size,
//
//	L = 1/k mean_b masked_mean_t(token loss)
//
// and its gradient with respect to the log-probabilities. It is [Loss] with the
// totals of k such batches.
func grpoMicrobatchTrainStep(cfg LossConfig, b Batch, k int) (Result, error) {
	b.Totals = Count(b.Shape, b.Mask, nil).Times(k)
	return Loss(cfg, b)
}

// sftMicrobatchTrainStep is the assignment's sft_microbatch_train_step: the
// negative log-likelihood of one of k micro-batches of equal size,
//
//	L = -1/k mean_b (sum_t logp_b,t mask_b,t / z)
//
// and its gradient, -mask/(k B z): [Loss] with advantages of 1.
func sftMicrobatchTrainStep(s Shape, logProbs []float64, mask []bool, k int, z float64) (Result, error) {
	cfg := LossConfig{Loss: NoBaseline, Aggregation: MaskedNormalizeSeq, NormalizeConstant: z}
	return grpoMicrobatchTrainStep(cfg, Batch{Shape: s, LogProbs: logProbs, Advantages: slices.Repeat([]float64{1}, s.B), Mask: mask}, k)
}

func grpoStep(in cs336Inputs, mask []bool) (Result, error) {
	cfg := LossConfig{Loss: GRPOClip, Epsilon: in.Cliprange, Aggregation: MaskedMeanSeq}
	return grpoMicrobatchTrainStep(cfg, Batch{
		Shape: cs336Shape, LogProbs: poison(in.PolicyLogProbs, mask), OldLogProbs: poison(in.OldLogProbs, mask),
		Advantages: in.Advantages, Mask: mask,
	}, in.Accumulation)
}

func sftStep(normalize bool) func(cs336Inputs, []bool) (Result, error) {
	return func(in cs336Inputs, mask []bool) (Result, error) {
		z := 1.0
		if normalize {
			z = in.NormalizeConstant
		}
		return sftMicrobatchTrainStep(cs336Shape, poison(in.PolicyLogProbs, mask), mask, in.Accumulation, z)
	}
}

func clipCfg(eps float64) LossConfig { return LossConfig{Loss: GRPOClip, Epsilon: eps} }

// cs336Common has the fixtures of 2025, most of which 2026 kept.
func cs336Common() map[string]cs336Check {
	return map[string]cs336Check{
		"test_compute_entropy": func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
			n := cs336Shape.Len()
			got := make([]float64, n)
			kernel.ReferenceLogSoftmaxGather(n, 100, in.Logits, 1, make([]int, n), make([]float64, n), got, make([]float64, len(in.Logits)))
			sameValues(t, "array", got, want["array"].Data)
		},
		"test_compute_group_normalized_rewards_normalize_by_std":    groupNormalized(true),
		"test_compute_group_normalized_rewards_no_normalize_by_std": groupNormalized(false),
		"test_compute_naive_policy_gradient_loss":                   tokenLosses("array", LossConfig{Loss: NoBaseline}, rawRewards, false),
		"test_compute_policy_gradient_loss_no_baseline":             tokenLosses("array", LossConfig{Loss: NoBaseline}, rawRewards, false),
		"test_compute_policy_gradient_loss_reinforce_with_baseline": tokenLosses("array", LossConfig{Loss: ReinforceWithBaseline}, advantages, false),
		"test_compute_policy_gradient_loss_grpo_clip":               tokenLosses("array", clipCfg(0.5), advantages, true),
		"test_compute_grpo_clip_loss_large_cliprange":               tokenLosses("array", clipCfg(10), advantages, true),
		"test_compute_grpo_clip_loss_small_cliprange":               tokenLosses("array", clipCfg(0.1), advantages, true),
		"test_masked_mean_dim0":                                     maskedDim(true, 0),
		"test_masked_mean_dim1":                                     maskedDim(true, 1),
		"test_masked_mean_dimlast":                                  maskedDim(true, -1),
		"test_masked_mean_dimNone":                                  maskedDim(true, AllDims),
		"test_masked_normalize_dim0":                                maskedDim(false, 0),
		"test_masked_normalize_dim1":                                maskedDim(false, 1),
		"test_masked_normalize_dimlast":                             maskedDim(false, -1),
		"test_masked_normalize_dimNone":                             maskedDim(false, AllDims),
		"test_sft_microbatch_train_step":                            trainStep(1, sftStep(false)),
		"test_sft_microbatch_train_step_normalize":                  trainStep(1, sftStep(true)),
		"test_sft_microbatch_train_step_10_steps":                   trainStep(10, sftStep(false)),
		"test_grpo_microbatch_train_step_grpo_clip":                 trainStep(1, grpoStep),
		"test_grpo_microbatch_train_step_grpo_clip_10_steps":        trainStep(10, grpoStep),
	}
}

// cs336New adds the fixtures of 2026.
func cs336New() map[string]cs336Check {
	m := cs336Common()
	m["test_compute_rollout_rewards"] = func(t *testing.T, _ cs336Inputs, want map[string]snapshot) {
		// The fixture's reward of a response is the last digit of its SHA-256, over 10.
		rewards := make([]float64, 8)
		for i := range rewards {
			sum := sha256.Sum256(fmt.Appendf(nil, "hmm I think ths answer is %d", i))
			digit := new(big.Int).SetBytes(sum[:])
			rewards[i] = float64(digit.Mod(digit, big.NewInt(10)).Int64()) / 10
		}
		got, err := CombineRewards([][]float64{rewards}, []float64{1})
		expect.OK(t, err)
		sameValues(t, "rewards", got, want["array"].Data)
	}
	m["test_compute_group_normalized_rewards_grpo"] = func(t *testing.T, _ cs336Inputs, want map[string]snapshot) {
		opt := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd, Eps: 1e-6}
		got, _, err := GroupAdvantages([]float64{1, 0, 0, 1}, 2, opt)
		expect.OK(t, err)
		sameValues(t, "advantages", got, want["advantages"].Data)
	}
	m["test_compute_policy_gradient_loss_on_policy"] = tokenLosses("array", LossConfig{Loss: ReinforceWithBaseline}, rawRewards, false)
	m["test_compute_policy_gradient_loss_off_policy"] = func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
		tokenLosses("noclip_loss", LossConfig{Loss: GRPONoClip}, rawRewards, true)(t, in, want)
		tokenLosses("clipped_loss", clipCfg(0.1), rawRewards, true)(t, in, want)
	}
	aggregate := func(a Aggregation, z float64) cs336Check {
		return func(t *testing.T, in cs336Inputs, want map[string]snapshot) {
			mask := in.ResponseMask.bools()
			got, err := Aggregate(a, z, cs336Shape, poison(in.PolicyLogProbs, mask), mask, Totals{}, nil)
			expect.OK(t, err)
			sameValue(t, "array", got, want["array"].Data[0])
		}
	}
	m["test_aggregate_loss_across_microbatch_sequence"] = aggregate(MaskedMeanSeq, 0)
	m["test_aggregate_loss_across_microbatch_constant"] = aggregate(Constant, 42)
	return m
}

// TestGoldenCS336TrainSteps runs whole train steps of 2026: rewards to
// advantages to loss and gradient, in two micro-batches.
func TestGoldenCS336TrainSteps(t *testing.T) {
	var in struct {
		ResponseMask array   `json:"response_mask"`
		RawRewards   array   `json:"raw_rewards"`
		GroupSize    int     `json:"group_size"`
		Accumulation int     `json:"gradient_accumulation_steps"`
		Cliprange    float64 `json:"cliprange"`
		Eps          float64 `json:"advantage_eps"`
		Old          array   `json:"old_log_probs_offpolicy"`
		Cases        map[string]struct {
			Loss       float64 `json:"loss_official"`
			LogProbs   array   `json:"policy_log_probs"`
			Grad       array   `json:"dloss_dlogp"`
			Advantages array
			Settings   struct {
				Agg            []any
				Baseline, Norm string
				How            string
			}
		}
	}
	unmarshal(t, sharedFile(t, "cs336-2026/train_step_cases.json"), &in, "grad_norm", "loss_ours", "initial_params", "input_ids", "labels",
		"max_grad_norm", "sgd_lr")
	for _, name := range sortedKeys(in.Cases) {
		c := in.Cases[name]
		t.Run(name, func(t *testing.T) {
			opt := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd, Eps: in.Eps}
			cfg := LossConfig{Loss: ReinforceWithBaseline, Aggregation: MaskedMeanSeq}
			if c.Settings.Baseline == "none" {
				opt.Baseline, opt.Normalizer = BaselineNone, NormalizerNone
			}
			if len(c.Settings.Agg) == 2 {
				cfg.Aggregation, cfg.NormalizeConstant = Constant, c.Settings.Agg[1].(float64)
			}
			mask := in.ResponseMask.bools()
			b := Batch{Shape: Shape{4, 3}, LogProbs: poison(c.LogProbs, mask), Mask: mask}
			switch c.Settings.How {
			case "noclip":
				cfg.Loss, b.OldLogProbs = GRPONoClip, poison(in.Old, mask)
			case "grpo":
				cfg.Loss, cfg.Epsilon, b.OldLogProbs = GRPOClip, in.Cliprange, poison(in.Old, mask)
			}
			var err error
			b.Advantages, _, err = GroupAdvantages(in.RawRewards, in.GroupSize, opt)
			expect.OK(t, err)
			sameValues(t, "advantages", b.Advantages, c.Advantages)
			loss, grad := 0.0, []float64(nil)
			for _, part := range split(b, b.Shape.B/in.Accumulation) {
				r, err := Loss(cfg, part)
				expect.OK(t, err)
				loss += r.Loss
				grad = append(grad, r.Grad...)
			}
			sameValue(t, "loss", loss, c.Loss)
			sameValues(t, "gradient", grad, c.Grad)
		})
	}
}

// split cuts a batch into micro-batches of n sequences, with the totals.
func split(b Batch, n int) []Batch {
	total := Count(b.Shape, b.Mask, b.PolicyMask)
	cut := func(x []float64, lo, hi, t int) []float64 {
		if x == nil {
			return nil
		}
		return x[lo*t : hi*t]
	}
	var out []Batch
	for lo := 0; lo < b.Shape.B; lo += n {
		hi, t := min(lo+n, b.Shape.B), b.Shape.T
		perAdv := len(b.Advantages) / b.Shape.B
		m := Batch{
			Shape: Shape{hi - lo, t}, Totals: total, Mask: b.Mask[lo*t : hi*t],
			LogProbs: cut(b.LogProbs, lo, hi, t), OldLogProbs: cut(b.OldLogProbs, lo, hi, t),
			RefLogProbs: cut(b.RefLogProbs, lo, hi, t), Entropies: cut(b.Entropies, lo, hi, t),
			Advantages: cut(b.Advantages, lo, hi, perAdv),
		}
		if b.PolicyMask != nil {
			m.PolicyMask = b.PolicyMask[lo*t : hi*t]
		}
		out = append(out, m)
	}
	return out
}
