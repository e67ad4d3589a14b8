//go:build withcuda && linux

package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
)

// gpuCost carries what a loss reads down and its answer up. Only the places that
// tokens use travel: the first so many of each row.
type gpuCost struct {
	net         *gpuNet
	rows, width int       // of x
	x, d        []float32 // page-locked: what was read, and the answer
	device      *cuda.Mem // the answer's place
	grad        *tensor.Dense
}

// pinned takes page-locked memory that the net owns.
func pinned[T any](n *gpuNet, count int) (s []T, err error) {
	err = n.g.dev.Do(func() error {
		s, err = cuda.Pinned[T](n.g.dev, count)
		return err
	})
	if err == nil {
		n.unpin = append(n.unpin, func() { cuda.FreePinned(n.g.dev, s) })
	}
	return s, err
}

func (n *gpuNet) cost(shape tensor.Shape) (cost, error) {
	c := &gpuCost{net: n, rows: shape[0], width: shape[1]}
	var err error
	if c.device, err = n.take(shape.TotalSize(), "the gradient of the loss"); err != nil {
		return nil, err
	}
	c.grad = n.g.engine.Tensor(c.device.At(0), shape...)
	if c.x, err = pinned[float32](n, shape.TotalSize()); err != nil {
		return nil, err
	}
	c.d, err = pinned[float32](n, shape.TotalSize())
	return c, err
}

// used is the number of places of each row that tokens use.
func (n *gpuNet) used() int { return n.rows.n0 + n.rows.inputs }

// fetch copies the used places of an output of the given shape down.
func (n *gpuNet) fetch(to []float32, v G.Value, rows, width int) error {
	return n.g.dev.Do(func() error {
		for r := range rows {
			if err := cuda.FetchAt(n.g.dev, to[r*width:r*width+n.used()], at(v).Add(r*width)); err != nil {
				return err
			}
		}
		return n.g.dev.Sync()
	})
}

func (c *gpuCost) read(x G.Value) ([]float32, error) {
	return c.x, c.net.fetch(c.x, x, c.rows, c.width)
}

func (c *gpuCost) answer() []float32 { return c.d }

func (c *gpuCost) gradient(scale float32) (G.Value, error) {
	rescale(c.d, scale)
	return c.grad, c.net.g.dev.Do(func() error {
		for r := range c.rows {
			if err := cuda.Upload(c.net.g.dev, c.device, r*c.width, c.d[r*c.width:r*c.width+c.net.used()]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n *gpuNet) numbers(v G.Value) ([]float32, error) {
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
