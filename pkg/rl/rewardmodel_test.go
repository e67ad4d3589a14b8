package rl

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawRewardPairs(rt *rapid.T) RewardPairs {
	n := rapid.IntRange(1, 5).Draw(rt, "pairs")
	list := func(name string, lo, hi float64) []float64 {
		return rapid.SliceOfN(rapid.Float64Range(lo, hi), n, n).Draw(rt, name)
	}
	b := RewardPairs{Chosen: list("chosen", -4, 4), Rejected: list("rejected", -4, 4), Centering: rapid.SampledFrom([]float64{0, 0.3}).Draw(rt, "centering")}
	if rapid.Bool().Draw(rt, "margin") {
		b.Margins = list("margins", 0, 2)
	}
	return b
}

func mustBradleyTerry(rt interface{ Fatal(...any) }, b RewardPairs) RewardLoss {
	r, err := BradleyTerry(b)
	if err != nil {
		rt.Fatal(err)
	}
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

func TestBradleyTerryErrors(t *testing.T) {
	two := []float64{1, 2}
	for _, c := range []struct {
		want string
		b    RewardPairs
	}{
		{"no pairs", RewardPairs{}},
		{"2 scores of chosen and 1 of rejected", RewardPairs{Chosen: two, Rejected: two[:1]}},
		{"1 margins for 2 pairs", RewardPairs{Chosen: two, Rejected: two, Margins: two[:1]}},
		{"centering coefficient is -1", RewardPairs{Chosen: two, Rejected: two, Centering: -1}},
		{"centering coefficient is NaN", RewardPairs{Chosen: two, Rejected: two, Centering: nan}},
		{"a total of 1 pairs does not cover", RewardPairs{Chosen: two, Rejected: two, Total: 1}},
	} {
		if _, err := BradleyTerry(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
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
	for _, c := range []struct {
		want    string
		loss    SupervisedLoss
		weights []float64
		grad    []float64
	}{
		{`unknown loss_type "ce" (known: dft, nll)`, "ce", weights, make([]float64, 4)},
		{"4 log-probabilities, 1 weights", NLL, weights[:1], make([]float64, 4)},
		{"2 places for the gradient", NLL, weights, make([]float64, 2)},
		{"the weights sum to 0", NLL, make([]float64, 4), make([]float64, 4)},
	} {
		if _, err := Supervised(c.loss, logProbs, c.weights, 0, c.grad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}
