package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// The obvious references of the fused ops, in float64, on the packed layout.
// Output places that no sequence uses are NaN: the harness neither compares
// them nor sends a gradient there, but poisons them.

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

func refLinear(x, w []float64, first, rows, in, out, capRows int) []float64 {
	y := nans(capRows * out)
	for i := range rows {
		for o := range out {
			var s float64
			for k := range in {
				s += x[(first+i)*in+k] * w[o*in+k]
			}
			y[i*out+o] = s
		}
	}
	return y
}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// refGRUCell is one step for one sequence.
func refGRUCell(gi, h, whh, bih, bhh []float64) []float64 {
	n := len(h)
	gh := func(row int) float64 {
		s := bhh[row]
		for k := range n {
			s += whh[row*n+k] * h[k]
		}
		return s
	}
	out := make([]float64, n)
	for j := range n {
		r := sigmoid64(gi[j] + bih[j] + gh(j))
		z := sigmoid64(gi[n+j] + bih[n+j] + gh(n+j))
		c := math.Tanh(gi[2*n+j] + bih[2*n+j] + r*gh(2*n+j))
		out[j] = (1-z)*c + z*h[j]
	}
	return out
}

func refGRU(gi, h0, whh, bih, bhh []float64, active []int, h, capRows int) []float64 {
	out := nans(capRows * h)
	for i := range active[0] * h {
		out[i] = 0
		if h0 != nil {
			out[i] = h0[i]
		}
	}
	prev, at, in := 0, active[0], 0
	for _, n := range active[1:] {
		for r := range n {
			copy(out[(at+r)*h:], refGRUCell(gi[(in+r)*3*h:(in+r+1)*3*h], out[(prev+r)*h:(prev+r+1)*h], whh, bih, bhh))
		}
		prev, at, in = at, at+n, in+n
	}
	return out
}

// refHeadRow returns log-probability of the target and entropy.
func refHeadRow(x, w, b []float64, target int, temperature float64) (logp, entropy float64) {
	v, h := len(b), len(x)
	logits := make([]float64, v)
	peak := math.Inf(-1)
	for o := range v {
		logits[o] = b[o]
		for k := range h {
			logits[o] += w[o*h+k] * x[k]
		}
		logits[o] /= temperature
		peak = math.Max(peak, logits[o])
	}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(l - peak)
	}
	lse := peak + math.Log(sum)
	for _, l := range logits {
		entropy -= math.Exp(l-lse) * (l - lse)
	}
	return logits[target] - lse, entropy
}

// opCase is one op under test: floats are its float inputs (places that are
// NaN are poison: no sequence reads them).
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
		name: "linear over a table", floats: [][]float64{normal(v * h), normal(3 * h * h)}, shapes: [][]int{{v, h}, {3 * h, h}},
		build: func(b *builder, in []*G.Node, _ func(string, []int) *G.Node) *G.Node {
			return b.linear("op", in[0], in[1], nil, v)
		},
		ref: func(in [][]float64) []float64 { return refLinear(in[0], in[1], 0, v, h, 3*h, v) },
	}, opCase{
		name: "linear over states", floats: [][]float64{withPoison((n0+rows)*h, (rowCap+inCap)*h), normal(3 * h * h)},
		shapes: [][]int{{rowCap + inCap, h}, {3 * h, h}},
		build: func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
			return b.linear("op", in[0], in[1], index("active", active), inCap)
		},
		ref: func(in [][]float64) []float64 { return refLinear(in[0], in[1], n0, rows, h, 3*h, inCap) },
	}, opCase{
		name: "embed", floats: [][]float64{normal(v * 3 * h)}, shapes: [][]int{{v, 3 * h}},
		build: func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
			return b.embed("op", in[0], index("ids", ids), index("active", active), inCap)
		},
		ref: func(in [][]float64) []float64 {
			y := nans(inCap * 3 * h)
			for i, id := range ids[:rows] {
				copy(y[i*3*h:], in[0][id*3*h:(id+1)*3*h])
			}
			return y
		},
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
	for _, init := range []bool{false, true} {
		c := opCase{
			name:   fmt.Sprintf("gru with first states %v", init),
			floats: [][]float64{withPoison(rows*3*h, inCap*3*h), normal(3 * h * h), normal(3 * h), normal(3 * h)},
			shapes: [][]int{{inCap, 3 * h}, {3 * h, h}, {3 * h}, {3 * h}},
		}
		if init {
			c.floats, c.shapes = append(c.floats, withPoison(n0*h, rowCap*h)), append(c.shapes, []int{rowCap, h})
		}
		c.build = func(b *builder, in []*G.Node, index func(string, []int) *G.Node) *G.Node {
			var h0 *G.Node
			if init {
				h0 = in[4]
			}
			return b.gru("op", in[0], h0, in[1], in[2], in[3], index("active", active), rowCap, inCap)
		}
		c.ref = func(in [][]float64) []float64 {
			var h0 []float64
			if init {
				h0 = in[4]
			}
			return refGRU(in[0], h0, in[1], in[2], in[3], active, h, rowCap+inCap)
		}
		cases = append(cases, c)
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
	return cases
}

