package rl

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCalibrate(t *testing.T) {
	log3 := math.Log(3) // a probability of 3/4
	c, err := Calibrate([]float64{log3, log3, log3, 0, 2}, []float64{0, 0, 0, log3, 2})
	if err != nil {
		t.Fatal(err)
	}
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
	for _, bad := range [][2][]float64{{nil, nil}, {{1}, nil}, {{math.NaN()}, {0}}, {{math.Inf(1)}, {0}}, {{0}, {math.Inf(1)}}} {
		if _, err := Calibrate(bad[0], bad[1]); err == nil {
			t.Errorf("%v is accepted", bad)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	bad, err := Calibrate(twice, rejected)
	if err != nil || good.ECE > 0.02 || bad.ECE < 0.05 || bad.Brier < good.Brier {
		t.Errorf("%+v, with twice the scores %+v, %v", good, bad, err)
	}
}
