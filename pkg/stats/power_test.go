package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat/distuv"

	"grpo/internal/statstest"
)

// The sizes are those of R's power.t.test(power = .8, type = "paired").
func TestPairsForPower(t *testing.T) {
	for _, tt := range []struct {
		name   string
		effect float64
		alpha  float64
		want   int
	}{
		{"small", 0.2, .05, 199},
		{"medium", 0.5, .05, 34},
		{"large", 0.8, .05, 15},
		{"one standard deviation", 1, .05, 10},
		{"two standard deviations", 2, .05, 5},
		{"at a stricter level", 1, .01, 16},
		{"too small to count", 0.05, .05, 0},
		{"none", 0, .05, 0},
		{"negative", -1, .05, 0},
		{"not a number", math.NaN(), .05, 0},
		{"enormous", 1000, .05, 2},
		{"infinite", math.Inf(1), .05, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := PairsForPower(tt.effect, tt.alpha, 0.8); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// The computed power is the share of simulated experiments that find the
// difference.
func TestPowerAgainstSimulation(t *testing.T) {
	const simulations = 4000
	for _, tt := range []struct {
		n      int
		effect float64
	}{{4, 1}, {4, 2}, {8, 1}} {
		found := 0
		for i := range simulations {
			r := statstest.Rand(200+tt.n, i)
			d := make([]float64, tt.n)
			for k := range d {
				d[k] = tt.effect + r.NormFloat64()
			}
			if StudentT(d, 0).P <= Alpha {
				found++
			}
		}
		got, want := pairedPower(tt.n, tt.effect, Alpha), float64(found)/simulations
		if !scalar.EqualWithinAbs(got, want, 4*math.Sqrt(want*(1-want)/simulations)) {
			t.Errorf("n = %d, effect %v: power %.4f, simulated %.4f", tt.n, tt.effect, got, want)
		}
	}
}

func TestNoncentralT(t *testing.T) {
	for _, df := range []int{1, 3, 7, 60, 999} {
		for _, x := range []float64{-3, -0.5, 0, 1, 12.7} {
			want := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.CDF(x)
			if got := noncentralT(x, df, 0); !scalar.EqualWithinAbs(got, want, 1e-9) {
				t.Errorf("central, %d df at %v: %v, want %v", df, x, got, want)
			}
		}
		// At 0 only the normal part counts: P(Z < -shift).
		if got, want := noncentralT(0, df, 1.5), distuv.UnitNormal.CDF(-1.5); !scalar.EqualWithinAbs(got, want, 1e-9) {
			t.Errorf("%d df at 0: %v, want %v", df, got, want)
		}
	}
}

// TestPowerOfCounts measures how large a true difference must be to be found in
// four of five experiments with two arms, with the spread over seeds of the
// default experiment and with a larger one.
func TestPowerOfCounts(t *testing.T) {
	const simulations = 1000
	clamp := func(v float64) float64 { return min(1, max(0, v)) }
	for _, sd := range []float64{0.013, 0.04} {
		for _, n := range []int{4, 8} {
			// The distribution of the difference of two runs: the spread over seeds and
			// the chance of 1024 problems.
			at := 0.0
			for effect := 0.005; effect < 0.3; effect += 0.005 {
				found := 0
				for i := range simulations {
					r := statstest.Rand(9, i)
					d := make([]float64, n)
					for k := range d {
						x, y := clamp(0.85+sd*r.NormFloat64()), clamp(0.85-effect+sd*r.NormFloat64())
						d[k] = (distuv.Binomial{N: statstest.Problems, P: x, Src: r}.Rand() - distuv.Binomial{N: statstest.Problems, P: y, Src: r}.Rand()) / statstest.Problems
					}
					if StudentT(d, 1./statstest.Problems).P <= Alpha {
						found++
					}
				}
				if found >= 0.8*simulations {
					at = effect
					break
				}
			}
			t.Logf("spread over seeds %.1f points, n = %d: a difference of %.1f points is found in 80%% of experiments", 100*sd, n, 100*at)
			if at == 0 {
				t.Errorf("spread %v, n = %d: no difference up to 30 points is found", sd, n)
			}
		}
	}
}
