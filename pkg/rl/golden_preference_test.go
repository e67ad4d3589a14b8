package rl

import (
	"math"
	"testing"

	"grpo/internal/expect"
)

// completionCase is one completion of the reference data: the values of all predicted tokens of prompt and
// completion, of which the mask keeps the completion's.
type completionCase struct {
	Mask, Policy, Ref array
	LogSumSq          array `json:"policy_log_sum_sq_probs"`
}

type pairCase struct {
	PromptLen        int `json:"prompt_len"`
	Chosen, Rejected completionCase
}

// preferenceBatch has NaN wherever the mask is false.
func preferenceBatch(pairs []pairCase) PreferenceBatch {
	var rows []completionCase
	b := PreferenceBatch{}
	for _, p := range pairs {
		rows = append(rows, p.Chosen, p.Rejected)
	}
	for _, r := range rows {
		b.Shape.T = max(b.Shape.T, len(r.Mask))
	}
	b.Shape.B = len(rows)
	n := b.Shape.Len()
	b.LogProbs, b.RefLogProbs, b.LogSumSq, b.Mask = make([]float64, n), make([]float64, n), make([]float64, n), make([]bool, n)
	for i, r := range rows {
		lo := i * b.Shape.T
		copy(b.LogProbs[lo:], r.Policy)
		copy(b.RefLogProbs[lo:], r.Ref)
		copy(b.LogSumSq[lo:], r.LogSumSq)
		copy(b.Mask[lo:], r.Mask.bools())
		length := countTrue(b.Mask[lo : lo+b.Shape.T])
		if pairs[i/2].PromptLen == 0 {
			length++ // TRL counts the first token, which no model predicts
		}
		b.Lengths = append(b.Lengths, length)
	}
	for _, x := range []*[]float64{&b.LogProbs, &b.RefLogProbs, &b.LogSumSq} {
		*x = poison(*x, b.Mask)
	}
	return b
}

type preferenceCase struct {
	Name, Inputs, Error string
	Params              struct {
		Losses         []PreferenceLoss `json:"loss_type"`
		Weights        []float64        `json:"loss_weights"`
		Beta           float64
		LabelSmoothing float64  `json:"label_smoothing"`
		Divergence     string   `json:"f_divergence_type"`
		AlphaCoef      *float64 `json:"f_alpha_divergence_coef"`
		LDAlpha        *float64 `json:"ld_alpha"`
		Weighting      bool     `json:"use_weighting"`
		Tau            float64  `json:"discopop_tau"`
	}
	Loss            *float64
	LossF64         *float64 `json:"loss_f64"`
	Losses          array
	RewardsChosen   array `json:"rewards_chosen"`
	RewardsRejected array `json:"rewards_rejected"`
	Margins         array
	Accuracies      array
	Metrics         map[string]float64
	GradChosen      []array `json:"grad_chosen"`
	GradRejected    []array `json:"grad_rejected"`
}

func (c preferenceCase) config() PreferenceConfig {
	p := c.Params
	cfg := PreferenceConfig{
		Losses: p.Losses, Weights: p.Weights, Beta: p.Beta, LabelSmoothing: p.LabelSmoothing, Divergence: p.Divergence,
		AlphaCoef: 0.5, LDAlpha: 1, Weighting: p.Weighting, DiscoPOPTau: p.Tau,
	}
	if p.AlphaCoef != nil {
		cfg.AlphaCoef = *p.AlphaCoef
	}
	if p.LDAlpha != nil {
		cfg.LDAlpha = *p.LDAlpha
	}
	return cfg
}

// sameWithin compares to tol relative to the wanted value, or to 1 if that is smaller.
func sameWithin(t *testing.T, what string, tol float64, got, want []float64) {
	t.Helper()
	gradientWithin(t, what, tol, got, want, func(want float64) float64 { return max(1, math.Abs(want)) })
}

