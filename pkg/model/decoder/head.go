package decoder

import "grpo/pkg/model/kernel"

// headRows bounds the rows of logits that are in memory at a time.
const headRows = 64

// logProbs are the log-probabilities of targets, and the entropies of their
// distributions, after the tokens at the given places of the tree. The logits are
// divided by temperature. With a gradient, of each log-probability and entropy, it adds
// to dfinal and to the gradient of the head.
func (p *pass) logProbs(places, targets []int, temperature float64, grad func(logp, entropy []float32) (dlogp, dentropy []float32), dfinal []float32, g *Network) (logp, entropy []float32) {
	c := p.net.Config
	h, inv := c.Hidden, float32(1/temperature)
	logp, entropy = make([]float32, len(places)), make([]float32, len(places))
	rows, logits := p.mem.floats(headRows*h), p.mem.floats(headRows*c.Vocab)
	each := func(f func(from, n int)) {
		for from := 0; from < len(places); from += headRows {
			n := min(headRows, len(places)-from)
			for i, at := range places[from : from+n] {
				copy(rows[i*h:(i+1)*h], p.final[at*h:(at+1)*h])
			}
			linear(p.pool, n, h, c.Vocab, rows, p.net.head, false, logits)
			kernel.LogSoftmaxGather(n, c.Vocab, logits, inv, targets[from:from+n], logp[from:], entropy[from:], logits)
			f(from, n)
		}
	}
	each(func(int, int) {})
	if grad == nil {
		return logp, entropy
	}
	dlogp, dentropy := grad(logp, entropy)
	drows := p.mem.floats(headRows * h)
	each(func(from, n int) {
		kernel.LogSoftmaxBackward(n, c.Vocab, logits, logp[from:], entropy[from:], targets[from:from+n], dlogp[from:], dentropy[from:], inv, logits)
		linearBackward(p.pool, n, h, c.Vocab, rows, p.net.head, logits, false, drows, g.head)
		for i, at := range places[from : from+n] {
			row := dfinal[at*h : (at+1)*h]
			for j, d := range drows[i*h : (i+1)*h] {
				row[j] += d
			}
		}
	})
	return logp, entropy
}
