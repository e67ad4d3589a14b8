package decoder

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/fused"
)

func (o *cpuOps) Values(places []int, head, grads ValueHead) fused.Op {
	return &valueOp{cpuOps: o, places: places, head: head, d: grads}
}

// valueOp is [Ops.Values].
type valueOp struct {
	*cpuOps
	places      []int
	head, d     ValueHead // d has the gradients
	mark        []int
	final, rstd []float32 // the last RMSNorm
}

func (o *valueOp) Forward(in []G.Value) (G.Value, error) {
	o.mark = o.mem.Mark()
	o.final, o.rstd = o.norm(fused.Floats(in[0]), o.net.Norm)
	out := fused.NewBuffer(1, len(o.places))
	for i, at := range o.places {
		sum := float64(o.head.Bias[0])
		for j, x := range o.final[at*len(o.head.W) : (at+1)*len(o.head.W)] {
			sum += float64(x) * float64(o.head.W[j])
		}
		out.Data[i] = float32(sum)
	}
	return out.T, nil
}

func (o *valueOp) AllocateGrads() ([]*tensor.Dense, error) {
	h := len(o.head.W)
	return []*tensor.Dense{o.Stream(o.dx), o.GradientOf(o.grads.Norm, h), fused.Dense(o.d.W, h), fused.Dense(o.d.Bias, 1)}, nil
}

func (o *valueOp) Backward(vals []G.Value) error {
	dfinal := o.states()
	clear(dfinal)
	for i, d := range fused.Floats(vals[5]) {
		at := o.places[i] * len(o.head.W)
		o.d.Bias[0] += d
		for j := range o.head.W {
			o.d.W[j] += d * o.final[at+j]
			dfinal[at+j] += d * o.head.W[j]
		}
	}
	o.normBackward(fused.Floats(vals[0]), o.rstd, dfinal)
	o.mem.Back(o.mark)
	return nil
}