// gradientWithin compares to tol relative to a scale.
func gradientWithin(t *testing.T, what string, tol float64, got, want []float64, scale func(want float64) float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol*scale(want[i])) {
			t.Errorf("%s[%d]: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// largest is the scale of gradients: the largest entry of a case, at least 1e-3.
func largest(rows ...[]float64) func(float64) float64 {
	scale := 1e-3
	for _, r := range rows {
		for _, g := range r {
			scale = max(scale, math.Abs(g))
		}
	}
	return func(float64) float64 { return scale }
}

// The tolerances that the reference data's README suggests: of values, of gradients relative to
// the largest entry of the case, and of values in float64.
const (
	valueTol    = 1e-5
	gradientTol = 2e-5
	exactTol    = 1e-7
)

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func TestGoldenPreference(t *testing.T) {
	var data struct {
		Inputs map[string][]pairCase
		Cases  []preferenceCase
	}
	unmarshal(t, sharedFile(t, "trl2/dpo_losses.json"), &data)
	if len(data.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range data.Cases {
		t.Run(c.Name, func(t *testing.T) {
			pairs, cfg := data.Inputs[c.Inputs], c.config()
			b := preferenceBatch(pairs)
			got, err := Preference(cfg, b)
			if c.Error != "" {
				if cfg.Check() == nil || err == nil {
					t.Errorf("no error; TRL has %s", c.Error)
				}
				return
			}
			expect.OK(t, err)
			c.compare(t, got, b)
		})
	}
}

func (c preferenceCase) compare(t *testing.T, got PreferenceResult, b PreferenceBatch) {
	sameWithin(t, "loss", valueTol, []float64{got.Loss}, []float64{*c.Loss})
	if c.LossF64 != nil {
		sameWithin(t, "loss in float64", exactTol, []float64{got.Loss}, []float64{*c.LossF64})
	}
	sameWithin(t, "losses", valueTol, got.Losses, c.Losses)
	sameWithin(t, "chosen rewards", valueTol, got.RewardsChosen, c.RewardsChosen)
	sameWithin(t, "rejected rewards", valueTol, got.RewardsRejected, c.RewardsRejected)
	margins, accuracies := make([]float64, len(c.Margins)), make([]float64, len(c.Margins))
	for i := range margins {
		margins[i] = got.RewardsChosen[i] - got.RewardsRejected[i]
		if margins[i] > 0 {
			accuracies[i] = 1
		}
	}
	sameWithin(t, "margins", valueTol, margins, c.Margins)
	sameWithin(t, "accuracies", 0, accuracies, c.Accuracies)
	for _, name := range sortedKeys(c.Metrics) {
		metric, known := map[string][]float64{
			"rewards/chosen": got.RewardsChosen, "rewards/rejected": got.RewardsRejected, "rewards/margins": margins,
			"rewards/accuracies": accuracies, "logps/chosen": got.LogPsChosen, "logps/rejected": got.LogPsRejected,
		}[name]
		if !known {
			t.Errorf("metric %q is not known here", name)
			continue
		}
		sameWithin(t, name, valueTol, []float64{average(metric)}, []float64{c.Metrics[name]})
	}
	var all [][]float64
	for _, g := range append(c.GradChosen, c.GradRejected...) {
		all = append(all, g)
	}
	for k, rows := range [][]array{c.GradChosen, c.GradRejected} {
		for i, want := range rows {
			lo := (2*i + k) * b.Shape.T
			gradientWithin(t, "gradient", gradientTol, got.Grad[lo:lo+len(want)], want, largest(all...))
		}
	}
}

func TestGoldenRewardModelLoss(t *testing.T) {
	var data struct {
		Losses []struct {
			RewardsChosen   []float64 `json:"rewards_chosen"`
			RewardsRejected []float64 `json:"rewards_rejected"`
			Margin          []float64
			Centering       float64 `json:"center_rewards_coefficient"` // null is 0
			Loss            float64
			LossF64         float64   `json:"loss_f64"`
			GradChosen      []float64 `json:"grad_chosen"`
			GradRejected    []float64 `json:"grad_rejected"`
		}
	}
	unmarshal(t, sharedFile(t, "trl2/reward.json"), &data, "metrics", "model")
	if len(data.Losses) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range data.Losses {
		t.Run(string(rune('a'+i)), func(t *testing.T) {
			got, err := BradleyTerry(RewardPairs{
				Chosen: c.RewardsChosen, Rejected: c.RewardsRejected, Margins: c.Margin, Centering: c.Centering,
			})
			expect.OK(t, err)
			sameWithin(t, "loss", valueTol, []float64{got.Loss}, []float64{c.Loss})
			sameWithin(t, "loss in float64", exactTol, []float64{got.Loss}, []float64{c.LossF64})
			scale := largest(c.GradChosen, c.GradRejected)
			gradientWithin(t, "gradient of chosen", gradientTol, got.GradChosen, c.GradChosen, scale)
			gradientWithin(t, "gradient of rejected", gradientTol, got.GradRejected, c.GradRejected, scale)
		})
	}
}

// The losses of TRL's SFTTrainer from its log-probabilities of the counted tokens.
func TestGoldenSupervisedLoss(t *testing.T) {
	var data struct {
		Cases []struct {
			Kind     string
			LossType SupervisedLoss `json:"loss_type"`
			LogProbs array          `json:"per_token_logps"`
			Tokens   int            `json:"num_label_tokens_shifted"`
			Loss     float64
		}
	}
	unmarshal(t, sharedFile(t, "trl2/sft.json"), &data, "completion_only_loss", "grad_norm", "grads", "max_length", "metrics",
		"model", "num_items_in_batch", "rows", "source_rows", "train_grad_norm", "train_loss")
	if len(data.Cases) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range data.Cases {
		t.Run(string(rune('a'+i))+" "+string(c.LossType), func(t *testing.T) {
			weights := make([]float64, len(c.LogProbs))
			for i := range weights {
				weights[i] = 1
			}
			got, err := Supervised(c.LossType, c.LogProbs, weights, float64(c.Tokens), make([]float64, len(weights)))
			expect.OK(t, err)
			sameWithin(t, "loss", valueTol, []float64{got}, []float64{c.Loss})
		})
	}
}
