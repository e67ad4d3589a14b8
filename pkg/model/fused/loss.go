package fused

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LossIO moves the input of a loss and its gradient between a device and the host.
type LossIO interface {
	// Read returns the numbers of x on the host.
	Read(x G.Value) ([]float32, error)
	// HostGrad is where the loss writes its gradient with respect to x. Entries that no token uses
	// are never read.
	HostGrad() []float32
	// Grad returns that gradient on the device.
	Grad() (G.Value, error)
}

// Memory is where the values of a graph are: the host's or a device's.
type Memory interface {
	// VMOptions are Gorgonia's options for a graph of such values.
	VMOptions() []G.VMOpt
	// Loss connects a loss, which the host computes, with a value of this shape.
	Loss(shape tensor.Shape) (LossIO, error)
	// Read returns an output on the host. It is valid until the next Read.
	Read(v G.Value) ([]float32, error)
}

// Loss ends a network in a scalar. evaluate reads the values of x, returns the cost and writes its
// gradient with respect to x into d, which is kept for the backward pass. Entries of x that no
// token uses are left as they are in d; no operation reads them.
func (b *Builder) Loss(name string, x *G.Node, mem Memory, evaluate func(x, d []float32) (float64, error)) *G.Node {
	if b.Err != nil {
		return nil
	}
	c, err := mem.Loss(x.Shape())
	if err != nil {
		b.Err = err
		return nil
	}
	value := G.NewF32(0)
	op := &operation{
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
		n, err := G.ApplyOp(&operation{
			name: name + "Grad", in: []hm.Type{matrixT, scalarT, scalarT}, out: matrixT, shape: x.Shape(),
			// The graph's cost is the loss itself, so the incoming gradient is 1; a graph that
			// scales its cost would pass another.
			run: func(vals []G.Value) (G.Value, error) {
				rescale(c.HostGrad(), vals[2].Data().(float32))
				return c.Grad()
			},
		}, ins[0], output, grad)
		return G.Nodes{n}, err
	}
	return b.apply(op, x)
}

func rescale(x []float32, scale float32) {
	if scale != 1 {
		for i := range x {
			x[i] *= scale
		}
	}
}

// Host is the [Memory] of the CPU, where every value is on the host.
type Host struct{}

func (Host) VMOptions() []G.VMOpt                    { return nil }
func (Host) Loss(shape tensor.Shape) (LossIO, error) { return hostLoss{NewBuffer(shape...)}, nil }
func (Host) Read(v G.Value) ([]float32, error)       { return Floats(v), nil }

type hostLoss struct{ d *Buffer }

func (c hostLoss) Read(x G.Value) ([]float32, error) { return Floats(x), nil }
func (c hostLoss) HostGrad() []float32               { return c.d.Data }
func (c hostLoss) Grad() (G.Value, error)            { return c.d.T, nil }

// Buffer is an output on the CPU: a tensor and its slice.
type Buffer struct {
	T    *tensor.Dense
	Data []float32
}

// NewBuffer returns zeros.
func NewBuffer(shape ...int) *Buffer {
	data := make([]float32, tensor.Shape(shape).TotalSize())
	return &Buffer{Dense(data, shape...), data}
}

// Dense is data, row-major, as a tensor. It is not copied.
func Dense[E float32 | int](data []E, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// Floats are the numbers of a value on the CPU.
func Floats(v G.Value) []float32 { return v.Data().([]float32) }

// Ints are the integers of a value on the CPU.
func Ints(v G.Value) []int { return v.Data().([]int) }
