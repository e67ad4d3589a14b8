package stats

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"
)

// near compares with reference values that have six digits (scipy 1.17.1).
func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || !scalar.EqualWithinAbs(got[i], want[i], 1e-5) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

func shares(of float64, counts ...float64) []float64 {
	out := slices.Clone(counts)
	for i := range out {
		out[i] /= of
	}
	return out
}

// All pairs of four learning rates, right answers of 128 problems with four seeds.
func TestOrderedGolden(t *testing.T) {
	arms := [][]float64{
		shares(128, 114, 108, 110, 117), shares(128, 103, 111, 116, 109),
		shares(128, 100, 73, 98, 94), shares(128, 15, 32, 47, 81),
	}
	var p, q []float64
	for i := range arms {
		for j := range i {
			d := Differences(arms[j], arms[i])
			p, q = append(p, StudentT(d, 1./128).P), append(q, MeanSquare(d))
		}
	}
	// In the order (1,2) (1,3) (2,3) (1,4) (2,4) (3,4).
	near(t, "p", p, []float64{.587959, .027925, .084149, .013733, .015545, .049491})
	near(t, "q", q, []float64{.003510, .031952, .030548, .318024, .298004, .178162})
	near(t, "weight 1/2", Ordered(p, q, .5), []float64{.587959, .079185, .112199, .023542, .025909, .079185})
	near(t, "weight 0", Ordered(p, q, 0), []float64{.587959, .111701, .168299, .082398, .082398, .148472})
	near(t, "weight 1", Ordered(p, q, 1), []float64{.587959, .049491, .084149, .013733, .015545, .049491})
}

// Two arms against a reference; a third arm was stopped.
func TestOrderedWithReferenceGolden(t *testing.T) {
	reference := shares(1024, 881, 909, 903, 910)
	p, q := []float64{}, []float64{}
	for _, arm := range [][]float64{shares(1024, 929, 939, 890, 865), shares(1024, 99, 499, 584, 55)} {
		d := Differences(arm, reference)
		p, q = append(p, StudentT(d, 1./1024).P), append(q, MeanSquare(d))
	}
	near(t, "p", p, []float64{.827239, .021235})
	near(t, "with both", Ordered(p, q, .5), []float64{.827239, .028314})
	near(t, "with a stopped arm", Ordered(append(p, 1), append(q, -1), .5), []float64{1, .031853, 1})
}

func TestBoundGolden(t *testing.T) {
	d := Differences(shares(1024, 956, 954, 942, 966), shares(1024, 970, 949, 940, 962))
	e := StudentT(d, 1./1024)
	near(t, "mean, sd, p, bound", []float64{e.Mean, e.SD, e.P, e.Bound(.05)}, []float64{-.00073242, .00871186, .877167, .01098351})
	near(t, "TOST", []float64{e.TOST(.02), e.TOST(.01)}, []float64{.0107289, .0616469})
	for _, tt := range []struct {
		margin, alpha float64
		want          int
	}{{.02, .05, 4}, {.02, .025, 5}, {.01, .05, 9}} {
		if got := PairsForPower(tt.margin/e.SD, tt.alpha, .8); got != tt.want {
			t.Errorf("%v at %v: %d seeds, want %d", tt.margin, tt.alpha, got, tt.want)
		}
	}
}

func TestCollapseGolden(t *testing.T) {
	for _, tt := range []struct {
		x, n, y, m int
		p, fisher  float64
	}{
		{0, 4, 4, 4, .0078125, .0285714}, {0, 4, 3, 4, .0703125, .142857},
		{1, 8, 6, 8, .0212708, .0405594}, {0, 8, 4, 8, .0278938, .0769231},
		{0, 4, 1, 4, 1, 1}, {4, 4, 4, 4, 1, 1},
	} {
		p, fisher := Collapse(tt.x, tt.n, tt.y, tt.m)
		near(t, "collapse", []float64{p, fisher}, []float64{tt.p, tt.fisher})
	}
	for n, want := range map[int]float64{4: .527129, 8: .312344, 16: .170750} {
		lo, hi := ClopperPearson(0, n, .05)
		near(t, "0 of n", []float64{lo, hi}, []float64{0, want})
	}
	lo, hi := ClopperPearson(1, 4, .05)
	near(t, "1 of 4", []float64{lo, hi}, []float64{.006309, .805880})
	lo, hi = ClopperPearson(4, 4, .05)
	near(t, "4 of 4", []float64{lo, hi}, []float64{1 - .527129, 1})
}

