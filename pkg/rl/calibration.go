package rl

import (
	"fmt"
	"math"
)

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
			return Calibration{}, fmt.Errorf("calibration: the scores of pair %d are %v and %v; they must be finite", i, c,
				rejected[i])
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
