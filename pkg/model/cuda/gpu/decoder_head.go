//go:build withcuda && linux

package gpu

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/fused"
)

// lossLogits bounds the logits that are in memory at a time. If all fit they are kept for the
// backward pass; it computes parts of more again. Tests lower it.
var lossLogits = 1 << 28

// part is a number of places whose logits are in memory at the same time.
type part struct {
	from, rows int
	at         cuda.Pointer // the places, int32
	back       lists        // where the gradients of their states go
}

// parts cuts places into parts of at most most.
func (o *decoderOps) parts(places []int, most int) []part {
	var out []part
	for from := 0; from < len(places); from += most {
		index := make([]int32, min(most, len(places)-from))
		for i := range index {
			index[i] = int32(places[from+i])
		}
		p := part{from: from, rows: len(index), at: upload(o.mem, index)}
		if o.grads != nil {
			p.back = o.lists(index, -1)
		}
		out = append(out, p)
	}
	return out
}

// normHead begins the backward pass of the layers, from the gradient of the last RMSNorm of x.
func (o *decoderOps) normHead(x, dfinal cuda.Pointer) {
	h := o.Config.Hidden
	o.normBackward(o.n, 1, h, x, o.Network.Norm, h, dfinal, h, false, o.dx, h, o.grads, o.grads.Network.Norm)
}

func (o *decoderOps) LogProbs(places, targets []int, kept []*model.Kept, temperature float64) fused.Op {
	if kept != nil {
		return refusal{model.ErrKept}
	}
	most := max(1, min(len(places), lossLogits/o.Config.Vocab))
	return &headOp{decoderOps: o, places: places, targets: targets, inv: float32(1 / temperature), most: most}
}

// refusal is an operation that can't be computed here.
type refusal struct{ err error }

func (r refusal) Forward([]G.Value) (G.Value, error)      { return nil, r.err }
func (r refusal) AllocateGrads() ([]*tensor.Dense, error) { return nil, r.err }
func (r refusal) Backward([]G.Value) error                { return r.err }

// headOp is [decoder.Ops.LogProbs].
type headOp struct {
	*decoderOps
	places, targets []int
	inv             float32
	most            int // places of a part

	mark                 []int // of the memory before the head
	parts                []part
	target, out, stats   cuda.Pointer // (places), (2, places), (places, 2)
	final, states, logit cuda.Pointer // the last RMSNorm; states and logits of most places
}

// logits computes the states and logits of a part.
func (o *headOp) logits(p part) {
	h := o.Config.Hidden
	o.g.gather(p.rows, h, p.at, o.final, o.states)
	o.project(&o.Head, p.rows, o.states, false, o.logit)
}

func (o *headOp) Forward(in []G.Value) (G.Value, error) {
	c, n := o.Config, len(o.places)
	err := o.g.do(func() {
		o.out = o.mem.floats(2 * n)
		o.mark = o.mem.Mark()
		ids := make([]int32, n)
		toInt32(ids, o.targets)
		o.target, o.stats = upload(o.mem, ids), o.mem.floats(2*n)
		o.parts = o.decoderOps.parts(o.places, o.most)
		o.final = o.norm(at(in[0]), o.Network.Norm)
		o.states, o.logit = o.mem.floats(o.most*c.Hidden), o.mem.floats(o.most*c.Vocab)
		for _, p := range o.parts {
			o.logits(p)
			o.g.launch(o.g.card.Head(kernels.HeadForward, p.rows, c.Vocab), cuda.I(p.rows), cuda.I(c.Vocab), cuda.P(o.logit),
				cuda.P(0), cuda.F(o.inv), cuda.P(o.target.Add(p.from)), cuda.P(o.out.Add(p.from)), cuda.P(o.out.Add(n+p.from)),
				cuda.P(o.stats.Add(2*p.from)))
		}
	})
	return o.tensor(o.out, 2, n), err
}

