package decoder

import "grpo/pkg/model/kernel"

// headRows bounds the rows of logits that the sampler has in memory at a time.
const headRows = 64

// Bounds of the loss's logits. The head's weights are read, and their gradient is read
// and written, once for each lossRows. The backward pass computes the logits again where
// those of all places exceed lossKept numbers. Tests lower the bounds.
var (
	lossRows   = 256
	lossLogits = 1 << 24
	lossKept   = 1 << 26
)

// lossParts returns how many rows of logits are computed at a time, and how many are kept
// for the backward pass: all or none.
func lossParts(rows, vocab int, backward bool) (most, kept int) {
	most = min(rows, lossRows, max(headRows, lossLogits/vocab))
	if backward && rows*vocab <= lossKept {
		kept = rows
	}
	return most, kept
}

// logProbs are the log-probabilities of targets, and the entropies of their
// distributions, after the tokens at the given places of the tree. The logits are
// divided by temperature. With a gradient, of each log-probability and entropy, it adds
// to dfinal and to the gradient of the head.
func (p *pass) logProbs(places, targets []int, temperature float64,
	grad func(logp, entropy []float32) (dlogp, dentropy []float32), dfinal []float32,
	g *Network) (logp, entropy []float32) {
	c := p.net.Config
	h, inv := c.Hidden, float32(1/temperature)
	logp, entropy = make([]float32, len(places)), make([]float32, len(places))
	most, kept := lossParts(len(places), c.Vocab, grad != nil)
	rows, logits := p.mem.floats(most*h), p.mem.floats(max(most, kept)*c.Vocab)
	each := func(again bool, f func(from, n int, probs []float32)) {
		for from := 0; from < len(places); from += most {
			n, probs := min(most, len(places)-from), logits
			if kept > 0 {
				probs = logits[from*c.Vocab:]
			}
			for i, at := range places[from : from+n] {
				copy(rows[i*h:(i+1)*h], p.final[at*h:(at+1)*h])
			}
			if !again || kept == 0 {
				p.net.head.forward(p.pool, n, rows, false, probs)
				p.pool.LogSoftmaxGather(n, c.Vocab, probs, inv, targets[from:from+n], logp[from:], entropy[from:],
					probs)
			}
			f(from, n, probs)
		}
	}
	each(false, func(int, int, []float32) {})
	if grad == nil {
		return logp, entropy
	}
	dlogp, dentropy := grad(logp, entropy)
	drows := p.mem.floats(most * h)
	each(true, func(from, n int, d []float32) {
		p.pool.LogSoftmaxBackward(n, c.Vocab, d, logp[from:], entropy[from:], targets[from:from+n], dlogp[from:],
			dentropy[from:], inv, d)
		p.net.head.backward(p.pool, n, rows, d, drows, g.head)
		for i, at := range places[from : from+n] {
			kernel.Axpy(1, drows[i*h:(i+1)*h], dfinal[at*h:(at+1)*h])
		}
	})
	return logp, entropy
}
