package rl

import (
	"cmp"
	"fmt"
	"math"
)

// RewardPairs is the input of [BradleyTerry]: the reward model's scores of P pairs.
type RewardPairs struct {
	Chosen, Rejected []float64 // (P)
	// Margins (P) are the least differences of the scores that the loss asks for; nil = all 0.
	Margins []float64
	// Centering is the weight of the squared sum of a pair's scores, at least 0 (TRL
	// center_rewards_coefficient; 0 = none). The scores have no zero of their own, and it centers them.
	Centering float64
	// Total is the number of pairs of the whole update, of which this is a micro-batch; 0 means that
	// this batch is all of it.
	Total int
}

// RewardLoss is the loss of a reward model and its gradient.
type RewardLoss struct {
	Loss float64 // this batch's part of the mean over the update's pairs: micro-batches add up
	// GradChosen and GradRejected (P) are the derivatives of Loss by the scores.
	GradChosen, GradRejected []float64
}

// BradleyTerry is the loss of a reward model on pairs, the mean of
//
//	-log sigmoid(c - r - margin) + centering (c + r)^2
//
// where c and r are the scores of the chosen and the rejected completion. It returns an error if
// lengths do not fit, there is no pair, or an option is out of range.
//
// Source: Bradley and Terry 1952; arXiv:2203.02155; the margin of arXiv:2307.09288, the centering of
// arXiv:2312.09244; TRL 1.16 RewardTrainer.compute_loss.
func BradleyTerry(b RewardPairs) (RewardLoss, error) {
	n := len(b.Chosen)
	fail := func(format string, args ...any) (RewardLoss, error) {
		return RewardLoss{}, fmt.Errorf("reward model loss: "+format, args...)
	}
	total := cmp.Or(b.Total, n)
	switch {
	case n == 0:
		return fail("no pairs")
	case len(b.Rejected) != n:
		return fail("%d scores of chosen and %d of rejected completions; each pair needs both", n, len(b.Rejected))
	case b.Margins != nil && len(b.Margins) != n:
		return fail("%d margins for %d pairs", len(b.Margins), n)
	case b.Centering != 0 && !positive(b.Centering):
		return fail("the centering coefficient is %v; it must be finite and at least 0", b.Centering)
	case total < n:
		return fail("a total of %d pairs does not cover this batch of %d (pass the number of the whole update)",
			total, n)
	}
	out := RewardLoss{GradChosen: make([]float64, n), GradRejected: make([]float64, n)}
	mean, sum := 1/float64(total), 0.0
	for i, c := range b.Chosen {
		r := b.Rejected[i]
		d := c - r
		if b.Margins != nil {
			d -= b.Margins[i]
		}
		sum += -logSigmoid(d) + float64(b.Centering*(c+r)*(c+r))
		slope, center := -sigmoid(-d), float64(2*b.Centering*(c+r))
		out.GradChosen[i], out.GradRejected[i] = mean*(slope+center), mean*(-slope+center)
	}
	out.Loss = mean * sum
	return out, nil
}

// CalibrationBin is the pairs whose preference was predicted with a probability from Low to High.
type CalibrationBin struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Pairs int     `json:"pairs"`
	// Predicted is the mean probability of the completion with the higher score, Observed the share of
	// pairs in which it is the chosen one; both are null without pairs.
	Predicted *float64 `json:"predicted"`
	Observed  *float64 `json:"observed"`
}

// Calibration compares predicted preferences with those in the data.
type Calibration struct {
	// Brier is the mean of (1 - p)^2, where p is the probability sigmoid(c - r) that the chosen
	// completion is preferred; 0.25 for a model that knows nothing.
	Brier float64 `json:"brier"`
	// ECE is the expected calibration error (arXiv:1706.04599): the mean of |predicted - observed| over
	// the bins, weighted by their pairs.
	ECE  float64          `json:"ece"`
	Bins []CalibrationBin `json:"bins"`
}

// calibrationBins is the number of bins between the probabilities 0.5 and 1.
const calibrationBins = 5

// Calibrate compares the preferences that a reward model's scores of P pairs predict with the pairs.
// Equal scores count as half a right prediction. It returns an error if the lengths differ, there is
// no pair or a score is not finite.
func Calibrate(chosen, rejected []float64) (Calibration, error) {
	if len(chosen) == 0 || len(chosen) != len(rejected) {
		return Calibration{}, fmt.Errorf("calibration: %d scores of chosen and %d of rejected completions; each pair "+
			"needs both, and there must be a pair", len(chosen), len(rejected))
	}
	out := Calibration{Bins: make([]CalibrationBin, calibrationBins)}
	predicted, observed := make([]float64, calibrationBins), make([]float64, calibrationBins)
	n := float64(len(chosen))
	for i, c := range chosen {
		d := c - rejected[i]
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return Calibration{}, fmt.Errorf("calibration: the scores of pair %d are %v and %v; they must be finite",
				i, c, rejected[i])
		}
		wrong := sigmoid(-d) // the probability of the rejected completion
		out.Brier += wrong * wrong / n
		likelier, right := sigmoid(math.Abs(d)), 0.5
		if d > 0 {
			right = 1
		} else if d < 0 {
			right = 0
		}
		k := min(calibrationBins-1, int((likelier-0.5)*2*calibrationBins))
		out.Bins[k].Pairs++
		predicted[k], observed[k] = predicted[k]+likelier, observed[k]+right
	}
	for k := range out.Bins {
		b := &out.Bins[k]
		b.Low, b.High = 0.5+0.5*float64(k)/calibrationBins, 0.5+0.5*float64(k+1)/calibrationBins
		if b.Pairs == 0 {
			continue
		}
		p, o := predicted[k]/float64(b.Pairs), observed[k]/float64(b.Pairs)
		b.Predicted, b.Observed = &p, &o
		out.ECE += math.Abs(p-o) * float64(b.Pairs) / n
	}
	return out, nil
}
