package rl

import (
	"testing"

	"grpo/internal/expect"
)

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