func TestCrossedVarianceGolden(t *testing.T) {
	rows := func(text string) (out [][]float64) {
		for _, row := range strings.Fields(text) {
			out = append(out, nil)
			for _, bit := range row {
				out[len(out)-1] = append(out[len(out)-1], float64(bit-'0'))
			}
		}
		return out
	}
	a := rows("101111011110 011111111110 101111111110 101011001110")
	b := rows("000010000100 000010001100 000101010110 000101011110")
	c := CrossedVariance(a, b, 1./12)
	near(t, "mean, A, B, R, V", []float64{c.Mean, c.A, c.B, c.R, c.V}, []float64{.4166667, .01388889, .006944444, .006313131, .0145202})
	var d []float64
	for s := range a {
		d = append(d, (sum(a[s])-sum(b[s]))/12)
	}
	e := StudentT(d, 1./12)
	near(t, "p", []float64{e.P, e.With(c.SE()).P}, []float64{.03848644, .04070456})
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// orderedBySteps is the definition of the test at one level: separate whatever is at or below its
// share, until nothing is.
func orderedBySteps(p, q []float64, weight, alpha float64) []bool {
	out := make([]bool, len(p))
	for again := true; again; {
		again = false
		first, rest := -1, 0
		for i := range p {
			if out[i] {
				continue
			}
			if rest++; first < 0 || q[i] > q[first] {
				first = i
			}
		}
		was := slices.Clone(out)
		for i := range p {
			c := (1 - weight) / float64(rest)
			if i == first {
				c += weight
			}
			if !was[i] && p[i] <= alpha*c {
				out[i], again = true, true
			}
		}
	}
	return out
}

func TestOrderedIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		p := rapid.SliceOfN(rapid.Float64Range(1e-9, 1), n, n).Draw(t, "p")
		for i := range p {
			p[i] = math.Pow(p[i], rapid.Float64Range(1, 6).Draw(t, "power")) // small ones matter
		}
		q := rapid.SliceOfN(rapid.Float64Range(0, 1), n, n).Draw(t, "q")
		weight := rapid.SampledFrom([]float64{0, .25, .5, 1}).Draw(t, "weight")
		adjusted := Ordered(p, q, weight)
		for _, alpha := range []float64{.001, .01, .05, .2, .7} {
			for i, separate := range orderedBySteps(p, q, weight, alpha) {
				if math.Abs(adjusted[i]-alpha) > 1e-9 && separate != (adjusted[i] <= alpha) {
					t.Fatalf("level %v: p %v, q %v, weight %v: adjusted %v, comparison %d separate: %v", alpha, p, q, weight, adjusted, i, separate)
				}
			}
		}
		// What has no value does not count.
		p, q = slices.Insert(p, 0, math.NaN()), slices.Insert(q, 0, math.NaN())
		if with := Ordered(p, q, weight); !math.IsNaN(with[0]) || !slices.Equal(with[1:], adjusted) {
			t.Fatalf("with a NaN %v, without %v", with, adjusted)
		}
	})
}

// The bound is the margin at which the equivalence test is at its level.
func TestBoundInvertsTOST(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 9).Draw(t, "x")
		alpha := rapid.Float64Range(.001, .4).Draw(t, "alpha")
		e := StudentT(x, 1./64)
		if p := e.TOST(e.Bound(alpha)); !scalar.EqualWithinAbs(p, alpha, 1e-6) {
			t.Fatalf("p %v at the bound of level %v", p, alpha)
		}
	})
}

