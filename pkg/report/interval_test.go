package report

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
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
			Estimate{10, 1.58, 1.2299954, .7001142, 2.4598858, .00283289}},
		// t(3, .975) = 3.182446, sd = √(1/3)·... of 1, 2, 3, 4 is 1.2909944.
		{"four values", []float64{1, 2, 3, 4}, 0, Estimate{4, 2.5, 1.2909944, .4457397, 4.5542603, .0304664}},
		{"two values", []float64{1, 2}, 0, Estimate{2, 1.5, math.Sqrt2 / 2, 1.5 - 12.7062047/2, 1.5 + 12.7062047/2, .2048328}},
		{"one value", []float64{0.3}, 0, Estimate{1, .3, nan, nan, nan, nan}},
		{"none", nil, 0, Estimate{0, nan, nan, nan, nan, nan}},
		{"values that are not there", []float64{nan, 1, 2, math.Inf(1), 3, 4}, 0, Estimate{4, 2.5, 1.2909944, .4457397, 4.5542603, .0304664}},
		{"all 0", []float64{0, 0, 0, 0}, 0, Estimate{4, 0, 0, 0, 0, 1}},
		{"all equal, no unit", []float64{2, 2, 2, 2}, 0, Estimate{4, 2, 0, 2, 2, .125}},
		{"all equal, one unit apart", []float64{1, 1, 1, 1}, 1, Estimate{4, 1, 0, 1 - 3.182446/2, 1 + 3.182446/2, .1393260}},
		{"all equal, many units apart", []float64{1, 1, 1, 1}, 0.001, Estimate{4, 1, 0, 1 - 3.182446/2000, 1 + 3.182446/2000, 1.1e-9}},
		{"less spread than a unit", []float64{10, 10, 10, 11}, 10, Estimate{4, 10.25, .5, 10.25 - 5*3.182446, 10.25 + 5*3.182446, .13276}},
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

// The interval leaves out 0 exactly where p is below 5%, and it moves and turns
// with the values.
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
		turned := make([]float64, len(x))
		for i, v := range x {
			turned[i] = -v
		}
		f := StudentT(turned, resolution)
		if !scalar.EqualWithinAbs(e.Lo, -f.Hi, 1e-12) || !scalar.EqualWithinAbs(e.P, f.P, 1e-12) {
			t.Fatalf("%+v turned is %+v", e, f)
		}
	})
}

func TestFigureStaysInRange(t *testing.T) {
	f := newFigure([]float64{1, 0.99, 0.9, 1}, 0, 0, 1)
	if f.Hi != 1 || f.Lo >= f.Mean || f.N != 4 {
		t.Errorf("%+v", f)
	}
	if f := newFigure([]float64{math.NaN()}, 0, 0, 1); f.N != 0 || !math.IsNaN(f.Mean) || !math.IsNaN(f.Lo) {
		t.Errorf("of nothing: %+v", f)
	}
}

// bruteBand is the band by listing all n^n resamples.
func bruteBand(x []float64) (lo, hi float64) {
	n := len(x)
	total := int(math.Pow(float64(n), float64(n)))
	means := make([]float64, total)
	for k := range total {
		sum := 0.0
		for rest, i := k, 0; i < n; i++ {
			sum += x[rest%n]
			rest /= n
		}
		means[k] = sum / float64(n)
	}
	slices.Sort(means)
	at := int(math.Ceil(0.025*float64(total))) - 1
	return means[at], means[total-1-at]
}

func TestBootstrapBand(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name string
		x    []float64
	}{
		{"two", []float64{0.2, 0.7}},
		{"four", []float64{0.947, 0.927, 0.918, 0.939}},
		{"four with ties", []float64{0.5, 0.5, 0.25, 0.75}},
		{"five, skewed", []float64{0, 0, 0, 0.1, 0.9}},
		{"six", []float64{3, 1, 4, 1.5, 9, 2.6}},
		{"all equal", []float64{0.3, 0.3, 0.3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := bootstrapBand(tt.x)
			wantLo, wantHi := bruteBand(tt.x)
			if !scalar.EqualWithinAbs(lo, wantLo, 1e-12) || !scalar.EqualWithinAbs(hi, wantHi, 1e-12) {
				t.Errorf("[%v, %v], by listing [%v, %v]", lo, hi, wantLo, wantHi)
			}
		})
	}
	for _, x := range [][]float64{nil, {0.4}, {nan, 0.4}} {
		if lo, hi := bootstrapBand(x); !math.IsNaN(lo) || !math.IsNaN(hi) {
			t.Errorf("of %v: [%v, %v]", x, lo, hi)
		}
	}
}

// With many values the drawn band is near mean ± 1.96·sd/√n.
func TestBootstrapBandDrawn(t *testing.T) {
	r := aaRand(77, 0)
	x := make([]float64, 40)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	mean, sd, n := MeanSD(x)
	lo, hi := bootstrapBand(x)
	half := 1.96 * sd / math.Sqrt(float64(n))
	if !scalar.EqualWithinAbs(lo, mean-half, 0.1*half) || !scalar.EqualWithinAbs(hi, mean+half, 0.1*half) {
		t.Errorf("[%v, %v] around %v, want about ±%v", lo, hi, mean, half)
	}
}

func TestBootstrapBandLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 10).Draw(t, "x")
		lo, hi := bootstrapBand(x)
		if lo > hi || lo < slices.Min(x)-1e-12 || hi > slices.Max(x)+1e-12 {
			t.Fatalf("[%v, %v] of %v", lo, hi, x)
		}
		y := rapid.Permutation(x).Draw(t, "y")
		if l, h := bootstrapBand(y); l != lo || h != hi {
			t.Fatalf("in another order [%v, %v], was [%v, %v]", l, h, lo, hi)
		}
		for i := range y {
			y[i] = -x[i]
		}
		if l, h := bootstrapBand(y); len(x) <= bootExact && (!scalar.EqualWithinAbs(l, -hi, 1e-12) || !scalar.EqualWithinAbs(h, -lo, 1e-12)) {
			t.Fatalf("turned [%v, %v], was [%v, %v]", l, h, lo, hi)
		}
	})
}

func TestResampleWeights(t *testing.T) {
	for _, n := range []int{2, 4, 8, 9, 12} {
		r, sum := resamplesOf(n), 0.0
		for k, w := range r.weights {
			sum += w
			rows := 0
			for _, c := range r.counts[k*n : (k+1)*n] {
				rows += int(c)
			}
			if rows != n {
				t.Fatalf("n = %d: sample %d has %d values", n, k, rows)
			}
		}
		if !scalar.EqualWithinAbs(sum, 1, 1e-12) {
			t.Errorf("n = %d: the weights add up to %v", n, sum)
		}
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
				if !same(got[i], tt.want[i]) {
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

// The sizes are those of R's power.t.test(power = .8, type = "paired").
func TestSeedsForPower(t *testing.T) {
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
		{"not a number", math.NaN(), .05, 0},
		{"enormous", 1000, .05, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := SeedsForPower(tt.effect, tt.alpha, 0.8); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// The power that is computed is the share of simulated sweeps that find the
// difference.
func TestPowerAgainstSimulation(t *testing.T) {
	const simulations = 4000
	for _, tt := range []struct {
		n      int
		effect float64
	}{{4, 1}, {4, 2}, {8, 1}} {
		found := 0
		for i := range simulations {
			r := aaRand(200+tt.n, i)
			d := make([]float64, tt.n)
			for k := range d {
				d[k] = tt.effect + r.NormFloat64()
			}
			found += count(StudentT(d, 0).P <= Alpha)
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
