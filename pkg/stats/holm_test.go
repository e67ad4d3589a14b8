package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/statstest"
)

func TestHolm(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name    string
		p, want []float64
	}{
		// p.adjust(c(.01, .02, .03, .04), "holm") in R.
		{"in order", []float64{.01, .02, .03, .04}, []float64{.04, .06, .06, .06}},
		{"not in order", []float64{.04, .01, .03, .02}, []float64{.06, .04, .06, .06}},
		{"one", []float64{.03}, []float64{.03}},
		{"not above 1", []float64{.6, .7}, []float64{1, 1}},
		{"without those that can't be compared", []float64{nan, .01, nan, .04}, []float64{nan, .02, nan, .04}},
		{"none", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Holm(tt.p)
			if len(got) != len(tt.want) {
				t.Fatalf("%v, want %v", got, tt.want)
			}
			for i := range got {
				if !statstest.Same(got[i], tt.want[i]) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
		})
	}
}

func TestHolmLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 12).Draw(t, "p")
		got := Holm(p)
		for i := range p {
			if got[i] < p[i] || got[i] > min(1, float64(len(p))*p[i])+1e-15 {
				t.Fatalf("%v became %v of %d", p[i], got[i], len(p))
			}
			for j := range p {
				if p[i] < p[j] && got[i] > got[j] {
					t.Fatalf("the order changed: %v -> %v", p, got)
				}
			}
		}
	})
}
