package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// DPOOptions are the inputs of [DPO]. Each list has a row for each pair, with the log-probabilities of
// a completion's tokens.
type DPOOptions struct {
	Chosen, RefChosen     [][]float64 // under the policy and the reference
	Rejected, RefRejected [][]float64
	Config                rl.PreferenceConfig
}

// DefaultDPO is two pairs. In the first, both completions became less likely than under the reference,
// the rejected one more so; in the second, the policy prefers the longer, rejected completion.
func DefaultDPO() DPOOptions {
	return DPOOptions{
		Chosen:      [][]float64{{-1.30, -0.90, -0.60}, {-0.80, -0.50}},
		RefChosen:   [][]float64{{-1.10, -0.80, -0.50}, {-0.70, -0.90}},
		Rejected:    [][]float64{{-2.40, -1.90}, {-1.00, -0.60, -0.70, -0.40}},
		RefRejected: [][]float64{{-1.20, -1.10}, {-1.20, -0.80, -1.00, -0.60}},
		Config: rl.PreferenceConfig{
			Losses: []rl.PreferenceLoss{rl.DPOSigmoid}, Beta: 0.1, AlphaCoef: 0.5, LDAlpha: 1, Divergence: rl.ReverseKL,
		},
	}
}

// DPOResult is the result of [DPO], under TRL's names.
type DPOResult struct {
	LossTypes      []rl.PreferenceLoss `json:"loss_type"`
	LossWeights    []float64           `json:"loss_weights,omitempty"`
	Beta           float64             `json:"beta"`
	LabelSmoothing float64             `json:"label_smoothing"`
	Divergence     string              `json:"f_divergence_type"`
	LDAlpha        float64             `json:"ld_alpha"`
	Pairs          []DPOPair           `json:"pairs"`
	Loss           float64             `json:"loss"` // mean over the pairs
	Metrics        DPOMetrics          `json:"metrics"`
	// Compared has the same pairs under every loss that the other settings allow.
	Compared []DPOCompared `json:"compared"`

	config rl.PreferenceConfig
}

// DPOPair is one pair.
type DPOPair struct {
	Chosen   DPOCompletion `json:"chosen"`
	Rejected DPOCompletion `json:"rejected"`
	Margin   float64       `json:"margin"`      // difference of the rewards
	Prob     float64       `json:"probability"` // that the chosen completion is preferred, sigmoid(Margin)
	// Loss is null if several losses are combined or the loss is not of single pairs.
	Loss *float64 `json:"loss"`
}

// DPOCompletion is one completion of a pair.
type DPOCompletion struct {
	Tokens   int       `json:"tokens"`
	LogProb  float64   `json:"logps"` // sum over tokens; with ld_alpha, the weighted sum
	RefLogP  float64   `json:"ref_logps"`
	LogRatio float64   `json:"log_ratio"`
	Reward   float64   `json:"reward"`     // beta times LogRatio
	Gradient []float64 `json:"grad_logps"` // of the mean loss, for each token
}

// DPOMetrics are the means over pairs that TRL logs.
type DPOMetrics struct {
	RewardsChosen   float64 `json:"rewards/chosen"`
	RewardsRejected float64 `json:"rewards/rejected"`
	Margins         float64 `json:"rewards/margins"`
	Accuracies      float64 `json:"rewards/accuracies"` // share of pairs with a margin above 0
	LogPsChosen     float64 `json:"logps/chosen"`
	LogPsRejected   float64 `json:"logps/rejected"`
}

// DPOCompared is the loss of the pairs under one loss, with the gradients of the first tokens of the
// first pair.
type DPOCompared struct {
	LossType       rl.PreferenceLoss `json:"loss_type"`
	LabelSmoothing float64           `json:"label_smoothing"`
	Loss           float64           `json:"loss"`
	GradChosen     float64           `json:"grad_chosen"`
	GradRejected   float64           `json:"grad_rejected"`
}

