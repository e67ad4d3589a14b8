package decoder

import (
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// headRows bounds the rows of logits that the sampler has in memory at a time.
const headRows = 64

// Bounds of the loss's logits. Up to lossKept numbers they are all in memory at a time, and
// kept for the backward pass. Of more, each part has lossRows rows and lossLogits numbers
// at most: the head's weights are read, and their gradient is read and written, once for
// each part, and the backward pass computes the logits again, unless the head is frozen (see
// headOp.towards). Tests lower the bounds.
var (
	lossRows   = 256
	lossLogits = 1 << 26
	lossKept   = 1 << 26
)

// lossParts returns how many rows of logits are in memory at a time, and whether they are
// kept for the backward pass: then they are all.
func lossParts(rows, vocab int, backward bool) (most int, keep bool) {
	if backward && rows*vocab <= lossKept {
		return rows, true
	}
	return min(rows, lossRows, max(headRows, lossLogits/vocab)), false
}

func (o *cpuOps) LogProbs(places, targets []int, kept []*model.Kept, temperature float64) fused.Op {
	op := &headOp{cpuOps: o, places: places, targets: targets, kept: kept, inv: float32(1 / temperature)}
	c := o.net.Config
	op.most, op.keep = lossParts(len(places), c.Vocab, o.grads != nil && c.FinalSoftcap == 0)
	return op
}

// headOp is [Ops.LogProbs].
type headOp struct {
	*cpuOps
	places, targets []int
	kept            []*model.Kept // of each place; nil: none is restricted
	inv             float32
	most            int // see lossParts
	keep            bool

	mark         []int // of the memory before the head
	out          *fused.Buffer
	final, rstd  []float32 // the last RMSNorm
	rows, logits []float32 // states and logits of most places
	slope        []float32 // of the soft cap of these logits, in the backward pass; nil without

	// towards is the gradient of each place's log-probability by its final state, (places, hidden), of a
	// frozen head whose logits are not kept. The loss's gradient is a multiple of it, so the logits, a
	// seventh of a LoRA update's multiply-adds with Qwen's 152k tokens, are not computed twice.
	towards []float32
}

// each calls f for parts of the places: with the first and the number of them, and their
// probabilities. It computes these, log-probabilities and entropies, unless they are kept.
func (o *headOp) each(again bool, f func(from, n int, probs []float32)) {
	h, vocab, logp, entropy := o.net.Config.Hidden, o.net.Config.Vocab, o.logProb(), o.entropy()
	for from := 0; from < len(o.places); from += o.most {
		n := min(o.most, len(o.places)-from)
		for i, at := range o.places[from : from+n] {
			copy(o.rows[i*h:(i+1)*h], o.final[at*h:(at+1)*h])
		}
		if !again || !o.keep {
			o.net.Head.forward(o.pool, n, o.rows, false, o.logits)
			if c := o.net.Config.FinalSoftcap; c != 0 {
				o.pool.SoftCap(o.logits[:n*vocab], 1, float32(c), o.slope)
			}
			if o.kept != nil {
				o.pool.Run(n, func(i, _ int) { o.kept[from+i].Restrict(o.logits[i*vocab : (i+1)*vocab]) })
			}
			o.pool.LogSoftmaxGather(n, vocab, o.logits, o.inv, o.targets[from:from+n], logp[from:], entropy[from:],
				o.logits)
		}
		f(from, n, o.logits)
	}
}

func (o *headOp) logProb() []float32 { return o.out.Data[:len(o.places)] }
func (o *headOp) entropy() []float32 { return o.out.Data[len(o.places):] }

func (o *headOp) Forward(in []G.Value) (G.Value, error) {
	c := o.net.Config
	o.mark = o.mem.Mark()
	o.out = fused.NewBuffer(2, len(o.places))
	o.final, o.rstd = o.norm(fused.Floats(in[0]), o.net.Norm)
	o.rows, o.logits = o.mem.floats(o.most*c.Hidden), o.mem.floats(o.most*c.Vocab)
	if o.grads != nil && c.FinalSoftcap != 0 {
		o.slope = o.mem.floats(o.most * c.Vocab)
	}
	if o.grads == nil || o.keep || o.grads.Head.W != nil {
		o.each(false, func(int, int, []float32) {})
		return o.out.T, nil
	}
	ones := slices.Repeat([]float32{1}, o.most)
	o.towards = o.mem.floats(len(o.places) * c.Hidden)
	o.each(false, func(from, n int, d []float32) {
		o.backwardHead(from, n, d, ones, nil, o.towards[from*c.Hidden:])
	})
	return o.out.T, nil
}

// backwardHead writes the gradient of n rows of states to drows, from the gradients of the log-probabilities and
// entropies of the n places from the given one on (without dentropy: 0). Of their probabilities d it makes the
// gradient of their logits, and adds the gradient of the head's weights.
func (o *headOp) backwardHead(from, n int, d, dlogp, dentropy, drows []float32) {
	o.pool.LogSoftmaxBackward(n, o.net.Config.Vocab, d, o.logProb()[from:], o.entropy()[from:], o.targets[from:from+n],
		dlogp, dentropy, o.inv, d)
	if o.slope != nil {
		o.pool.Multiply(d[:n*o.net.Config.Vocab], o.slope)
	}
	o.net.Head.backward(o.pool, n, o.rows, d, drows, o.grads.Head)
}

func (o *headOp) AllocateGrads() ([]*tensor.Dense, error) {
	c := o.net.Config
	return []*tensor.Dense{o.Stream(o.dx), o.GradientOf(o.grads.Norm, c.Hidden),
		o.GradientOf(o.grads.Head.W, c.Vocab, c.Hidden)}, nil
}

func (o *headOp) Backward(vals []G.Value) error {
	h, d := o.net.Config.Hidden, fused.Floats(vals[4])
	dlogp, dentropy := d[:len(o.places)], d[len(o.places):]
	dfinal := o.states()
	clear(dfinal)
	if o.towards != nil && !slices.ContainsFunc(dentropy, func(x float32) bool { return x != 0 }) {
		for i, at := range o.places {
			kernel.Axpy(dlogp[i], o.towards[i*h:(i+1)*h], dfinal[at*h:(at+1)*h])
		}
	} else {
		drows := o.mem.floats(o.most * h)
		o.each(true, func(from, n int, d []float32) {
			o.backwardHead(from, n, d, dlogp[from:], dentropy[from:], drows)
			for i, at := range o.places[from : from+n] {
				kernel.Axpy(1, drows[i*h:(i+1)*h], dfinal[at*h:(at+1)*h])
			}
		})
	}
	o.normBackward(fused.Floats(vals[0]), o.rstd, dfinal)
	o.mem.Back(o.mark)
	return nil
}

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
			sum += float64(float64(x) * float64(o.head.W[j]))
		}
		out.Data[i] = float32(sum)
	}
	return out.T, nil
}

func (o *valueOp) AllocateGrads() ([]*tensor.Dense, error) {
	h := len(o.head.W)
	return []*tensor.Dense{o.Stream(o.dx), o.GradientOf(o.grads.Norm, h), fused.Dense(o.d.W, h),
		fused.Dense(o.d.Bias, 1)}, nil
}

func (o *valueOp) Backward(vals []G.Value) error {
	dfinal := o.states()
	clear(dfinal)
	for i, d := range fused.Floats(vals[5]) {
		at := o.places[i] * len(o.head.W)
		o.d.Bias[0] += d
		for j := range o.head.W {
			o.d.W[j] += float32(d * o.final[at+j])
			dfinal[at+j] += float32(d * o.head.W[j])
		}
	}
	o.normBackward(fused.Floats(vals[0]), o.rstd, dfinal)
	o.mem.Back(o.mark)
	return nil
}
