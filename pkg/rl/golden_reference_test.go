package rl

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// TestGoldenReference compares the package with testdata/reference.py, a second
// implementation in PyTorch, whose gradients are from autograd.
func TestGoldenReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference_cases.json")
	expect.OK(t, err)
	var ref struct {
		Inputs struct {
			Rewards, Lengths, Greedy, Mask, Entropies, Advantages, Differences array
			LogProbs                                                           array `json:"log_probs"`
			OldLogProbs                                                        array `json:"old_log_probs"`
			RefLogProbs                                                        array `json:"ref_log_probs"`
			Eps, Z                                                             float64
		}
		Advantages []struct {
			Baseline   Baseline
			Normalizer Normalizer
			Advantages array
		}
		Losses       []referenceLoss
		Aggregations []struct {
			Aggregation Aggregation
			Value       float64
			Weights     array
		}
		KLEstimators []struct {
			KL          KLEstimator
			Value, Grad array
		} `json:"kl_estimators"`
	}
	unmarshal(t, data, &ref)
	in := ref.Inputs
	const groupSize = 4
	shape, mask := Shape{5, 4}, in.Mask.bools()

	lengths := make([]int, len(in.Lengths))
	for i, n := range in.Lengths {
		lengths[i] = int(n)
	}
	for _, c := range ref.Advantages {
		t.Run(fmt.Sprintf("advantages/%s over %s", c.Baseline, c.Normalizer), func(t *testing.T) {
			opt := AdvantageOptions{Baseline: c.Baseline, Normalizer: c.Normalizer, Eps: in.Eps}
			if c.Baseline == BaselineLengthWeighted {
				opt.Lengths = lengths
			}
			if c.Baseline == BaselineGreedy {
				opt.GreedyRewards = in.Greedy
			}
			got, _, err := GroupAdvantages(in.Rewards, groupSize, opt)
			expect.OK(t, err)
			exactly(t, "advantages", got, c.Advantages)
		})
	}

	b := Batch{
		Shape: shape, Mask: mask, Advantages: in.Advantages, LogProbs: poison(in.LogProbs, mask), OldLogProbs: poison(in.OldLogProbs, mask),
		RefLogProbs: poison(in.RefLogProbs, mask), Entropies: poison(in.Entropies, mask),
	}
	for i, c := range ref.Losses {
		t.Run(fmt.Sprintf("loss %d/%s", i, c.Loss), func(t *testing.T) {
			got, err := Loss(c.config(), b)
			expect.OK(t, err)
			exactly(t, "loss", []float64{got.Loss}, []float64{c.Value})
			exactly(t, "gradient", within(got.Grad, mask), c.Grad)
		})
	}
	for _, name := range LossTypes() {
		if !slices.ContainsFunc(ref.Losses, func(c referenceLoss) bool { return string(c.Loss) == name }) {
			t.Errorf("no reference case for the loss %s: add it to testdata/reference.py", name)
		}
	}

	for _, c := range ref.Aggregations {
		t.Run("aggregation/"+string(c.Aggregation), func(t *testing.T) {
			weights := make([]float64, shape.Len())
			got, err := Aggregate(c.Aggregation, in.Z, shape, b.LogProbs, mask, Totals{}, weights)
			expect.OK(t, err)
			exactly(t, "value", []float64{got}, []float64{c.Value})
			exactly(t, "weights", within(weights, mask), c.Weights)
		})
	}

	for _, c := range ref.KLEstimators {
		t.Run("kl/"+string(c.KL), func(t *testing.T) {
			value, grad := make([]float64, len(in.Differences)), make([]float64, len(in.Differences))
			for i, d := range in.Differences {
				value[i], grad[i] = c.KL.At(d, 0)
			}
			exactly(t, "value", value, c.Value)
			exactly(t, "gradient", grad, c.Grad)
		})
	}
	if n := len(ref.Advantages) + len(ref.Losses) + len(ref.Aggregations) + len(ref.KLEstimators); n != 44 ||
		len(ref.Aggregations) != len(Aggregations()) || len(ref.KLEstimators) != len(KLEstimators()) {
		t.Errorf("%d reference cases, want 44, with each aggregation and each KL estimator once", n)
	}
}

// referenceLoss is the configuration of one loss and its results: the value, and the gradient of
// the tokens within the mask.
type referenceLoss struct {
	Loss                    LossType
	Aggregation             Aggregation
	Z, Epsilon, Delta, Beta float64
	EpsilonHigh             float64 `json:"epsilon_high"`
	DualClip                float64 `json:"dual_clip"`
	Level                   ImportanceLevel
	KL                      KLEstimator
	BiasCorrection          bool     `json:"bias_correction"`
	EntropyCoef             float64  `json:"entropy_coef"`
	OffPolicyMaskThreshold  *float64 `json:"off_policy_mask_threshold"`
	Value                   float64
	Grad                    array
}

func (c referenceLoss) config() LossConfig {
	cfg := LossConfig{
		Loss: c.Loss, Aggregation: c.Aggregation, NormalizeConstant: c.Z, Epsilon: c.Epsilon, EpsilonHigh: c.EpsilonHigh,
		Delta: c.Delta, DualClip: c.DualClip, Level: c.Level, Beta: c.Beta, KL: c.KL, KLBiasCorrection: c.BiasCorrection, EntropyCoef: c.EntropyCoef,
	}
	if c.OffPolicyMaskThreshold != nil {
		cfg.OffPolicyMask, cfg.OffPolicyMaskThreshold = true, *c.OffPolicyMaskThreshold
	}
	return cfg
}

// within returns the values where the mask is true.
func within(x []float64, mask []bool) []float64 {
	var out []float64
	for i, in := range mask {
		if in {
			out = append(out, x[i])
		}
	}
	return out
}

// exactly compares with the 12 digits of the reference, more strictly than
// [sameValues].
func exactly(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if !slices.EqualFunc(got, want, closeTo) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
