package kernel

import (
	"math"
	"math/rand"
	"testing"

	"pgregory.net/rapid"
)

// cellCase is a GRU cell with all its arrays in guarded memory.
type cellCase struct {
	rows, hidden        int
	gi, gh, bih, bhh, h *guarded
	out, save, dout     *guarded
	dgh, dh             *guarded
	gates               []float32 // saved before the backward pass
	biases              bool
}

func newCellCase(r *rand.Rand, rows, hidden int, biases bool, scale float32) *cellCase {
	c := &cellCase{rows: rows, hidden: hidden, biases: biases}
	in := func(n int) *guarded { return vector(n, r.Intn(9), uniform(r, scale)) }
	out := func(n int) *guarded { return vector(n, r.Intn(9), nil) }
	c.gi, c.gh, c.bih, c.bhh, c.h, c.dout = in(rows*3*hidden), in(rows*3*hidden), in(3*hidden), in(3*hidden), in(rows*hidden), in(rows*hidden)
	c.out, c.save, c.dgh, c.dh = out(rows*hidden), out(rows*4*hidden), out(rows*3*hidden), out(rows*hidden)
	return c
}

func (c *cellCase) forward(save bool) {
	var bih, bhh, s []float32
	if c.biases {
		bih, bhh = c.bih.x, c.bhh.x
	}
	if save {
		s = c.save.x
	}
	GRUForward(c.rows, c.hidden, c.gi.x, c.gh.x, bih, bhh, c.h.x, c.out.x, s)
}

func (c *cellCase) backward() {
	c.gates = append(c.gates[:0], c.save.x...)
	GRUBackward(c.rows, c.hidden, c.dout.x, c.h.x, c.save.x, c.dgh.x, c.dh.x)
}

// dgi are the gradients written over the gates.
func (c *cellCase) dgi() []float32 {
	var x []float32
	for i := range c.rows {
		x = append(x, c.save.x[i*4*c.hidden:][:3*c.hidden]...)
	}
	return x
}

func (c *cellCase) check(t testing.TB) {
	t.Helper()
	for name, g := range map[string]*guarded{"gi": c.gi, "gh": c.gh, "bih": c.bih, "bhh": c.bhh, "h": c.h, "out": c.out, "save": c.save, "dout": c.dout, "dgh": c.dgh, "dh": c.dh} {
		g.check(t, name)
	}
}

// compare compares both passes with the float64 reference.
func (c *cellCase) compare(t testing.TB) {
	t.Helper()
	c.forward(true)
	c.backward()
	c.check(t)
	var bih, bhh []float64
	if c.biases {
		bih, bhh = wide64(c.bih.x), wide64(c.bhh.x)
	}
	n := c.rows * c.hidden
	out, save := make([]float64, n), make([]float64, 4*n)
	ReferenceGRUForward(c.rows, c.hidden, wide64(c.gi.x), wide64(c.gh.x), bih, bhh, wide64(c.h.x), out, save)
	// Sums of a few numbers of size 2 are rounded before the curves see them.
	near(t, "save", c.gates, save, 2e-6, 2e-6)
	near(t, "out", c.out.x, out, 2e-6, 2e-6)
	// The gradient from the saved gates as they are, not as they should be.
	dgi, dgh, dh := make([]float64, 3*n), make([]float64, 3*n), make([]float64, n)
	ReferenceGRUBackward(c.rows, c.hidden, wide64(c.dout.x), wide64(c.h.x), wide64(c.gates), dgi, dgh, dh)
	near(t, "dgi", c.dgi(), dgi, 1e-6, 1e-6)
	near(t, "dgh", c.dgh.x, dgh, 1e-6, 1e-6)
	near(t, "dh", c.dh.x, dh, 1e-6, 0)
	for i := range c.rows {
		from := (i*4 + 3) * c.hidden
		sameBits(t, "da_n·r next to dgi", c.save.x[from:from+c.hidden], c.dgh.x[(i*3+2)*c.hidden:][:c.hidden])
	}
}

func TestGRU(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		for hidden := 1; hidden <= 50; hidden++ {
			newCellCase(r, 1+r.Intn(5), hidden, hidden%3 > 0, 2).compare(t)
		}
		newCellCase(r, 33, 64, true, 1).compare(t)
		newCellCase(r, 9, 128, false, 1).compare(t)
	})
}

