package tinylm_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

func TestGradientsDoNotDependOnThreads(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(64, 2), 1)
	b := tinylmtest.Batch(t, p, 20, 4, 24)
	want := tinylmtest.Gradients(t, p, tinylmtest.Pool(t, 1), b)
	for _, threads := range []int{2, 3, 5} {
		if !slices.Equal(tinylmtest.Gradients(t, p, tinylmtest.Pool(t, threads), b), want) {
			t.Errorf("gradients differ between 1 and %d threads", threads)
		}
	}
}

// Sharing a prompt, splitting the batch, and using a graph built for a larger batch change the
// gradient by rounding only.
func TestGradientsDoNotDependOnLayout(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(24, 2), 1)
	b := tinylmtest.Batch(t, p, 6, 4, 24)
	want := tinylmtest.Gradients(t, p, tinylmtest.Pool(t, 1), b)
	check := func(name string, got []float32) {
		t.Helper()
		var worst float64
		for i := range want {
			worst = math.Max(worst, math.Abs(float64(got[i]-want[i])))
		}
		if worst > 1e-6 {
			t.Errorf("%s: gradients differ by %g", name, worst)
		}
	}
	alone := &model.Batch{}
	for _, r := range b.Rows {
		alone.Prompts = append(alone.Prompts, b.Prompts[r.Prompt])
		alone.Rows = append(alone.Rows, model.Row{Prompt: len(alone.Prompts) - 1, Tokens: r.Tokens})
	}
	check("a prompt for each completion", tinylmtest.Gradients(t, p, tinylmtest.Pool(t, 1), alone))
	var pieces []*model.Batch
	for at := 0; at < len(b.Rows); at += 5 { // cuts through groups
		pieces = append(pieces, &model.Batch{Prompts: b.Prompts, Rows: b.Rows[at:min(at+5, len(b.Rows))]})
	}
	check("micro-batches", tinylmtest.Gradients(t, p, tinylmtest.Pool(t, 1), pieces...))

	pool := tinylmtest.Pool(t, 1)
	l, err := tinylm.NewLearner(p, 1, pool)
	expect.OK(t, err)
	defer l.Close()
	for range 2 { // small, large, small: the second small one runs in a larger graph, after other numbers
		expect.OK(t, expect.Err(l.Accumulate(b, tinylmtest.MeanLogProb(tinylmtest.Tokens(b)))))
		big := tinylmtest.Batch(t, p, 30, 8, 40)
		expect.OK(t, expect.Err(l.Accumulate(big, tinylmtest.MeanLogProb(tinylmtest.Tokens(big)))))
		l.ZeroGrads()
	}
	expect.OK(t, expect.Err(l.Accumulate(b, tinylmtest.MeanLogProb(tinylmtest.Tokens(b)))))
	check("a larger graph", l.Grads().Flat)
}

func TestAccumulateRefusesBadBatches(t *testing.T) {
	p := tinylmtest.Weights(t, tinylm.Spec{20, 8, 1}, 1)
	pool := tinylmtest.Pool(t, 1)
	l, err := tinylm.NewLearner(p, 1, pool)
	expect.OK(t, err)
	if _, err := l.Accumulate(&model.Batch{}, tinylmtest.MeanLogProb(1)); err == nil {
		t.Error("an empty batch is taken")
	}
	failing := fmt.Errorf("the objective's own reason")
	good := &model.Batch{Prompts: [][]int{{1}}, Rows: []model.Row{{Prompt: 0, Tokens: []int{1}}}}
	if _, err := l.Accumulate(good, func(*model.TokenMatrix) (float64, error) { return 0, failing }); err == nil || !strings.Contains(err.Error(), failing.Error()) {
		t.Errorf("error %v, want the objective's", err)
	}
	if _, err := l.Accumulate(good, tinylmtest.MeanLogProb(1)); err != nil {
		t.Errorf("after a failed pass: %v", err)
	}
}

func TestSpecs(t *testing.T) {
	if n := (tinylm.Spec{100, 64, 2}).Parameters(); n != 62820 {
		t.Errorf("the default TinyLM has %d parameters, want 62820", n)
	}
	p := tinylmtest.Weights(t, tinylm.Spec{100, 64, 2}, 1)
	if n := len(p.Flat); n != 62820 {
		t.Errorf("%d numbers, want 62820", n)
	}
	// Recurrent blocks are orthogonal, the update gate's bias is 1.
	h := 64
	for l, w := range p.Layer {
		for gate := range 3 {
			block := w.Whh[gate*h*h:]
			for i := range h {
				for j := range h {
					var dot float64
					for k := range h {
						dot += float64(block[i*h+k]) * float64(block[j*h+k])
					}
					want := 0.0
					if i == j {
						want = 1
					}
					if math.Abs(dot-want) > 1e-5 {
						t.Fatalf("layer %d gate %d: rows %d and %d have product %g, want %g", l, gate, i, j, dot, want)
					}
				}
			}
		}
		if w.Bih[h] != 1 || w.Bih[2*h-1] != 1 || w.Bih[0] != 0 || w.Bih[2*h] != 0 {
			t.Errorf("layer %d: bias_ih is not 1 on the update gate alone", l)
		}
	}
}

// PyTorch's numbers, with shared and separate prompts, and micro-batches.
func TestGoldenTorch(t *testing.T) {
	c := tinylmtest.ReadTorchCase(t)
	for _, shared := range []bool{true, false} {
		for _, micro := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("shared prompts %v, %d micro-batches", shared, micro), func(t *testing.T) {
				// Atol 1e-5 for the weights: PyTorch's own float32 differs from its float64 by 1e-6 here.
				c.Run(t, tinylmtest.Pool(t, 2), shared, micro, tinylmtest.Tolerance{Rtol: 1e-5, Atol: 1e-6}, tinylmtest.Tolerance{Rtol: 1e-5, Atol: 1e-5})
			})
		}
	}
}

func TestLearnerAgainstReferenceAndFiniteDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	w := tinylmtest.Weights(t, tinylmtest.Spec(7, 2), 1)
	tinylmtest.CheckLearner(t, tinylmtest.Pool(t, 2), w, tinylmtest.Batch(t, w, 3, 2, 6))
}

func TestCriticAgainstReferenceAndFiniteDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	w := tinylmtest.Weights(t, tinylmtest.Spec(7, 2), 1)
	tinylmtest.CheckCritic(t, tinylmtest.Pool(t, 2), w, tinylmtest.Batch(t, w, 3, 2, 6))
}