func (o *headOp) AllocateGrads() ([]*tensor.Dense, error) {
	c, g := o.Config, o.grads.Network
	return []*tensor.Dense{o.Stream(o.dx), o.GradientOf(g.Norm, c.Hidden), o.GradientOf(g.Head.W, c.Vocab, c.Hidden)}, nil
}

func (o *headOp) Backward(vals []G.Value) error {
	c, n, d := o.Config, len(o.places), at(vals[4])
	return o.g.do(func() {
		dfinal, dstates := o.mem.zeros(o.n*c.Hidden), o.mem.floats(o.most*c.Hidden)
		for _, p := range o.parts {
			if len(o.parts) > 1 {
				o.logits(p)
			}
			o.g.launch(o.g.card.Head(kernels.HeadBackward, p.rows, c.Vocab), cuda.I(p.rows), cuda.I(c.Vocab), cuda.P(o.logit),
				cuda.P(0), cuda.F(o.inv), cuda.P(o.target.Add(p.from)), cuda.P(o.stats.Add(2*p.from)),
				cuda.P(o.out.Add(n+p.from)), cuda.P(d.Add(p.from)), cuda.P(d.Add(n+p.from)))
			o.projectBackward(&o.Head, &o.grads.Head, o.grads, p.rows, o.states, o.logit, dstates)
			o.sumRows(p.back, c.Hidden, dstates, dfinal)
		}
		o.normHead(at(vals[0]), dfinal)
		o.mem.Back(o.mark)
	})
}

func (o *decoderOps) Values(places []int, head, grads decoder.ValueHead) fused.Op {
	return &valueOp{decoderOps: o, places: places, head: head, d: grads}
}

// valueOp is [decoder.Ops.Values].
type valueOp struct {
	*decoderOps
	places  []int
	head, d decoder.ValueHead // d has the gradients

	mark        []int
	part        part
	out, states cuda.Pointer // (places), (places, hidden)
}

func (o *valueOp) Forward(in []G.Value) (G.Value, error) {
	n, h := len(o.places), o.Config.Hidden
	err := o.g.do(func() {
		o.out = o.mem.floats(n)
		o.mark = o.mem.Mark()
		o.part, o.states = o.parts(o.places, n)[0], o.mem.floats(n*h)
		o.g.gather(n, h, o.part.at, o.norm(at(in[0]), o.Network.Norm), o.states)
		o.g.launch(o.g.card.Rows(kernels.ValueForward, n), cuda.I(n), cuda.I(h), cuda.P(o.states), cuda.P(at(in[2])),
			cuda.P(at(in[3])), cuda.P(o.out))
	})
	return o.tensor(o.out, 1, n), err
}

func (o *valueOp) AllocateGrads() ([]*tensor.Dense, error) {
	h, bias := o.Config.Hidden, o.grads.atIfParameter(o.d.Bias)
	var err error
	if bias == 0 { // no parameter: the gradient is not read
		err = o.g.do(func() { bias = o.mem.zeros(1) })
	}
	return []*tensor.Dense{o.Stream(o.dx), o.GradientOf(o.grads.Network.Norm, h), o.GradientOf(o.d.W, h),
		o.tensor(bias, 1)}, err
}

func (o *valueOp) Backward(vals []G.Value) error {
	n, h, dv := len(o.places), o.Config.Hidden, at(vals[5])
	return o.g.do(func() {
		if bias := o.grads.atIfParameter(o.d.Bias); bias != 0 {
			o.g.colSum(n, 1, dv, 0, true, bias)
		}
		o.g.colSum(n, h, o.states, dv, true, o.grads.at(o.d.W))
		dstates, dfinal := o.mem.floats(n*h), o.mem.zeros(o.n*h)
		o.g.launch(o.g.card.Rows(kernels.ValueBackward, n), cuda.I(n), cuda.I(h), cuda.P(dv), cuda.P(at(vals[2])),
			cuda.P(dstates))
		o.sumRows(o.part.back, h, dstates, dfinal)
		o.normHead(at(vals[0]), dfinal)
		o.mem.Back(o.mark)
	})
}
