package decoder

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"grpo/pkg/model/hf"
)

// Log-probabilities of a network with soft caps are those of a slow formula in float64, and the gradients its
// finite differences. TestSharedPrefixLongerThanTheWindow compares the sampler of such a network with the learner.
func TestSoftCaps(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	net := NewNetwork(&hf.Config{Arch: "gemma3", Vocab: 40, Hidden: 24, FFN: 20, Layers: 2, Heads: 4, KVHeads: 2,
		HeadDim: 6, Context: 64, RopeTheta: 1e4, NormEps: 1e-5, NoRope: []bool{true, true}, AttnSoftcap: 1.5,
		FinalSoftcap: 2})
	p := net.Params.Flat
	for i := range p {
		p[i] = float32(r.NormFloat64()) * 0.6
	}
	ids := make([]int32, 13)
	for i := range ids {
		ids[i] = int32(r.Intn(net.Config.Vocab))
	}
	var places, targets []int
	var weights []float32
	for i, id := range ids[1:] {
		places, targets, weights = append(places, i), append(targets, int(id)), append(weights, float32(r.NormFloat64()))
	}
	const temperature = 0.8
	loss := func() (sum float64) {
		for i, lp := range slowLogProbs(net, ids, temperature) {
			sum += float64(weights[i]) * lp
		}
		return sum
	}
	g := NewNetwork(net.Config)
	segments := []Segment{{-1, ids[:7], false}, {0, ids[7:], true}}
	logp, _ := gradients(t, newTestGraph(t, net, g, segments, 2), places, targets, temperature,
		func([]float32, []float32) ([]float32, []float32) { return weights, make([]float32, len(weights)) })
	for i, want := range slowLogProbs(net, ids, temperature) {
		if !(math.Abs(float64(logp[i])-want) < 2e-5) {
			t.Errorf("log-probability %d is %v, want %v", i, logp[i], want)
		}
	}
	largest := float64(slices.Max(g.Params.Flat))
	for i := 0; i < len(p); i += 29 {
		old := p[i]
		p[i] = old + 1e-3
		high, up := float64(p[i]), loss()
		p[i] = old - 1e-3
		want := (up - loss()) / (high - float64(p[i]))
		p[i] = old
		if got := float64(g.Params.Flat[i]); !(math.Abs(got-want) < 1e-4*max(1, largest)) {
			t.Fatalf("gradient %d is %v, want %v (the largest is %v)", i, got, want, largest)
		}
	}
}

// slowLogProbs are the log-probabilities of all tokens but the first under a network of SwiGLU and RMSNorms before
// attention and the feed-forward network, without rotations.
func slowLogProbs(n *Network, ids []int32, temperature float64) (out []float64) {
	c, softcap := n.Config, func(x, c float64) float64 { return c * math.Tanh(x/c) }
	product := func(m Projection, x []float64) []float64 {
		y := make([]float64, m.Out)
		for i := range m.W {
			y[i/m.In] += float64(m.W[i]) * x[i%m.In]
		}
		return y
	}
	norm := func(x []float64, w []float32) []float64 {
		square, y := 0.0, make([]float64, len(x))
		for _, v := range x {
			square += v * v
		}
		for i, v := range x {
			y[i] = v / math.Sqrt(square/float64(len(x))+c.NormEps) * float64(w[i])
		}
		return y
	}
	add := func(x, y []float64) {
		for i := range x {
			x[i] += y[i]
		}
	}
	normalise := func(x []float64) (logSum float64) { // to probabilities
		sum := 0.0
		for i := range x {
			x[i] = math.Exp(x[i])
			sum += x[i]
		}
		for i := range x {
			x[i] /= sum
		}
		return math.Log(sum)
	}
	stream := make([][]float64, len(ids))
	for i, id := range ids {
		for _, v := range n.Embed[int(id)*c.Hidden:][:c.Hidden] {
			stream[i] = append(stream[i], float64(v))
		}
	}
	q, kv, d := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, c.HeadDim
	for l := range n.Layers {
		layer, qkv := &n.Layers[l], make([][]float64, len(ids))
		for i, x := range stream {
			qkv[i] = product(layer.QKV, norm(x, layer.AttnNorm))
		}
		for i := range stream {
			attended := make([]float64, q)
			for h := range c.Heads {
				at, p := h*c.KVHeads/c.Heads*d, make([]float64, i+1)
				for j := range p {
					for k := range d {
						p[j] += qkv[i][h*d+k] * qkv[j][q+at+k]
					}
					p[j] = softcap(p[j]/math.Sqrt(float64(d)), c.AttnSoftcap)
				}
				normalise(p)
				for j := range p {
					for k := range d {
						attended[h*d+k] += p[j] * qkv[j][q+kv+at+k]
					}
				}
			}
			add(stream[i], product(layer.Out, attended))
			gates := product(layer.GateUp, norm(stream[i], layer.FFNNorm))
			for k := range c.FFN {
				gates[k] *= gates[c.FFN+k] / (1 + math.Exp(-gates[k]))
			}
			add(stream[i], product(layer.Down, gates[:c.FFN]))
		}
	}
	for i, id := range ids[1:] {
		logits := product(n.Head, norm(stream[i], n.Norm))
		for k := range logits {
			logits[k] = softcap(logits[k], c.FinalSoftcap) / temperature
		}
		target := logits[id]
		out = append(out, target-normalise(logits))
	}
	return out
}
