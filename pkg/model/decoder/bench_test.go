package decoder

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rng"
)

// benchNetwork has random weights and the shape of SmolLM2-135M, with fewer layers.
func benchNetwork(layers int) *Network {
	n := NewNetwork(&hf.Config{Arch: "llama", Vocab: 49152, Hidden: 576, FFN: 1536, Layers: layers, Heads: 9,
		KVHeads: 3, HeadDim: 64, Context: 2048, RopeTheta: 1e5, NormEps: 1e-5, Tied: true})
	r := rand.New(rand.NewSource(1))
	for i := range n.Params.Flat {
		n.Params.Flat[i] = float32(r.NormFloat64()) * 0.04
	}
	for i := range n.Layers {
		for j := range n.Layers[i].AttnNorm {
			n.Layers[i].AttnNorm[j], n.Layers[i].FFNNorm[j] = 1, 1
		}
	}
	return n
}

// benchTree is a step's rollout: a shared prefix, 8 prompts and 8 completions of each.
// The places are those that predict the completions' tokens.
func benchTree(vocab int) (segments []Segment, places, targets []int) {
	r := rand.New(rand.NewSource(2))
	at := 0
	add := func(parent, n int, sampled bool) int {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(r.Intn(vocab))
		}
		segments = append(segments, Segment{parent, tokens, sampled})
		at += n
		return len(segments) - 1
	}
	add(-1, 168, false)
	for range 8 {
		add(0, 20, false)
	}
	for i := range 64 {
		for j := range 16 {
			places, targets = append(places, at+j), append(targets, r.Intn(vocab))
		}
		add(1+i/8, 16, true)
	}
	return segments, places, targets
}

// flops are the floating-point operations of the matmuls of a forward and a backward
// pass: of the layers (the attention's with its masked scores), and of the head.
func flops(c *hf.Config, t *Tree, places int) float64 {
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	layers := 3 * 2 * float64(len(t.Tokens)) * float64(h*(q+2*kv)+q*h+3*h*c.FFN)
	for s, segment := range t.Segments {
		m := len(segment.Tokens)
		layers += 7 * 2 * float64(q*m*(t.Before[s]+m)) // 2 forward; 5 backward, one of them repeated
	}
	return layers*float64(c.Layers) + 3*2*float64(places*h*c.Vocab)
}

// BenchmarkUpdate is a forward and a backward pass, through the layers alone and with the
// head.
func BenchmarkUpdate(b *testing.B) {
	if testing.Short() {
		b.Skip("left out with -short")
	}
	net, grads := benchNetwork(6), benchNetwork(6)
	segments, places, targets := benchTree(net.Config.Vocab)
	t, err := NewTree(segments)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	peak := kernel.Peak(1 << 26)
	peak /= time.Since(start).Seconds()
	b.Logf("%d tokens; peak of a core %.0f GFLOP/s", len(t.Tokens), peak/1e9)
	for _, head := range []bool{false, true} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("head=%v/%d", head, threads), func(b *testing.B) {
				pool := kernel.NewPool(threads)
				defer pool.Close()
				mem, at, want := &arena{}, places, targets
				if !head {
					at, want = places[:1], targets[:1]
				}
				for b.Loop() {
					mem.Reset()
					g, err := newGraph(&cpu{pool, mem}, net, grads, t, false)
					if err != nil {
						b.Fatal(err)
					}
					gradients(b, g, at, want, 1, func(logp, entropy []float32) ([]float32, []float32) {
						return logp, make([]float32, len(logp))
					})
				}
				rate := flops(net.Config, t, len(at)) * float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(rate/1e9, "GFLOP/s")
				b.ReportMetric(100*rate/peak/float64(threads), "%peak")
			})
		}
	}
}

// BenchmarkSample samples 64 completions of 16 tokens for the prompts of [benchTree].
func BenchmarkSample(b *testing.B) {
	if testing.Short() {
		b.Skip("left out with -short")
	}
	net := benchNetwork(6)
	segments, _, _ := benchTree(net.Config.Vocab)
	var prompts [][]int
	for _, s := range segments[1:9] {
		prompts = append(prompts, append(wide(segments[0].Tokens), wide(s.Tokens)...))
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			pool := kernel.NewPool(threads)
			defer pool.Close()
			s := newSampler(net, pool, &arena{}, nil)
			for b.Loop() {
				opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 16}
				if _, err := s.Sample(prompts, 8, opt, model.Draws{Stream: rng.New(1, 2)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(64*16*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}
