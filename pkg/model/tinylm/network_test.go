package tinylm_test

import (
	"fmt"
	"testing"

	"grpo/internal/tinylmtest"
)

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
