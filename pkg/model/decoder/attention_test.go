package decoder

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// randomNetwork is a small network of random weights, with everything that a decoder may
// have.
func randomNetwork(r *rand.Rand) *Network {
	n := newNetwork(&hf.Config{Arch: "qwen3", Vocab: 50, Hidden: 40, FFN: 36, Layers: 2, Heads: 6, KVHeads: 2,
		HeadDim: 10, Context: 512, RopeTheta: 1e4, NormEps: 1e-5, QKVBias: true, QKNorm: true})
	for i := range n.Params.Flat {
		n.Params.Flat[i] = float32(r.NormFloat64()) * 0.3
	}
	return n
}

// completionTree has completions of uneven lengths under several prompts: one run of
// them is longer than runRows, one is a single completion, and one completion is empty.
func completionTree(r *rand.Rand, vocab int) []Segment {
	tokens := func(n int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(r.Intn(vocab))
		}
		return out
	}
	segments := []Segment{{-1, tokens(21), false}, {0, tokens(5), false}, {0, tokens(1), false}, {-1, tokens(9), false}}
	for _, n := range []int{50, 3, 70, 0, 40, 9} {
		segments = append(segments, Segment{1, tokens(n), true})
	}
	return append(segments, Segment{2, tokens(17), true}, Segment{3, tokens(4), true},
		Segment{3, tokens(6), true}, Segment{3, tokens(2), false})
}

func TestRuns(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	tree, err := newTree(completionTree(r, 50))
	if err != nil {
		t.Fatal(err)
	}
	want := []run{{0, 1, 21, 0, 21}, {1, 2, 5, 21, 26}, {2, 3, 1, 21, 22}, {3, 4, 9, 0, 9},
		{4, 8, 123, 26, 96}, {8, 10, 49, 26, 66}, {10, 11, 17, 22, 39}, {11, 13, 10, 9, 15}, {13, 14, 2, 9, 11}}
	if got := tree.runs(); !slices.Equal(got, want) {
		t.Errorf("runs %v, want %v", got, want)
	}
}

// TestTreeGradients: the gradients of a tree are those of its sequences by themselves,
// and have the same bits for any number of threads and from memory that held another
// pass.
func TestTreeGradients(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	net := randomNetwork(r)
	segments := completionTree(r, net.Config.Vocab)
	whole, err := newTree(segments)
	if err != nil {
		t.Fatal(err)
	}
	h := net.Config.Hidden
	dfinal := make([]float32, len(whole.tokens)*h)
	for s, segment := range segments {
		if segment.Sampled {
			for i := range len(segment.Tokens) * h {
				dfinal[whole.start[s]*h+i] = float32(r.NormFloat64())
			}
		}
	}
	mem := &arena{}
	gradients := func(threads int) []float32 {
		pool := kernel.NewPool(threads)
		defer pool.Close()
		g := newNetwork(net.Config)
		p := newPass(net, pool, mem, whole, true)
		p.forward()
		p.backward(dfinal, g)
		return g.Params.Flat
	}
	got := gradients(1)
	for _, threads := range []int{1, 2, 3} {
		if !slices.Equal(gradients(threads), got) {
			t.Errorf("other gradients with %d threads", threads)
		}
	}

	alone := newNetwork(net.Config)
	for s, segment := range segments {
		if !segment.Sampled {
			continue
		}
		var tokens []int32
		for _, k := range whole.visible(s) {
			tokens = append(tokens, segments[k].Tokens...)
		}
		p := newTestPass(t, net, []Segment{{Parent: -1, Tokens: tokens}}, 1)
		n := len(segment.Tokens) * h
		d := make([]float32, len(p.final))
		copy(d[len(d)-n:], dfinal[whole.start[s]*h:][:n])
		p.backward(d, alone)
	}
	largest := 0.0
	for _, x := range alone.Params.Flat {
		largest = max(largest, math.Abs(float64(x)))
	}
	for i, want := range alone.Params.Flat {
		if d := math.Abs(float64(got[i] - want)); d > 1e-5*largest || d != d {
			t.Fatalf("gradient %d is %v, of the sequences alone %v (the largest is %v)", i, got[i], want, largest)
		}
	}
}

// TestLossInParts: log-probabilities do not depend on how many rows of logits there are
// at a time and whether they are kept, and gradients do so by rounding alone.
func TestLossInParts(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	net := randomNetwork(r)
	p := newTestPass(t, net, completionTree(r, net.Config.Vocab), 2)
	var places, targets []int
	for at := range p.tree.tokens {
		places, targets = append(places, at), append(targets, r.Intn(net.Config.Vocab))
	}
	run := func() (logp, dfinal, grads []float32) {
		g := newNetwork(net.Config)
		dfinal = make([]float32, len(p.final))
		logp, _ = p.logProbs(places, targets, 0.8, func(logp, entropy []float32) ([]float32, []float32) {
			return entropy, logp
		}, dfinal, g)
		return logp, dfinal, g.head.w
	}
	logp, dfinal, grads := run()
	old := []int{lossRows, lossKept}
	defer func() { lossRows, lossKept = old[0], old[1] }()
	for _, bounds := range [][2]int{{7, old[1]}, {7, 0}, {old[0], 0}} {
		lossRows, lossKept = bounds[0], bounds[1]
		l, d, g := run()
		if !slices.Equal(l, logp) || !slices.Equal(d, dfinal) {
			t.Errorf("%v: other log-probabilities or gradients of the states", bounds)
		}
		for i, want := range grads {
			if math.Abs(float64(g[i]-want)) > 1e-4*max(1, math.Abs(float64(want))) {
				t.Fatalf("%v: gradient %d of the head is %v, want %v", bounds, i, g[i], want)
			}
		}
	}
}
