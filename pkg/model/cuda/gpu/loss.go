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
	rows, width int       // of x
	x, d        []float32 // page-locked: x and its gradient, (rows, width)
	device      *cuda.Mem // d on the device
	grad        *tensor.Dense
}

// pinned allocates page-locked memory that n frees when it is closed.
func pinned[T any](n *ops, count int) (s []T, err error) {
	err = n.g.dev.Do(func() error {
		s, err = cuda.Pinned[T](n.g.dev, count)
		return err
	})
	if err == nil {
		n.unpin = append(n.unpin, func() { cuda.FreePinned(n.g.dev, s) })
	}
	return s, err
}

func (n *ops) Loss(shape tensor.Shape) (fused.LossIO, error) {
	c := &lossIO{ops: n, rows: shape[0], width: shape[1]}
	var err error
	if c.device, err = n.alloc(shape.TotalSize(), "the gradient of the loss"); err != nil {
		return nil, err
	}
	c.grad = n.g.engine.Tensor(c.device.At(0), shape...)
	if c.x, err = pinned[float32](n, shape.TotalSize()); err != nil {
		return nil, err
	}
	c.d, err = pinned[float32](n, shape.TotalSize())
	return c, err
}

// used is the number of states of the completions, the part of each row of an
// output that tokens use.
func (n *ops) used() int { return n.rows.n0 + n.rows.inputs }

// fetch downloads the used part of an output, (rows, width).
func (n *ops) fetch(to []float32, v G.Value, rows, width int) error {
	return n.g.dev.Do(func() error {
		for r := range rows {
			if err := cuda.FetchAt(n.g.dev, to[r*width:r*width+n.used()], at(v).Add(r*width)); err != nil {
				return err
			}
		}
		return n.g.dev.Sync()
	})
}

func (c *lossIO) Read(x G.Value) ([]float32, error) {
	return c.x, c.ops.fetch(c.x, x, c.rows, c.width)
}

func (c *lossIO) HostGrad() []float32 { return c.d }

func (c *lossIO) Grad() (G.Value, error) {
	return c.grad, c.ops.g.dev.Do(func() error {
		for r := range c.rows {
			if err := cuda.Upload(c.ops.g.dev, c.device, r*c.width,
				c.d[r*c.width:r*c.width+c.ops.used()]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n *ops) Read(v G.Value) ([]float32, error) {
	shape := v.Shape()
	if shape.Dims() != 2 {
		return nil, fmt.Errorf("read an output of shape %v: it must be a matrix", shape)
	}
	if n.output == nil {
		var err error
		if n.output, err = pinned[float32](n, shape.TotalSize()); err != nil {
			return nil, err
		}
	}
	return n.output, n.fetch(n.output, v, shape[0], shape[1])
}
