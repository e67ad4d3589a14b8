//go:build withcuda && linux

package tinylm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm/tokenizer"
)

// PyTorch's numbers, on a GPU: log-probabilities, entropies, losses, gradients,
// norms and the weights after three updates.
func TestGPUGoldenTorch(t *testing.T) {
	var c torchCase
	if err := json.Unmarshal(sharedFile(t, "golden", "tinylm_torch.json"), &c); err != nil {
		t.Fatal(err)
	}
	for _, steps := range []bool{false, true} {
		for _, shared := range []bool{true, false} {
			for _, micro := range []int{1, 2} {
				t.Run(fmt.Sprintf("a step at a time %v, shared prompts %v, %d micro-batches", steps, shared, micro), func(t *testing.T) {
					c.run(t, aStepAtATime(testGPU(t, "float32"), steps), shared, micro, tolerance{1e-4, 1e-5}, tolerance{1e-4, 1e-5})
				})
			}
		}
	}
}

// aStepAtATime takes the shared memory away that kernels over whole sequences
// need, so that a small network goes the way of a large one.
func aStepAtATime(g *gpu, yes bool) *gpu {
	if yes {
		g.card.Shared = 1 << 10
	}
	return g
}

// netCases are forms of networks and batches; most cases at both ways of
// running a layer.
func netCases(t *testing.T, f func(t *testing.T, g *gpu, p *Weights, b *model.Batch)) {
	for _, c := range []struct {
		name     string
		spec     Spec
		prompts  int
		group    int
		longest  int
		stepwise bool
	}{
		{"two layers", Spec{tokenizer.VocabSize, 7, 2}, 3, 2, 6, false},
		{"two layers, a step at a time", Spec{tokenizer.VocabSize, 7, 2}, 3, 2, 6, true},
		{"one layer", Spec{tokenizer.VocabSize, 33, 1}, 2, 3, 5, false},
		{"a cluster of blocks", Spec{tokenizer.VocabSize, 132, 1}, 1, 2, 3, false},
		{"three layers, a step at a time", Spec{tokenizer.VocabSize, 12, 3}, 2, 2, 4, true},
		{"one token each", Spec{tokenizer.VocabSize, 16, 2}, 2, 2, 1, false},
		{"one token each, a step at a time", Spec{tokenizer.VocabSize, 16, 2}, 2, 2, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := randomModel(t, c.spec, 1)
			f(t, aStepAtATime(testGPU(t, "float32"), c.stepwise), p, randomBatch(t, p, c.prompts, c.group, c.longest))
		})
	}
}

func TestGPULearnerAgainstReferenceAndFiniteDifferences(t *testing.T) {
	netCases(t, func(t *testing.T, g *gpu, p *Weights, b *model.Batch) { checkLearner(t, g, p, b) })
}

func TestGPUCriticAgainstReferenceAndFiniteDifferences(t *testing.T) {
	netCases(t, func(t *testing.T, g *gpu, p *Weights, b *model.Batch) { checkCritic(t, g, p, b) })
}

// Where a card has no room for a cluster, as on a part of one, a layer that wants
// one goes a step at a time.
func TestGPUWithoutRoomForAClusterGoesStepwise(t *testing.T) {
	g := testGPU(t, "float32")
	plan, whole, err := g.recurrence(132)
	if err != nil || whole == nil || plan.Card.Clusters < 1 {
		t.Fatalf("a card with room runs %d clusters at once, with %d kernels: %v", plan.Card.Clusters, len(whole), err)
	}
	if onCard() {
		t.Skipf("the card runs %d clusters at once", plan.Card.Clusters)
	}
	cudaemu.Setenv(t, "CUDAEMU_CLUSTERS", "-1") // a driver that does not say
	if plan, whole, err = g.recurrence(132); err != nil || whole == nil || plan.Card.Clusters != 0 {
		t.Fatalf("unasked there are %d clusters and %d kernels: %v", plan.Card.Clusters, len(whole), err)
	}
	cudaemu.Setenv(t, "CUDAEMU_CLUSTERS", "0")
	if _, whole, err = g.recurrence(132); err != nil || whole != nil {
		t.Fatalf("without room there are %d kernels: %v", len(whole), err)
	}
	p := randomModel(t, Spec{tokenizer.VocabSize, 132, 1}, 1)
	checkLearner(t, g, p, randomBatch(t, p, 1, 2, 3))
}

// gpuGradients accumulates batches and returns the gradient.
func gpuGradients(t *testing.T, g *gpu, p *Weights, batches ...*model.Batch) []float32 {
	t.Helper()
	l, err := NewLearner(p, 1, g)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	for _, b := range batches {
		n += tokensOf(b)
	}
	for _, b := range batches {
		if _, err := l.Accumulate(b, meanLogProb(n)); err != nil {
			t.Fatal(err)
		}
	}
	pull(t, l.Grads())
	return slices.Clone(l.Grads().Flat)
}

// The GPU's gradients are the CPU's but for rounding, over batches that fit the
// graph and such that make it grow, and of the default size too.
func TestGPUGradientsAreTheCPUs(t *testing.T) {
	for _, steps := range []bool{false, true} {
		t.Run(fmt.Sprintf("a step at a time %v", steps), func(t *testing.T) {
			p := randomModel(t, Spec{tokenizer.VocabSize, 64, 2}, 1)
			small, large := randomBatch(t, p, 3, 2, 5), randomBatch(t, p, 5, 3, 9)
			batches := []*model.Batch{small, large, small}
			want := gradients(t, p, 1, batches...)
			near32(t, "gradient", gpuGradients(t, aStepAtATime(testGPU(t, "float32"), steps), p, batches...), want, 1e-4, 1e-6)
		})
	}
}