// Three arms over two looks: the one that is far below is beaten at the first, and its pairs count
// with p = 1 at the second.
func TestSequential(t *testing.T) {
	arms := [][]float64{
		{.90, .91, .89, .92, .93, .92, .91, .94}, {.88, .90, .90, .90, .90, .91, .88, .91}, {.11, .12, .10, .14},
	}
	pairs := [][2]int{{0, 1}, {0, 2}, {1, 2}}
	looks := []Look{{Seeds: 4, Level: .025}, {Seeds: 8, Level: .025}}
	got := Sequential(arms, pairs, true, looks, OrderedWeight, .001)
	at := func(n int) (p, q []float64) {
		for _, pair := range pairs {
			d := Differences(arms[pair[0]][:min(n, len(arms[pair[0]]))], arms[pair[1]][:min(n, len(arms[pair[1]]))])
			p, q = append(p, StudentT(d, .001).P), append(q, MeanSquare(d))
		}
		return p, q
	}
	p4, q4 := at(4)
	p8, q8 := at(8)
	first := Ordered(p4, q4, OrderedWeight)
	second := Ordered([]float64{p8[0], 1, 1}, []float64{q8[0], -1, -1}, OrderedWeight)
	near(t, "p", got, []float64{min(1, 2*min(first[0], second[0])), 2 * first[1], 2 * first[2]})
	// A reference that is beaten stays, because another arm is compared with it.
	reference := []float64{.11, .12, .10, .14, .12, .12, .13, .11}
	tied := []float64{.10, .12, .1, .14, .11, .12, .12, .11}
	got = Sequential([][]float64{reference, arms[0], tied}, [][2]int{{1, 0}, {2, 0}}, false, looks, OrderedWeight, .001)
	if got[0] > .05 || got[1] <= .05 || got[1] == 1 {
		t.Errorf("with a reference: %v", got)
	}
}

func TestPlannedLevels(t *testing.T) {
	for _, tt := range []struct {
		from, to int
		want     []Look
	}{
		{4, 16, []Look{{4, .025}, {8, .0125}, {16, .0125}}},
		{4, 8, []Look{{4, .025}, {8, .025}}},
		{4, 6, []Look{{4, .025}, {6, .025}}},
		{4, 64, []Look{{4, .025}, {8, .0125}, {16, .00625}, {32, .003125}, {64, .003125}}},
		{3, 3, []Look{{3, .05}}},
	} {
		got := PlannedLooks(tt.from, tt.to)
		sum := 0.0
		for i, l := range got {
			sum += l.Level
			if i < len(tt.want) && (l.Seeds != tt.want[i].Seeds || !scalar.EqualWithinAbs(l.Level, tt.want[i].Level, 1e-12)) {
				t.Errorf("%d..%d: %v, want %v", tt.from, tt.to, got, tt.want)
			}
		}
		if len(got) != len(tt.want) || !scalar.EqualWithinAbs(sum, Alpha, 1e-12) {
			t.Errorf("%d..%d: %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// Two keys with two values each, right answers of 1024 problems with four seeds.
func TestContrastsGolden(t *testing.T) {
	x := Contrasts(shares(1024, 912, 924, 902, 927), shares(1024, 972, 962, 968, 963),
		shares(1024, 970, 949, 940, 962), shares(1024, 956, 954, 942, 966))
	var means, p, q []float64
	for _, d := range x {
		e := StudentT(d, 1./1024)
		means, p, q = append(means, e.Mean), append(p, e.P), append(q, MeanSquare(d))
	}
	near(t, "means", means, []float64{.01330566, .02404785, -.02478027})
	near(t, "p", p, []float64{.0356211, .0044967, .0179322})
	near(t, "adjusted", Ordered(p, q, OrderedWeight), []float64{.0356211, .0268983, .0268983})
}

func TestPowerOfEffects(t *testing.T) {
	for n := 2; n < 40; n += 3 {
		e := EffectForPower(n, .05, .8)
		if got := PairsForPower(e*1.0001, .05, .8); got != n {
			t.Errorf("%d pairs detect %v, which needs %d", n, e, got)
		}
	}
	if b := SDBound(4, .8); !scalar.EqualWithinAbs(b, 1.73, .005) {
		t.Errorf("bound of the standard deviation %v", b)
	}
}
