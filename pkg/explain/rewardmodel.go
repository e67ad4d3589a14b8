package explain

import (
	"cmp"
	"io"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// RewardModelOptions are the inputs of [RewardModel].
type RewardModelOptions struct {
	Chosen, Rejected []float64 // scores of the two completions of each pair
	Margins          []float64 // one for each pair; nil = 0
	Centering        float64   // TRL's center_rewards_coefficient; 0 = none
}

// DefaultRewardModel is three pairs: clearly right, barely right, and wrong.
func DefaultRewardModel() RewardModelOptions {
	return RewardModelOptions{Chosen: []float64{2.5, 0.4, -0.3}, Rejected: []float64{-0.5, 0.3, 0.9}, Centering: 0.01}
}

// RewardModelResult is the result of [RewardModel].
type RewardModelResult struct {
	Centering float64           `json:"center_rewards_coefficient"`
	Pairs     []RewardModelPair `json:"pairs"`
	Loss      float64           `json:"loss"`        // mean over the pairs
	Accuracy  float64           `json:"accuracy"`    // share of pairs whose chosen completion scores higher
	Margin    float64           `json:"margin"`      // mean difference of the scores
	Mean      float64           `json:"mean_reward"` // mean of all scores
}

// RewardModelPair is one pair.
type RewardModelPair struct {
	Chosen       float64 `json:"chosen"`
	Rejected     float64 `json:"rejected"`
	Difference   float64 `json:"difference"`
	Margin       float64 `json:"margin"`      // that the loss asks for
	Prob         float64 `json:"probability"` // that the chosen completion is preferred, sigmoid(Difference)
	Preference   float64 `json:"preference_loss"`
	Centering    float64 `json:"centering_loss"`
	GradChosen   float64 `json:"grad_chosen"`
	GradRejected float64 `json:"grad_rejected"`
}

// RewardModel computes the Bradley-Terry loss of a reward model's scores, and its gradient. Both are
// those of [rl.BradleyTerry].
func RewardModel(o RewardModelOptions) (out RewardModelResult, err error) {
	defer named("reward-model", &err)
	if err := finite("a score", slices.Concat(o.Chosen, o.Rejected)...); err != nil {
		return out, err
	}
	if err := finite("a margin", o.Margins...); err != nil {
		return out, err
	}
	loss, err := rl.BradleyTerry(rl.RewardPairs{
		Chosen: o.Chosen, Rejected: o.Rejected, Margins: o.Margins, Centering: o.Centering,
	})
	if err != nil {
		return out, err
	}
	out = RewardModelResult{Centering: o.Centering, Loss: loss.Loss}
	right := 0
	for i, c := range o.Chosen {
		p := RewardModelPair{
			Chosen: c, Rejected: o.Rejected[i], Difference: c - o.Rejected[i],
			GradChosen: loss.GradChosen[i], GradRejected: loss.GradRejected[i],
		}
		if o.Margins != nil {
			p.Margin = o.Margins[i]
		}
		one, err := rl.BradleyTerry(rl.RewardPairs{
			Chosen: []float64{c}, Rejected: []float64{p.Rejected}, Margins: []float64{p.Margin},
		})
		if err != nil {
			return out, err
		}
		p.Prob = 1 / (1 + math.Exp(-p.Difference))
		p.Preference, p.Centering = one.Loss, o.Centering*(c+p.Rejected)*(c+p.Rejected)
		out.Pairs = append(out.Pairs, p)
		out.Margin += p.Difference
		out.Mean += (c + p.Rejected) / 2
		if p.Difference > 0 {
			right++
		}
		if err := computed("a loss or a gradient",
			[]float64{p.Difference, p.Preference, p.Centering, p.GradChosen, p.GradRejected}); err != nil {
			return out, err
		}
	}
	n := float64(len(o.Chosen))
	out.Accuracy, out.Margin, out.Mean = float64(right)/n, out.Margin/n, out.Mean/n
	return out, computed("the loss or a mean", []float64{out.Loss, out.Margin, out.Mean})
}

// WriteText writes the table and the conclusions.
func (r RewardModelResult) WriteText(w io.Writer) error {
	worst := slices.MinFunc(r.Pairs, func(a, b RewardModelPair) int {
		return cmp.Compare(a.Difference-a.Margin, b.Difference-b.Margin)
	})
	return writePage(w, "rewardmodel", struct {
		RewardModelResult
		Worst       RewardModelPair
		WorstWeight float64
		WithMargin  int // the first pair with a margin, or -1
	}{
		r, worst, 1 / (1 + math.Exp(worst.Difference-worst.Margin)),
		slices.IndexFunc(r.Pairs, func(x RewardModelPair) bool { return x.Margin != 0 }),
	})
}
