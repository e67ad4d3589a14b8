package decoder

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// randomNetwork is a small network of random weights, with everything that a decoder may
// have.
func randomNetwork(r *rand.Rand) *Network {
	n := NewNetwork(&hf.Config{Arch: "qwen3", Vocab: 50, Hidden: 40, FFN: 36, Layers: 2, Heads: 6, KVHeads: 2,
		HeadDim: 10, Context: 512, RopeTheta: 1e4, NormEps: 1e-5, QKVBias: true, QKNorm: true,
		Norms: hf.NormBoth, Window: 11, Sliding: []bool{true, false}, NoRope: []bool{false, true},
		OffsetNorms: true, ScaledEmbed: true, GELU: true, QueryScalar: 14, LocalTheta: 100, RopeFactor: 2,
		AttnSoftcap: 1.5, FinalSoftcap: 2})
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

// A prefix that prompts share, longer than the window, changes no bit: completions are scored as they were
// sampled, and as without the other prompts, for any number of threads.
func TestSharedPrefixLongerThanTheWindow(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	net, c := randomNetwork(r), &goldenCase{}
	prefix := completionTree(r, net.Config.Vocab)[4].Tokens // 50
	for i := range int32(2) {
		ids := append(slices.Clone(prefix), 1+i, 7)
		c.InputIDs, c.Attention = append(c.InputIDs, ids), append(c.Attention, slices.Repeat([]int{1}, len(ids)))
	}
	samplerIsTheLearner(t, net, c, true, model.Sampling{Temperature: 1.3, TopP: 1, MaxTokens: 25})
}

func TestRuns(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	tree, err := NewTree(completionTree(r, 50))
	expect.OK(t, err)
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
	whole, err := NewTree(segments)
	expect.OK(t, err)
	var places, targets []int
	var weights []float32
	for s, segment := range segments {
		for i := range segment.Tokens {
			if segment.Sampled {
				places, targets = append(places, whole.Start[s]+i), append(targets, r.Intn(net.Config.Vocab))
				weights = append(weights, float32(r.NormFloat64()))
			}
		}
	}
	linear := func(w []float32) func(logp, entropy []float32) ([]float32, []float32) {
		return func([]float32, []float32) ([]float32, []float32) { return w, w }
	}
	all := func(threads int) []float32 {
		grads := NewNetwork(net.Config)
		gradients(t, newTestGraph(t, net, grads, segments, threads), places, targets, 0.8, linear(weights))
		return grads.Params.Flat
	}
	got := all(1)
	for _, threads := range []int{2, 3} {
		if !slices.Equal(all(threads), got) {
			t.Errorf("other gradients with %d threads", threads)
		}
	}

	alone, from := NewNetwork(net.Config), 0
	for s, segment := range segments {
		if !segment.Sampled || len(segment.Tokens) == 0 {
			continue
		}
		var tokens []int32
		for _, k := range whole.visible(s) {
			tokens = append(tokens, segments[k].Tokens...)
		}
		n := len(segment.Tokens)
		own := make([]int, n)
		for i := range own {
			own[i] = len(tokens) - n + i
		}
		g := newTestGraph(t, net, alone, []Segment{{Parent: -1, Tokens: tokens}}, 1)
		gradients(t, g, own, targets[from:from+n], 0.8, linear(weights[from:from+n]))
		from += n
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

// everyPlace are all places of segments, each with a random target.
func everyPlace(r *rand.Rand, segments []Segment, vocab int) (places, targets []int) {
	for _, s := range segments {
		for range s.Tokens {
			places, targets = append(places, len(places)), append(targets, r.Intn(vocab))
		}
	}
	return places, targets
}

// TestLossInParts: log-probabilities do not depend on how many rows of logits there are
// at a time and whether they are kept, and gradients do so by rounding alone.
func TestLossInParts(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	net := randomNetwork(r)
	segments := completionTree(r, net.Config.Vocab)
	places, targets := everyPlace(r, segments, net.Config.Vocab)
	run := func() (logp, grads []float32) {
		g := NewNetwork(net.Config)
		logp, _ = gradients(t, newTestGraph(t, net, g, segments, 2), places, targets, 0.8,
			func(logp, entropy []float32) ([]float32, []float32) { return entropy, logp })
		return logp, g.Params.Flat
	}
	logp, grads := run()
	old := []int{lossRows, lossKept}
	defer func() { lossRows, lossKept = old[0], old[1] }()
	for _, bounds := range [][2]int{{7, 0}, {old[0], 0}} {
		lossRows, lossKept = bounds[0], bounds[1]
		l, g := run()
		if !slices.Equal(l, logp) {
			t.Errorf("%v: other log-probabilities", bounds)
		}
		for i, want := range grads {
			if !(math.Abs(float64(g[i]-want)) <= 1e-4*max(1, math.Abs(float64(want)))) {
				t.Fatalf("%v: gradient %d is %v, want %v", bounds, i, g[i], want)
			}
		}
	}
}

// TestFrozenHead: under a frozen head, gradients from those of the log-probabilities equal those from the
// logits. A loss that uses the entropy, however little, takes the logits.
func TestFrozenHead(t *testing.T) {
	old := []int{lossRows, lossKept}
	defer func() { lossRows, lossKept = old[0], old[1] }()
	lossRows, lossKept = 7, 0
	for _, softcap := range []float64{0, 2} {
		r := rand.New(rand.NewSource(3))
		full := randomNetwork(r)
		full.Config.FinalSoftcap = softcap
		net, err := freeze(full.Config, false, true, tensorsOf(full))
		expect.OK(t, err)
		lora := hf.LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "down_proj"}}
		net.attach(&lora, newAdapters(net.Config, lora, 1))
		segments := completionTree(r, net.Config.Vocab)
		places, targets := everyPlace(r, segments, net.Config.Vocab)
		run := func(dentropy float32) []float32 {
			g := net.Params.Zeros()
			gradients(t, newTestGraph(t, net, net.gradients(g), segments, 2), places, targets, 0.8,
				func(logp, _ []float32) ([]float32, []float32) {
					d := make([]float32, len(logp))
					d[len(d)-1] = dentropy
					return logp, d
				})
			return g.Flat
		}
		got, want := run(0), run(1e-30)
		most := float32(0)
		for _, x := range want {
			most = max(most, float32(math.Abs(float64(x))))
		}
		same := true
		for i, w := range want {
			same = same && got[i] == w
			if !(math.Abs(float64(got[i]-w)) <= 1e-5*float64(most)) {
				t.Fatalf("soft cap %v: gradient %d is %v, want %v of at most %v", softcap, i, got[i], w, most)
			}
		}
		if same || most == 0 {
			t.Errorf("soft cap %v: both took the same way (largest gradient %v)", softcap, most)
		}
	}
}
