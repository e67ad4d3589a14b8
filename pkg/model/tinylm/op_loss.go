package tinylm

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// loss ends a network in a scalar. evaluate reads the values of x, returns the
// cost and writes its gradient with respect to x into d, which is kept for the
// backward pass. Places of x that no token uses keep whatever d held there; no op
// reads them.
func (b *builder) loss(name string, x *G.Node, evaluate func(x, d []float32) (float64, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	shape := x.Shape()
	c, err := b.ops.Loss(shape)
	if err != nil {
		b.err = err
		return nil
	}
	value := G.NewF32(0)
	op := &fusedOp{
		name: name, in: []hm.Type{matrixT}, out: scalarT, wrt: []bool{true},
		run: func(vals []G.Value) (G.Value, error) {
			x, err := c.Read(vals[0])
			if err != nil {
				return nil, err
			}
			loss, err := evaluate(x, c.HostGrad())
			if err != nil {
				return nil, err
			}
			*value = G.F32(float32(loss))
			return value, nil
		},
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		n, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: []hm.Type{matrixT, scalarT, scalarT}, out: matrixT, shape: shape,
			// The graph's cost is the loss itself, so the gradient that comes in
			// is 1; a graph that scales its cost would bring another.
			run: func(vals []G.Value) (G.Value, error) {
				rescale(c.HostGrad(), vals[2].Data().(float32))
				return c.Grad()
			},
		}, ins[0], output, grad)
		return G.Nodes{n}, err
	}
	return b.apply(op, x)
}

// cpuLoss is the CPU's: host and device share the numbers.
type cpuLoss struct{ d *buffer }

func (c cpu) Loss(shape tensor.Shape) (LossIO, error) { return cpuLoss{newBuffer(shape...)}, nil }

func (c cpuLoss) Read(x G.Value) ([]float32, error) { return floats(x), nil }
func (c cpuLoss) HostGrad() []float32               { return c.d.data }
func (c cpuLoss) Grad() (G.Value, error)            { return c.d.t, nil }

func rescale(x []float32, scale float32) {
	if scale != 1 {
		for i := range x {
			x[i] *= scale
		}
	}
}
