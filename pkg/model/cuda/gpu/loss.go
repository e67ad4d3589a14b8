//go:build withcuda && linux

package gpu

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/fused"
)

// lossIO implements [fused.LossIO]. It copies only the part that tokens use: the first ops.used()
// elements of each row.
type lossIO struct {
	ops         *ops
	rows, width int           // of x
	x, d        []float32     // page-locked: x and its gradient, (rows, width)
	grad        *tensor.Dense // d on the device
}

// pin allocates page-locked memory that n frees when it is closed.
func (n *ops) pin(count int) (s []float32) {
	_ = n.g.do(func() { s = pinned[float32](n.g, count) })
	n.unpin = append(n.unpin, func() { cuda.FreePinned(n.g.dev, s) })
	return s
}

func (n *ops) Loss(shape tensor.Shape) (fused.LossIO, error) {
	size := shape.TotalSize()
	c := &lossIO{ops: n, rows: shape[0], width: shape[1], x: n.pin(size), d: n.pin(size)}
	c.grad = n.g.engine.Tensor(n.alloc(size, "the gradient of the loss"), shape...)
	return c, n.g.dev.Err()
}

// used is the number of states of the completions, the part of each row of an
// output that tokens use.
func (n *ops) used() int { return n.rows.n0 + n.rows.inputs }

// fetch downloads the used part of an output, (rows, width).
func (n *ops) fetch(to []float32, v G.Value, rows, width int) error {
	return n.g.dev.Do(func() error {
		for r := range rows {
			_ = cuda.FetchAt(n.g.dev, to[r*width:r*width+n.used()], at(v).Add(r*width))
		}
		return n.g.dev.Sync()
	})
}

func (c *lossIO) Read(x G.Value) ([]float32, error) {
	return c.x, c.ops.fetch(c.x, x, c.rows, c.width)
}

func (c *lossIO) HostGrad() []float32 { return c.d }

func (c *lossIO) Grad() (G.Value, error) {
	return c.grad, c.ops.g.do(func() {
		for r := range c.rows {
			_ = cuda.UploadAt(c.ops.g.dev, at(c.grad).Add(r*c.width), c.d[r*c.width:r*c.width+c.ops.used()])
		}
	})
}

func (n *ops) Read(v G.Value) ([]float32, error) {
	shape := v.Shape()
	if shape.Dims() != 2 {
		return nil, fmt.Errorf("read an output of shape %v: it must be a matrix", shape)
	}
	if n.output == nil {
		n.output = n.pin(shape.TotalSize())
	}
	return n.output, n.fetch(n.output, v, shape[0], shape[1])
}
