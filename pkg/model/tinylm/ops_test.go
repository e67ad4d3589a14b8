package tinylm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/internal/expect"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// opCase is one op under test. floats are its float inputs; NaN entries must not be read.
type opCase struct {
	name   string
	floats [][]float64
	shapes [][]int
	build  func(b *builder, in []*G.Node, index func(name string, v []int) *G.Node) *G.Node
	ref    func(in [][]float64) []float64
}

func opCases(r *rand.Rand) []opCase {
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(float32(r.NormFloat64() * 0.5))
		}
		return x
	}
	withPoison := func(used, total int) []float64 { return append(normal(used), nans(total-used)...) }
	const h, v = 5, 7
	active := []int{4, 3, 3, 1, 0, 0} // four sequences of 3, 2, 2 and 0 steps, room for five
	n0, rows, _ := sizes(active)
	inCap, rowCap := rows+3, n0+2
	prompt := []int{3, 3, 2, 0}
	pn0, prows, _ := sizes(prompt)
	start := []int{7, 3, 3, 5, 0, 0}
	targets := make([]int, rowCap+inCap)
	ids := make([]int, inCap)
	for i := range targets {
		targets[i] = r.IntN(v)
	}
	for i := range ids {
		ids[i] = r.IntN(v)
	}
	var cases []opCase
	cases = append(cases, opCase{
		name: "table", floats: [][]float64{normal(v * h), normal(3 * h * h)}, shapes: [][]int{{v, h}, {3 * h, h}},
		build: func(b *builder, in []*G.Node, _ func(string, []int) *G.Node) *G.Node {
			return b.table("op", in[0], in[1])
		},
		ref: func(in [][]float64) []float64 { return refLinear(in[0], in[1], 0, v, h, 3*h, v) },
	}, opCase{
		name: "lastState", floats: [][]float64{withPoison((pn0+prows)*h, (pn0+prows+2)*h)}, shapes: [][]int{{pn0 + prows + 2, h}},
		build: func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
			return b.lastState("op", in[0], index("start", start), index("prompt", prompt), index("active", active), rowCap)
		},
		ref: func(in [][]float64) []float64 {
			y := nans(rowCap * h)
			for i, at := range start[:n0] {
				copy(y[i*h:], in[0][at*h:(at+1)*h])
			}
			return y
		},
	})
	for _, table := range []bool{false, true} {
		for _, init := range []bool{false, true} {
			cases = append(cases, gruCase(normal, withPoison, table, init, active, ids, h, v, rowCap, inCap))
		}
	}
	for _, temperature := range []float64{1, 0.7} {
		capRows := rowCap + inCap
		cases = append(cases, opCase{
			name:   fmt.Sprintf("head at temperature %v", temperature),
			floats: [][]float64{withPoison((n0+rows)*h, capRows*h), normal(v * h), normal(v)}, shapes: [][]int{{capRows, h}, {v, h}, {v}},
			build: func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
				return b.head(in[0], in[1], in[2], index("targets", targets), index("active", active), temperature)
			},
			ref: func(in [][]float64) []float64 {
				y := nans(2 * capRows)
				for i := range n0 + rows {
					y[i], y[capRows+i] = refHeadRow(in[0][i*h:(i+1)*h], in[1], in[2], targets[i], temperature)
				}
				return y
			},
		})
	}
	capRows := rowCap + inCap
	return append(cases, opCase{
		name: "valueHead", floats: [][]float64{withPoison((n0+rows)*h, capRows*h), normal(h), normal(1)}, shapes: [][]int{{capRows, h}, {1, h}, {1}},
		build: func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
			return b.valueHead(in[0], in[1], in[2], index("active", active))
		},
		ref: func(in [][]float64) []float64 {
			y := nans(capRows)
			for i := range n0 + rows {
				y[i] = refValue(in[0][i*h:(i+1)*h], in[1], in[2][0])
			}
			return y
		},
	})
}

// gruCase is a layer over a table of tokens or over the states of another one,
// with or without first states.
func gruCase(normal func(int) []float64, withPoison func(used, total int) []float64, table, init bool, active, ids []int, h, v, rowCap, inCap int) opCase {
	n0, rows, _ := sizes(active)
	c := opCase{name: fmt.Sprintf("gru over a table %v, with first states %v", table, init)}
	if table {
		c.floats, c.shapes = [][]float64{normal(v * 3 * h)}, [][]int{{v, 3 * h}}
	} else {
		c.floats = [][]float64{withPoison((n0+rows)*h, (rowCap+inCap)*h), normal(3 * h * h)}
		c.shapes = [][]int{{rowCap + inCap, h}, {3 * h, h}}
	}
	own := len(c.floats) // the layer's own weights begin here
	c.floats = append(c.floats, normal(3*h*h), normal(3*h), normal(3*h))
	c.shapes = append(c.shapes, []int{3 * h, h}, []int{3 * h}, []int{3 * h})
	if init {
		c.floats, c.shapes = append(c.floats, withPoison(n0*h, rowCap*h)), append(c.shapes, []int{rowCap, h})
	}
	c.build = func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
		from := source{x: in[0]}
		if table {
			from.ids = index("ids", ids)
		} else {
			from.wih = in[1]
		}
		var h0 *G.Node
		if init {
			h0 = in[own+3]
		}
		return b.gru("op", from, h0, in[own], in[own+1], in[own+2], index("active", active), false, rowCap, inCap)
	}
	c.ref = func(in [][]float64) []float64 {
		var gi, h0 []float64
		if table {
			for _, id := range ids[:rows] {
				gi = append(gi, in[0][id*3*h:(id+1)*3*h]...)
			}
		} else {
			gi = refLinear(in[0], in[1], n0, rows, h, 3*h, inCap)
		}
		if init {
			h0 = in[own+3]
		}
		return refGRU(gi, h0, in[own], in[own+1], in[own+2], active, h, rowCap+inCap)
	}
	return c
}

