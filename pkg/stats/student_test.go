package stats

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"grpo/internal/statstest"
)

func TestStudentT(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name       string
		x          []float64
		resolution float64
		want       Estimate
	}{
		// Student's own data (1908), the extra sleep of ten patients, paired: t =
		// 4.0621, p = .002833, interval .7001 to 2.4599 (R's t.test of sleep).
		{"sleep", []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}, 0,
			Estimate{N: 10, Mean: 1.58, SD: 1.2299954, Lo: .7001142, Hi: 2.4598858, P: .00283289}},
		// t(3, .975) = 3.182446, sd = √(1/3)·... of 1, 2, 3, 4 is 1.2909944.
		{"four values", []float64{1, 2, 3, 4}, 0, Estimate{N: 4, Mean: 2.5, SD: 1.2909944, Lo: .4457397, Hi: 4.5542603, P: .0304664}},
		{"two values", []float64{1, 2}, 0, Estimate{N: 2, Mean: 1.5, SD: math.Sqrt2 / 2, Lo: 1.5 - 12.7062047/2, Hi: 1.5 + 12.7062047/2, P: .2048328}},
		{"one value", []float64{0.3}, 0, Estimate{N: 1, Mean: .3, SD: nan, Lo: nan, Hi: nan, P: nan}},
		{"none", nil, 0, Estimate{N: 0, Mean: nan, SD: nan, Lo: nan, Hi: nan, P: nan}},
		{"values that do not exist", []float64{nan, 1, 2, math.Inf(1), 3, 4}, 0, Estimate{N: 4, Mean: 2.5, SD: 1.2909944, Lo: .4457397, Hi: 4.5542603, P: .0304664}},
		{"all 0", []float64{0, 0, 0, 0}, 0, Estimate{N: 4, Mean: 0, SD: 0, Lo: 0, Hi: 0, P: 1}},
		{"all equal, no unit", []float64{2, 2, 2, 2}, 0, Estimate{N: 4, Mean: 2, SD: 0, Lo: 2, Hi: 2, P: .125}},
		{"all equal, one unit apart", []float64{1, 1, 1, 1}, 1, Estimate{N: 4, Mean: 1, SD: 0, Lo: 1 - 3.182446/2, Hi: 1 + 3.182446/2, P: .1393260}},
		{"all equal, many units apart", []float64{1, 1, 1, 1}, 0.001, Estimate{N: 4, Mean: 1, SD: 0, Lo: 1 - 3.182446/2000, Hi: 1 + 3.182446/2000, P: 1.1e-9}},
		{"less spread than a unit", []float64{10, 10, 10, 11}, 10, Estimate{N: 4, Mean: 10.25, SD: .5, Lo: 10.25 - 5*3.182446, Hi: 10.25 + 5*3.182446, P: .13276}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := StudentT(tt.x, tt.resolution)
			close := func(a, b, tol float64) bool {
				return math.IsNaN(a) && math.IsNaN(b) || scalar.EqualWithinAbs(a, b, tol)
			}
			if got.N != tt.want.N || !close(got.Mean, tt.want.Mean, 1e-6) || !close(got.SD, tt.want.SD, 1e-6) ||
				!close(got.Lo, tt.want.Lo, 2e-6) || !close(got.Hi, tt.want.Hi, 2e-6) || !close(got.P, tt.want.P, 1e-4) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The interval excludes 0 exactly where p is below 5%, and negated values have the
// negated interval.
func TestStudentTLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 9).Draw(t, "x")
		resolution := rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "resolution")
		e := StudentT(x, resolution)
		if scalar.EqualWithinAbs(e.P, 0.05, 1e-9) || e.SD < 1e-6 {
			t.Skip("rounding decides")
		}
		if (e.Lo > 0 || e.Hi < 0) != (e.P < 0.05) {
			t.Fatalf("[%v, %v] with p = %v", e.Lo, e.Hi, e.P)
		}
		negated := make([]float64, len(x))
		for i, v := range x {
			negated[i] = -v
		}
		f := StudentT(negated, resolution)
		if !scalar.EqualWithinAbs(e.Lo, -f.Hi, 1e-12) || !scalar.EqualWithinAbs(e.P, f.P, 1e-12) {
			t.Fatalf("%+v negated is %+v", e, f)
		}
	})
}

func TestClip(t *testing.T) {
	if e := StudentT([]float64{1, 0.99, 0.9, 1}, 0).Clip(0, 1); e.Hi != 1 || e.Lo >= e.Mean || e.Lo <= 0 || e.N != 4 {
		t.Errorf("%+v", e)
	}
	if e := StudentT([]float64{math.NaN()}, 0).Clip(0, 1); e.N != 0 || !math.IsNaN(e.Mean) || !math.IsNaN(e.Lo) || !math.IsNaN(e.Hi) {
		t.Errorf("of no values: %+v", e)
	}
}

func TestDifferences(t *testing.T) {
	nan := math.NaN()
	got := Differences([]float64{3, nan, math.Inf(1), 1, 9}, []float64{1, 1, 1, math.Inf(1)})
	want := []float64{2, nan, nan, nan}
	if !slices.EqualFunc(got, want, statstest.Same) {
		t.Errorf("%v, want %v", got, want)
	}
}

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
