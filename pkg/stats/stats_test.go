package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"grpo/internal/statstest"
)

// The intervals of Newcombe, Two-sided confidence intervals for the single
// proportion, Statistics in Medicine 17 (1998), table I, method 3.
func TestWilsonAgainstNewcombe(t *testing.T) {
	for _, tt := range []struct {
		name   string
		k, n   int
		lo, hi float64
	}{
		{"81 of 263", 81, 263, 0.2553, 0.3662},
		{"15 of 148", 15, 148, 0.0624, 0.1605},
		{"none of 20", 0, 20, 0, 0.1611},
		{"1 of 29", 1, 29, 0.0061, 0.1718},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := Wilson(float64(tt.k), tt.n, 0.95)
			if !scalar.EqualWithinAbs(lo, tt.lo, 5e-5) || !scalar.EqualWithinAbs(hi, tt.hi, 5e-5) {
				t.Errorf("[%.4f, %.4f], want [%.4f, %.4f]", lo, hi, tt.lo, tt.hi)
			}
		})
	}
	if lo, hi := Wilson(0, 0, 0.95); !math.IsNaN(lo) || !math.IsNaN(hi) {
		t.Errorf("of nothing: [%v, %v]", lo, hi)
	}
}

func TestWilsonPanics(t *testing.T) {
	for _, c := range []struct {
		k, n  int
		level float64
	}{{-1, 3, 0.95}, {4, 3, 0.95}, {0, -1, 0.95}, {1, 3, 0}, {1, 3, 1}, {1, 3, math.NaN()}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d of %d at level %v: no panic", c.k, c.n, c.level)
				}
			}()
			Wilson(float64(c.k), c.n, c.level)
		}()
	}
}

func TestWilsonLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 100000).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		level := rapid.Float64Range(0.5, 0.999).Draw(t, "level")
		lo, hi := Wilson(float64(k), n, level)
		p := float64(k) / float64(n)
		if lo < 0 || hi > 1 || lo > p+1e-12 || hi < p-1e-12 {
			t.Fatalf("[%v, %v] does not contain %v inside [0, 1]", lo, hi, p)
		}
		// Swapping right and wrong mirrors the interval.
		mlo, mhi := Wilson(float64(n-k), n, level)
		if !scalar.EqualWithinAbs(lo, 1-mhi, 1e-12) || !scalar.EqualWithinAbs(hi, 1-mlo, 1e-12) {
			t.Fatalf("[%v, %v] mirrored is [%v, %v]", lo, hi, mlo, mhi)
		}
	})
}

// Near the ends, where a base model and a trained one are, the interval must
// still contain the true value about as often as its level.
func TestWilsonCoverage(t *testing.T) {
	const n = 1024
	for _, p := range []float64{0.02, 0.13, 0.5, 0.9, 0.988} {
		binomial := distuv.Binomial{N: n, P: p}
		covered := 0.0
		for k := range n + 1 {
			if lo, hi := Wilson(float64(k), n, 0.95); lo <= p && p <= hi {
				covered += binomial.Prob(float64(k))
			}
		}
		if covered < 0.935 || covered > 0.965 {
			t.Errorf("p = %v: contains the true value with probability %.4f", p, covered)
		}
	}
}

func TestMeanSD(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name     string
		x        []float64
		mean, sd float64
		n        int
	}{
		{"sample, not population", []float64{1, 0, 0.5}, 0.5, 0.5, 3},
		{"one", []float64{0.9}, 0.9, nan, 1},
		{"none", nil, nan, nan, 0},
		{"a run without the figure", []float64{1, nan, 3, math.Inf(1)}, 2, math.Sqrt2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mean, sd, n := MeanSD(tt.x)
			if !statstest.Same(mean, tt.mean) || !statstest.Same(sd, tt.sd) || n != tt.n {
				t.Errorf("%v, %v, %d, want %v, %v, %d", mean, sd, n, tt.mean, tt.sd, tt.n)
			}
		})
	}
}

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