// Each op equals its reference, and its gradient the central difference of the
// reference, for a random linear functional of the output.
func TestOpsAgainstReferenceAndFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range opCases(r) {
		t.Run(c.name, func(t *testing.T) {
			b := &builder{g: G.NewGraph(), pool: kernel.NewPool(2)}
			defer b.pool.Close()
			var nodes []*G.Node
			for i, x := range c.floats {
				nodes = append(nodes, b.input(fmt.Sprint("x", i), tensor.Float32, to32(x), c.shapes[i]...))
			}
			y := c.build(b, nodes, func(name string, v []int) *G.Node { return b.input(name, tensor.Int, v, len(v)) })
			if b.err != nil {
				t.Fatal(b.err)
			}
			want := c.ref(c.floats)
			weight := make([]float64, len(want))
			seed := newBuffer(y.Shape()...)
			for i, w := range want {
				weight[i] = r.NormFloat64()
				seed.data[i] = float32(weight[i])
				if math.IsNaN(w) {
					weight[i], seed.data[i] = 0, float32(math.NaN())
				}
			}
			cost := b.apply(probe(y, seed), y)
			grads, err := G.Grad(cost, nodes...)
			if err != nil {
				t.Fatal(err)
			}
			vm := G.NewTapeMachine(b.g)
			defer vm.Close()
			for pass := range 2 { // the second pass shows that nothing is left behind by the first
				vm.Reset()
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
				got := floats(y.Value())
				for i, w := range want {
					if !math.IsNaN(w) && !near(float64(got[i]), w, 1e-5, 1e-6) {
						t.Fatalf("pass %d: output %d = %v, reference %v", pass, i, got[i], w)
					}
				}
				for k, x := range c.floats {
					g := floats(grads[k].Value())
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
						if !near(float64(g[i]), fd, 1e-4, 1e-5) {
							t.Fatalf("pass %d: input %d, gradient %d = %v, finite difference %v", pass, k, i, g[i], fd)
						}
					}
				}
			}
		})
	}
}

// probe is the cost that sends seed back as the gradient of y.
func probe(y *G.Node, seed *buffer) *fusedOp {
	return &fusedOp{
		name: "probe", in: []hm.Type{matrixT}, out: scalarT, wrt: []bool{true},
		run: func([]G.Value) (G.Value, error) { return G.NewF32(0), nil },
		diff: func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
			n, err := G.ApplyOp(&fusedOp{
				name: "probeGrad", in: []hm.Type{matrixT, scalarT}, out: matrixT, shape: seed.t.Shape(),
				run: func([]G.Value) (G.Value, error) { return seed.t, nil },
			}, ins[0], grad)
			return G.Nodes{n}, err
		},
	}
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
