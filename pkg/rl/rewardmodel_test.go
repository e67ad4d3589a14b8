package rl

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func drawRewardPairs(rt *rapid.T) RewardPairs {
	n := rapid.IntRange(1, 5).Draw(rt, "pairs")
	list := func(name string, lo, hi float64) []float64 {
		return rapid.SliceOfN(rapid.Float64Range(lo, hi), n, n).Draw(rt, name)
	}
	b := RewardPairs{Chosen: list("chosen", -4, 4), Rejected: list("rejected", -4, 4),
		Centering: rapid.SampledFrom([]float64{0, 0.3}).Draw(rt, "centering")}
	if rapid.Bool().Draw(rt, "margin") {
		b.Margins = list("margins", 0, 2)
	}
	return b
}

func mustBradleyTerry(rt expect.TB, b RewardPairs) RewardLoss {
	r, err := BradleyTerry(b)
	expect.OK(rt, err)
	return r
}

func TestBradleyTerryGradient(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawRewardPairs(rt)
		r := mustBradleyTerry(rt, b)
		const h = 1e-5
		for side, grad := range [][]float64{r.GradChosen, r.GradRejected} {
			for i := range grad {
				at := func(d float64) float64 {
					m := b
					m.Chosen, m.Rejected = slices.Clone(b.Chosen), slices.Clone(b.Rejected)
					[][]float64{m.Chosen, m.Rejected}[side][i] += d
					return mustBradleyTerry(rt, m).Loss
				}
				if want := (at(h) - at(-h)) / (2 * h); math.Abs(grad[i]-want) > 1e-7 {
					rt.Fatalf("gradient %d of side %d is %v, finite difference %v", i, side, grad[i], want)
				}
			}
		}
		var sum float64
		for i := range b.Chosen {
			m := RewardPairs{Chosen: b.Chosen[i : i+1], Rejected: b.Rejected[i : i+1], Centering: b.Centering, Total: len(b.Chosen)}
			if b.Margins != nil {
				m.Margins = b.Margins[i : i+1]
			}
			one := mustBradleyTerry(rt, m)
			sum += one.Loss
			if one.GradChosen[0] != r.GradChosen[i] || one.GradRejected[0] != r.GradRejected[i] {
				rt.Fatalf("the gradient of pair %d alone differs in its bits", i)
			}
		}
		if !closeTo(sum, r.Loss) {
			rt.Fatalf("losses of the micro-batches add up to %v, not %v", sum, r.Loss)
		}
	})
}

func TestBradleyTerryExtremes(t *testing.T) {
	r := mustBradleyTerry(t, RewardPairs{Chosen: []float64{1e4, -1e4}, Rejected: []float64{-1e4, 1e4}})
	if r.Loss != 1e4 || !slices.Equal(r.GradChosen, []float64{0, -0.5}) {
		t.Errorf("got %+v", r)
	}
}

func TestSupervised(t *testing.T) {
	p := []float64{0.5, 0.1, nan, 1}
	logProbs, weights := make([]float64, 4), []float64{1, 0.5, 0, 1}
	for i := range p {
		logProbs[i] = math.Log(p[i])
	}
	for _, c := range []struct {
		loss  SupervisedLoss
		total float64
		want  float64
		grad  []float64
	}{
		{NLL, 0, (math.Ln2 + 0.5*math.Log(10)) / 2.5, []float64{-0.4, -0.2, 0, -0.4}},
		{NLL, 5, (math.Ln2 + 0.5*math.Log(10)) / 5, []float64{-0.2, -0.1, 0, -0.2}},
		{DFT, 0, (0.5*math.Ln2 + 0.05*math.Log(10)) / 2.5, []float64{-0.2, -0.02, 0, -0.4}},
	} {
		grad := []float64{9, 9, 9, 9}
		got, err := Supervised(c.loss, logProbs, weights, c.total, grad)
		if err != nil || !closeTo(got, c.want) || !slices.EqualFunc(grad, c.grad, closeTo) {
			t.Errorf("%s: %v, gradient %v (%v); want %v, %v", c.loss, got, grad, err, c.want, c.grad)
		}
	}
}

func TestCalibrate(t *testing.T) {
	log3 := math.Log(3) // a probability of 3/4
	c, err := Calibrate([]float64{log3, log3, log3, 0, 2}, []float64{0, 0, 0, log3, 2})
	expect.OK(t, err)
	// Four pairs at 3/4, of which the model is right about three, and one without a preference.
	if math.Abs(c.ECE) > 1e-12 || math.Abs(c.Brier-(3./16+9./16+1./4)/5) > 1e-12 {
		t.Errorf("%+v", c)
	}
	if b := c.Bins[2]; b.Pairs != 4 || math.Abs(*b.Predicted-0.75) > 1e-12 || *b.Observed != 0.75 || b.Low != 0.7 || math.Abs(b.High-0.8) > 1e-12 {
		t.Errorf("the bin from 0.7 to 0.8 is %+v", b)
	}
	if b := c.Bins[0]; b.Pairs != 1 || *b.Observed != 0.5 || c.Bins[4].Predicted != nil {
		t.Errorf("bins %+v", c.Bins)
	}
	// A probability of 1 is in the last bin.
	if c, err = Calibrate([]float64{1e3}, []float64{0}); err != nil || c.Bins[4].Pairs != 1 || *c.Bins[4].Predicted != 1 || c.Brier != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Labels drawn with the predicted probabilities are calibrated; twice the scores are overconfident.
func TestCalibrateDrawnLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var chosen, rejected, twice []float64
	for range 20000 {
		d := 2 * r.NormFloat64()
		if r.Float64() > sigmoid(d) {
			d = -d
		}
		chosen, rejected, twice = append(chosen, d), append(rejected, 0), append(twice, 2*d)
	}
	good, err := Calibrate(chosen, rejected)
	expect.OK(t, err)
	bad, err := Calibrate(twice, rejected)
	if err != nil || good.ECE > 0.02 || bad.ECE < 0.05 || bad.Brier < good.Brier {
		t.Errorf("%+v, with twice the scores %+v, %v", good, bad, err)
	}
}
