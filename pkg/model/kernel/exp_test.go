package kernel

import (
	"math"
	"math/rand"
	"testing"
)

// curves are the elementwise functions as every path computes them: exp through Softmax's shift,
// sigmoid and tanh through a GRU cell.
var curves = []struct {
	name  string
	exact func(float64) float64
	at    func(x []float32) []float32
	rel   float64 // tolerance in relative terms; 2⁻²³ is about 1.2e-7
	abs   float64 // below the normal numbers
}{
	{"sigmoid", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(x []float32) []float32 { return cellOf(x, 0) }, 2.2e-7, 0x1p-126},
	{"tanh", math.Tanh, func(x []float32) []float32 { return cellOf(x, 2) }, 2.2e-7, 0x1p-149},
	{"exp", math.Exp, expOf, 1.5e-7, 0x1p-126},
}

// cellOf runs x through a gate of a GRU cell and returns what it saves.
func cellOf(x []float32, gate int) []float32 {
	n := len(x)
	gi, save := make([]float32, 3*n), make([]float32, 4*n)
	copy(gi[gate*n:], x)
	GRUForward(1, n, gi, make([]float32, 3*n), nil, nil, make([]float32, n), make([]float32, n), save)
	return save[gate*n : (gate+1)*n]
}

// expOf returns eˣ for x ≤ 0 as unnormalised softmax with a maximum of 0. For
// x > 0 it returns 1/e⁻ˣ.
func expOf(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		row := []float32{0, -float32(math.Abs(float64(v)))}
		var p [2]float32
		_, sum, _ := softmaxRow(row, 1, p[:])
		out[i] = p[1] * sum
		if v > 0 {
			out[i] = 1 / out[i]
		}
	}
	return out
}

func TestCurves(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	r := rand.New(rand.NewSource(1))
	var x []float32
	for _, scale := range []float32{1e-30, 1e-8, 1e-3, 0.1, 0.5, 1, 5, 20, 85} {
		for range 20000 {
			x = append(x, uniform(r, scale)())
		}
	}
	onEachPath(t, func(t *testing.T) {
		for _, c := range curves {
			got := c.at(x)
			worst, at := 0.0, float32(0)
			for i, v := range x {
				want := c.exact(float64(v))
				tol := c.rel
				if c.name == "exp" {
					tol *= 2 // the division by the sum and back
				}
				off := math.Abs(float64(got[i])-want) - c.abs
				if rel := off / math.Abs(want); rel > worst {
					worst, at = rel, v
				}
				if off > tol*math.Abs(want) {
					t.Fatalf("%s(%v) = %v, want %v", c.name, v, got[i], want)
				}
			}
			t.Logf("%s: largest relative error %.3g, at %v", c.name, worst, at)
		}
	})
}

func TestCurvesAtTheEnds(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negZero := float32(math.Copysign(0, -1))
	onEachPath(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			gate int
			x    float32
			want float32
		}{
			{"sigmoid", 0, 0, 0.5}, {"sigmoid", 0, 40, 1}, {"sigmoid", 0, 3e38, 1}, {"sigmoid", 0, inf, 1},
			{"sigmoid", 0, -120, 0}, {"sigmoid", 0, -3e38, 0}, {"sigmoid", 0, -inf, 0}, {"sigmoid", 0, nan, nan},
			{"tanh", 2, 0, 0}, {"tanh", 2, 10, 1}, {"tanh", 2, -10, -1}, {"tanh", 2, 3e38, 1}, {"tanh", 2, inf, 1},
			{"tanh", 2, -inf, -1}, {"tanh", 2, nan, nan}, {"tanh", 2, 1e-40, 1e-40}, {"tanh", 2, -1e-30, -1e-30},
		} {
			sameBits(t, c.name, cellOf([]float32{c.x}, c.gate), []float32{c.want})
		}
		if active == pathGo {
			sameBits(t, "tanh of -0", []float32{tanh32(negZero)}, []float32{negZero})
		}
	})
}

// TestCurvesMonotone: over neighbouring numbers the functions never decrease by more than their
// last bit, including the seams of the range reduction.
func TestCurvesMonotone(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		for _, gate := range []int{0, 2} {
			var x []float32
			for k := -12; k <= 12; k++ {
				v := float32((float64(k) + 0.5) * math.Ln2 / 2)
				for range 50 {
					v = math.Nextafter32(v, -inf32)
				}
				for range 100 {
					v = math.Nextafter32(v, inf32)
					x = append(x, v)
				}
			}
			y := cellOf(x, gate)
			for i := 1; i < len(x); i++ {
				if x[i] > x[i-1] && y[i] < y[i-1]-2*(math.Nextafter32(y[i], 2)-y[i]) {
					t.Fatalf("gate %d falls from %v to %v between %v and %v", gate, y[i-1], y[i], x[i-1], x[i])
				}
			}
		}
	})
}

var inf32 = float32(math.Inf(1))

func TestLogs(t *testing.T) {
	for x := float32(1e-37); x < 1e37; x *= 1.0007 {
		want := math.Log(float64(x))
		if got := float64(log32(x)); math.Abs(got-want) > 2.5e-7*math.Abs(want)+1e-8 {
			t.Fatalf("log32(%v) = %v, want %v", x, got, want)
		}
		if got := logSum(x); got != float32(want) && math.Abs(float64(got)-want) > 6.1e-8*math.Abs(want) {
			t.Fatalf("logSum(%v) = %v, want %v", x, got, float32(want))
		}
	}
	for _, x := range []float32{float32(math.NaN()), inf32} {
		if got := logSum(x); got == got {
			t.Errorf("logSum(%v) = %v, want NaN", x, got)
		}
	}
}