// Each op equals its reference, and its gradient the central difference of the
// reference, for a random linear functional of the output.
func TestOpsAgainstReferenceAndFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range opCases(r) {
		t.Run(c.name, func(t *testing.T) {
			pool := kernel.NewPool(2)
			defer pool.Close()
			b, nodes, y := c.graph(t, pool)
			want := c.ref(c.floats)
			forward, _, z := c.graph(t, pool)
			run(t, forward)
			for i, w := range want {
				if got := fused.Floats(z.Value())[i]; !math.IsNaN(w) && !near(float64(got), w, 1e-5, 1e-6) {
					t.Fatalf("without a backward pass: output %d = %v, reference %v", i, got, w)
				}
			}
			weight := make([]float64, len(want))
			seed := make([]float32, len(want))
			for i, w := range want {
				weight[i] = r.NormFloat64()
				seed[i] = float32(weight[i])
				if math.IsNaN(w) {
					weight[i], seed[i] = 0, float32(math.NaN())
				}
			}
			// The cost sends seed back as the gradient of y.
			cost := b.Loss("probe", y, b.ops, func(_, d []float32) (float64, error) { copy(d, seed); return 0, nil })
			g, err := b.Compile(cost, nodes)
			expect.OK(t, err)
			defer g.Close()
			for pass := range 2 { // the second pass detects leftovers of the first
				expect.OK(t, g.Run())
				got := fused.Floats(y.Value())
				for i, w := range want {
					if !math.IsNaN(w) && !near(float64(got[i]), w, 1e-5, 1e-6) {
						t.Fatalf("pass %d: output %d = %v, reference %v", pass, i, got[i], w)
					}
				}
				for k, x := range c.floats {
					grad := fused.Floats(g.Grads[k].Value())
					for i, v := range x {
						if math.IsNaN(v) {
							continue
						}
						functional := func(v float64) float64 {
							old := x[i]
							x[i] = v
							defer func() { x[i] = old }()
							var s float64
							for j, out := range c.ref(c.floats) {
								if weight[j] != 0 {
									s += weight[j] * out
								}
							}
							return s
						}
						const eps = 1e-5
						fd := (functional(v+eps) - functional(v-eps)) / (2 * eps)
						if !near(float64(grad[i]), fd, 1e-4, 1e-5) {
							t.Fatalf("pass %d: input %d, gradient %d = %v, finite difference %v", pass, k, i, grad[i], fd)
						}
					}
				}
			}
		})
	}
}

// graph builds the op alone.
func (c *opCase) graph(t *testing.T, pool *kernel.Pool) (b *builder, in []*G.Node, out *G.Node) {
	b = &builder{fused.NewBuilder(), cpu{pool: pool}}
	for i, x := range c.floats {
		in = append(in, b.Input(fmt.Sprint("x", i), tensor.New(tensor.WithShape(c.shapes[i]...), tensor.WithBacking(to32(x)))))
	}
	out = c.build(b, in, func(name string, v []int) *G.Node {
		return b.Input(name, tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v)))
	})
	if b.Err != nil {
		t.Fatal(b.Err)
	}
	return b, in, out
}

func run(t *testing.T, b *builder) {
	t.Helper()
	g, err := b.Compile(nil, nil)
	expect.OK(t, err)
	defer g.Close()
	expect.OK(t, g.Run())
}

func to32(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func near(got, want, rtol, atol float64) bool {
	return math.Abs(got-want) <= atol+rtol*math.Abs(want)
}

// Simple float64 references of the fused ops, on the packed layout. Output entries that no sequence
// uses are NaN: the tests do not compare them, send no gradient there, and poison them.

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

func refLinear(x, w []float64, first, rows, in, out, capRows int) []float64 {
	y := nans(capRows * out)
	kernel.ReferenceGemm(false, true, rows, out, in, x[first*in:], in, w, in, false, y, out)
	return y
}

func refGRU(gi, h0, whh, bih, bhh []float64, active []int, h, capRows int) []float64 {
	out := nans(capRows * h)
	first := out[:active[0]*h]
	clear(first)
	copy(first, h0)
	prev, at, in := 0, active[0], 0
	for _, n := range active[1:] {
		gh := refLinear(out, whh, prev, n, h, 3*h, n)
		kernel.ReferenceGRUForward(n, h, gi[in*3*h:], gh, bih, bhh, out[prev*h:], out[at*h:], nil)
		prev, at, in = at, at+n, in+n
	}
	return out
}

// refHeadRow returns log-probability of the target and entropy.
func refHeadRow(x, w, b []float64, target int, temperature float64) (logp, entropy float64) {
	logits, out := slices.Clone(b), make([]float64, 2)
	kernel.ReferenceGemm(false, true, 1, len(b), len(x), x, len(x), w, len(x), true, logits, len(b))
	kernel.ReferenceLogSoftmaxGather(1, len(b), logits, 1/temperature, []int{target}, out[:1], out[1:], make([]float64, len(b)))
	return out[0], out[1]
}

func refValue(x, w []float64, b float64) float64 {
	for k := range x {
		b += w[k] * x[k]
	}
	return b
}