func near32(t *testing.T, what string, got, want []float32, rtol, atol float64) {
	t.Helper()
	bad, worst := 0, 0.0
	for i := range want {
		if !near(float64(got[i]), float64(want[i]), rtol, atol) {
			bad++
			worst = math.Max(worst, math.Abs(float64(got[i]-want[i])))
		}
	}
	if bad > 0 {
		t.Errorf("%s: %d of %d numbers differ, at most by %g", what, bad, len(want), worst)
	}
}

// A layer that goes a step at a time runs as it is, is recorded, and is replayed;
// the bits are the same.
func TestGPURecordedLayersHaveTheSameBits(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 2}, 1)
	b, other := randomBatch(t, p, 3, 2, 6), randomBatch(t, p, 2, 2, 4)
	g := aStepAtATime(testGPU(t, "float32"), true)
	l, err := NewLearner(p, 1, g)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var first []float32
	for i, batch := range []*model.Batch{b, b, b, other, b, b} {
		l.ZeroGrads()
		if _, err := l.Accumulate(batch, meanLogProb(tokensOf(batch))); err != nil {
			t.Fatal(err)
		}
		if batch == other {
			continue
		}
		pull(t, l.Grads())
		if first == nil {
			first = slices.Clone(l.Grads().Flat)
		} else if !slices.Equal(l.Grads().Flat, first) {
			t.Errorf("pass %d has other bits than the first", i)
		}
	}
	recorded := 0
	for _, r := range l.pass.graph.ops.(*gpuNet).recordings {
		if r.graph != nil {
			recorded++
		}
	}
	if recorded != 8 {
		t.Errorf("%d of 8 recurrences are recorded", recorded)
	}
}

func TestGPUScorerIsTheLearner(t *testing.T) {
	g := testGPU(t, "float32")
	p := randomModel(t, Spec{tokenizer.VocabSize, 24, 2}, 1)
	b := randomBatch(t, p, 4, 3, 8)
	got := scored(t, p, 0.7, g, b)
	want := scored(t, p.Clone(), 0.7, threads(t, 2), b)
	for i, in := range want.Mask {
		if in && (!near(got.LogProbs[i], want.LogProbs[i], 1e-5, 1e-6) || !near(got.Entropy[i], want.Entropy[i], 1e-5, 1e-6)) {
			t.Fatalf("token %d: %v, %v, the CPU has %v, %v", i, got.LogProbs[i], got.Entropy[i], want.LogProbs[i], want.Entropy[i])
		}
	}
	l, err := NewLearner(p, 0.7, g)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
		if !slices.Equal(m.LogProbs, got.LogProbs) || !slices.Equal(m.Entropy, got.Entropy) {
			t.Error("the learner has other bits than the scorer")
		}
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Three updates with clipping and decay have the CPU's numbers, and a gradient
// that is not finite changes nothing.
func TestGPUAdamW(t *testing.T) {
	g := testGPU(t, "float32")
	spec := Spec{tokenizer.VocabSize, 16, 2}
	run := func(on model.Device) (p *Weights, norms []float64, opt *model.AdamW) {
		p = randomModel(t, spec, 1)
		b := randomBatch(t, p, 3, 2, 6)
		opt = model.NewAdamW(p.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1})
		l, err := NewLearner(p, 1, on)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		step := func() {
			norm, err := opt.Step(p.Params, l.Grads(), 1e-2, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			norms = append(norms, norm)
		}
		for range 3 {
			l.ZeroGrads()
			if _, err := l.Accumulate(b, meanLogProb(tokensOf(b))); err != nil {
				t.Fatal(err)
			}
			step()
		}
		pull(t, l.Grads())
		l.Grads().Flat[5] = float32(math.NaN())
		if err := l.Grads().Push(); err != nil {
			t.Fatal(err)
		}
		step()
		for _, x := range []*model.Params{p.Params, opt.M, opt.V} {
			pull(t, x)
		}
		return p, norms, opt
	}
	want, wantNorms, wantOpt := run(threads(t, 1))
	got, norms, opt := run(g)
	near32(t, "weights", got.Flat, want.Flat, 1e-4, 1e-5)
	near32(t, "first moments", opt.M.Flat, wantOpt.M.Flat, 1e-4, 1e-6)
	near32(t, "second moments", opt.V.Flat, wantOpt.V.Flat, 1e-3, 1e-8)
	for i := range 3 {
		if !near(norms[i], wantNorms[i], 1e-4, 1e-6) {
			t.Errorf("norm %d is %v, the CPU's %v", i, norms[i], wantNorms[i])
		}
	}
	if !math.IsNaN(norms[3]) || opt.T != 3 {
		t.Errorf("a gradient with NaN: norm %v, %d updates, want NaN and 3", norms[3], opt.T)
	}
}

func TestGPUFinite(t *testing.T) {
	g := testGPU(t, "float32")
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 1}, 1)
	if err := g.place(p.Params); err != nil {
		t.Fatal(err)
	}
	if name, ok := p.Finite(); !ok {
		t.Errorf("%s is not finite", name)
	}
	p.HeadB[3] = float32(math.Inf(1))
	if err := p.Push(); err != nil {
		t.Fatal(err)
	}
	if name, ok := p.Finite(); ok || name != "head.bias" {
		t.Errorf("Finite() = %q, %v, want head.bias, false", name, ok)
	}
}