// TestGRUColumnPosition: a column has the same bits at any position, whether the gates are saved or not.
func TestGRUColumnPosition(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
			rows, hidden := rapid.IntRange(1, 4).Draw(rt, "rows"), rapid.IntRange(1, 40).Draw(rt, "hidden")
			c := newCellCase(r, rows, hidden, true, 4)
			c.forward(true)
			c.backward()
			i, j := r.Intn(rows), r.Intn(hidden)
			one := newCellCase(r, 1, 1, true, 1)
			for g := range 3 {
				one.gi.x[g], one.gh.x[g] = c.gi.x[(i*3+g)*hidden+j], c.gh.x[(i*3+g)*hidden+j]
				one.bih.x[g], one.bhh.x[g] = c.bih.x[g*hidden+j], c.bhh.x[g*hidden+j]
			}
			one.h.x[0], one.dout.x[0] = c.h.x[i*hidden+j], c.dout.x[i*hidden+j]
			one.forward(true)
			one.backward()
			at := i*hidden + j
			sameBits(t, "out", one.out.x, c.out.x[at:at+1])
			sameBits(t, "dh", one.dh.x, c.dh.x[at:at+1])
			for g := range 3 {
				at := (i*3+g)*hidden + j
				sameBits(t, "dgi", one.dgi()[g:g+1], c.dgi()[at:at+1])
				sameBits(t, "dgh", one.dgh.x[g:g+1], c.dgh.x[at:at+1])
			}
			saved := append([]float32(nil), c.out.x...)
			c.forward(false)
			sameBits(t, "out without save", c.out.x, saved)
		})
	})
}

func TestGRUInPlace(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(2))
		c := newCellCase(r, 5, 27, true, 2)
		c.forward(true)
		c.backward()
		h := append([]float32(nil), c.h.x...)
		GRUForward(5, 27, c.gi.x, c.gh.x, c.bih.x, c.bhh.x, h, h, nil)
		sameBits(t, "out over h", h, c.out.x)
		dout := append([]float32(nil), c.dout.x...)
		GRUBackward(5, 27, dout, c.h.x, c.gates, c.dgh.x, dout)
		sameBits(t, "dh over dout", dout, c.dh.x)
	})
}

func TestGRUNonFinite(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(3))
		for _, x := range []float32{float32(math.NaN()), inf32, -inf32} {
			for hidden := 1; hidden <= 20; hidden++ {
				for gate := range 3 {
					c := newCellCase(r, 2, hidden, true, 1)
					c.gi.x[(3+gate)*hidden+hidden/2] = x // row 1
					c.forward(true)
					c.check(t)
					for i, v := range c.out.x {
						wantNaN := x != x && i == hidden+hidden/2
						if (v != v) != wantNaN || math.IsInf(float64(v), 0) {
							t.Fatalf("gate %d of %d is %v: out[%d] = %v", gate, hidden, x, i, v)
						}
					}
				}
			}
		}
	})
}

// TestReferenceGRUGradient compares the reference gradient with finite differences of the reference
// cell.
func TestReferenceGRUGradient(t *testing.T) {
	const rows, hidden, eps = 2, 3, 1e-6
	r := rand.New(rand.NewSource(4))
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	gi, gh, h, dout := random(rows*3*hidden), random(rows*3*hidden), random(rows*hidden), random(rows*hidden)
	loss := func() float64 {
		out := make([]float64, rows*hidden)
		ReferenceGRUForward(rows, hidden, gi, gh, nil, nil, h, out, nil)
		sum := 0.0
		for i, v := range out {
			sum += v * dout[i]
		}
		return sum
	}
	save := make([]float64, rows*4*hidden)
	ReferenceGRUForward(rows, hidden, gi, gh, nil, nil, h, make([]float64, rows*hidden), save)
	dgi, dgh, dh := make([]float64, len(gi)), make([]float64, len(gh)), make([]float64, len(h))
	ReferenceGRUBackward(rows, hidden, dout, h, save, dgi, dgh, dh)
	for name, c := range map[string][2][]float64{"gi": {gi, dgi}, "gh": {gh, dgh}, "h": {h, dh}} {
		for i := range c[0] {
			x := c[0][i]
			c[0][i] = x + eps
			up := loss()
			c[0][i] = x - eps
			down := loss()
			c[0][i] = x
			if want := (up - down) / (2 * eps); math.Abs(want-c[1][i]) > 1e-8 {
				t.Errorf("d%s[%d] = %v, finite difference %v", name, i, c[1][i], want)
			}
		}
	}
}

func FuzzGRU(f *testing.F) {
	f.Add(uint8(2), uint8(17), int64(1), float32(1))
	f.Add(uint8(1), uint8(64), int64(2), float32(30))
	f.Fuzz(func(t *testing.T, rows, hidden uint8, seed int64, scale float32) {
		if !(math.Abs(float64(scale)) < 1e4) {
			t.Skip()
		}
		r := rand.New(rand.NewSource(seed))
		c := newCellCase(r, 1+int(rows%6), 1+int(hidden%70), seed%2 == 0, scale)
		c.forward(true)
		c.backward()
		c.check(t)
		for i, v := range append(append([]float32(nil), c.out.x...), c.dh.x...) {
			if v != v {
				t.Fatalf("finite inputs gave NaN at %d", i)
			}
		}
	})
}