// DPO computes the loss of preference pairs from their log-probabilities under the policy and the
// reference, its gradient, the implicit rewards, and the same pairs under the other losses. All are
// those of [rl.Preference].
func DPO(o DPOOptions) (out DPOResult, err error) {
	defer named("dpo", &err)
	cfg := o.Config
	if unused := cfg.Unused(); len(unused) > 0 {
		u := unused[0]
		return out, fmt.Errorf("%s has no effect on %s (it is for %s)", u.Name,
			each(cfg.Losses, ", ", asText[rl.PreferenceLoss]), each(u.UsedBy, ", ", asText[string]))
	}
	batch, err := o.batch()
	if err != nil {
		return out, err
	}
	r, err := rl.Preference(cfg, batch)
	if err != nil {
		return out, err
	}
	reference := batch
	reference.LogProbs = batch.RefLogProbs
	ref, err := rl.Preference(cfg, reference)
	if err != nil {
		return out, err
	}
	if err := computed("a loss, a reward or a gradient", r.Grad, r.Losses, r.RewardsChosen, r.RewardsRejected,
		r.LogPsChosen, r.LogPsRejected, ref.LogPsChosen, ref.LogPsRejected, []float64{r.Loss}); err != nil {
		return out, err
	}
	out = DPOResult{
		LossTypes: cfg.Losses, LossWeights: cfg.Weights, Beta: cfg.Beta, LabelSmoothing: cfg.LabelSmoothing,
		Divergence: cfg.Divergence, LDAlpha: cfg.LDAlpha, Loss: r.Loss, config: cfg,
	}
	ofPairs := !cfg.NeedsBatch() && !slices.Contains(cfg.Losses, rl.DPOSFT) && r.Losses != nil
	for i := range o.Chosen {
		side := func(row int, tokens []float64, logp, refLogP, reward float64) DPOCompletion {
			lo := row * batch.Shape.T
			return DPOCompletion{len(tokens), logp, refLogP, logp - refLogP, reward, r.Grad[lo : lo+len(tokens)]}
		}
		p := DPOPair{
			Chosen:   side(2*i, o.Chosen[i], r.LogPsChosen[i], ref.LogPsChosen[i], r.RewardsChosen[i]),
			Rejected: side(2*i+1, o.Rejected[i], r.LogPsRejected[i], ref.LogPsRejected[i], r.RewardsRejected[i]),
			Margin:   r.RewardsChosen[i] - r.RewardsRejected[i],
		}
		p.Prob = 1 / (1 + math.Exp(-p.Margin))
		if ofPairs {
			p.Loss = &r.Losses[i]
		}
		out.Pairs = append(out.Pairs, p)
	}
	out.Metrics = DPOMetrics{
		RewardsChosen: out.mean(func(p DPOPair) float64 { return p.Chosen.Reward }), Accuracies: out.mean(accuracy),
		RewardsRejected: out.mean(func(p DPOPair) float64 { return p.Rejected.Reward }),
		Margins:         out.mean(func(p DPOPair) float64 { return p.Margin }),
		LogPsChosen:     out.mean(func(p DPOPair) float64 { return p.Chosen.LogProb }),
		LogPsRejected:   out.mean(func(p DPOPair) float64 { return p.Rejected.LogProb }),
	}
	return out, out.compare(batch)
}

// accuracy is 1 for a margin above 0.
func accuracy(p DPOPair) float64 {
	if p.Margin > 0 {
		return 1
	}
	return 0
}

// mean is the mean over the pairs.
func (r *DPOResult) mean(f func(DPOPair) float64) float64 {
	sum := 0.0
	for _, p := range r.Pairs {
		sum += f(p)
	}
	return sum / float64(len(r.Pairs))
}

func asText[S ~string](s S) string { return string(s) }

// exoSmoothing is the label smoothing that the EXO paper recommends; the loss needs one.
const exoSmoothing = 1e-3

// compare computes the pairs under every loss that the settings allow.
func (r *DPOResult) compare(batch rl.PreferenceBatch) error {
	for _, name := range rl.PreferenceLosses() {
		c := r.only(rl.PreferenceLoss(name))
		if c.Check() != nil {
			continue
		}
		got, err := rl.Preference(c, batch)
		if err != nil {
			return err
		}
		if computed("", got.Grad, []float64{got.Loss}) != nil {
			continue // out of range under this loss alone
		}
		r.Compared = append(r.Compared, DPOCompared{
			c.Losses[0], c.LabelSmoothing, got.Loss, got.Grad[0], got.Grad[batch.Shape.T],
		})
	}
	return nil
}

// only is the configuration with a single loss.
func (r *DPOResult) only(l rl.PreferenceLoss) rl.PreferenceConfig {
	c := r.config
	c.Losses, c.Weights = []rl.PreferenceLoss{l}, nil
	if l == rl.DPOExo && c.LabelSmoothing == 0 {
		c.LabelSmoothing = exoSmoothing
	}
	return c
}

// batch converts the rows into a batch.
func (o DPOOptions) batch() (b rl.PreferenceBatch, err error) {
	n := len(o.Chosen)
	if n == 0 || len(o.RefChosen) != n || len(o.Rejected) != n || len(o.RefRejected) != n {
		return b, fmt.Errorf("%d rows of log-probabilities of chosen and %d of rejected completions under the policy, "+
			"%d and %d under the reference (give a row of each for each pair)",
			n, len(o.Rejected), len(o.RefChosen), len(o.RefRejected))
	}
	var policy, ref [][]float64
	var lengths []int
	for i := range n {
		policy = append(policy, o.Chosen[i], o.Rejected[i])
		ref = append(ref, o.RefChosen[i], o.RefRejected[i])
		lengths = append(lengths, len(o.Chosen[i]), len(o.Rejected[i]))
	}
	for row, logps := range policy {
		name := fmt.Sprintf("the %s completion of pair %d", []string{"chosen", "rejected"}[row%2], row/2)
		if len(ref[row]) != len(logps) {
			return b, fmt.Errorf("%s has %d log-probabilities under the policy and %d under the reference",
				name, len(logps), len(ref[row]))
		}
		for _, x := range slices.Concat(logps, ref[row]) {
			if !(x <= 0) || math.IsInf(x, -1) {
				return b, fmt.Errorf("log-probability %v in %s; it must be finite and at most 0", x, name)
			}
		}
	}
	if b.Shape, b.Mask, err = lengthMask(lengths, 0); err != nil {
		return b, err
	}
	b.LogProbs, b.RefLogProbs = make([]float64, b.Shape.Len()), make([]float64, b.Shape.Len())
	for row := range policy {
		copy(b.LogProbs[row*b.Shape.T:], policy[row])
		copy(b.RefLogProbs[row*b.Shape.T:], ref[row])
	}
	return b, nil
}
