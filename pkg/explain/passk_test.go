package explain

import (
	"math"
	"testing"

	"grpo/internal/expect"
)

func TestPassK(t *testing.T) {
	r, err := PassK(PassKOptions{N: 4, Correct: 1, K: []int{1, 2, 4}})
	expect.OK(t, err)
	// p = 1/4: c is 0, 1, 2, 3, 4 with the probabilities 81, 108, 54, 12, 1 of 256.
	two := r.K[1]
	same(t, "k = 2: subsets, estimates, means",
		[]float64{two.Wrong, two.Subsets, two.PassAt, two.PlugIn, two.True, two.MeanPassAt, two.MeanPlugIn},
		[]float64{3, 6, 0.5, 7. / 16, 7. / 16, 7. / 16, (108*7. + 54*12 + 12*15 + 16) / 16 / 256})
	for _, k := range r.K {
		if math.Abs(k.PassAtBias) > 1e-12 || k.PlugInBias > 1e-12 || k.PlugInAtHalf > k.PlugInBias+1e-12 {
			t.Errorf("%+v", k)
		}
	}
	textHas(t, textOf(t, r), "2 3 6 0.5000 0.4375", "pass@k is unbiased", "here by up to")
	for _, o := range []PassKOptions{{N: 5, K: []int{1, 5}}, {N: 5, Correct: 5, K: []int{2}}, {N: 1000, Correct: 500, K: []int{500}}} {
		r, err := PassK(o)
		expect.OK(t, err)
		if k := r.K[0]; math.Abs(k.PassAtBias) > 1e-9 {
			t.Errorf("%+v: %+v", o, k)
		}
		textOf(t, r)
	}
}

func TestPassKRefuses(t *testing.T) {
	for _, o := range []PassKOptions{
		{N: 0, K: []int{1}}, {N: 1001, K: []int{1}}, {N: 4, Correct: 5, K: []int{1}}, {N: 4, Correct: -1, K: []int{1}},
		{N: 4}, {N: 4, K: []int{5}}, {N: 4, K: []int{0}},
	} {
		if _, err := PassK(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
