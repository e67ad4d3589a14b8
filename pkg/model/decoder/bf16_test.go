package decoder

import (
	"math"
	"slices"
	"testing"
)

// logProbsAndGradient are those of the sequences of a case, with the sum of the log-
// probabilities as the loss.
func logProbsAndGradient(t *testing.T, net *Network, c *goldenCase, threads int) (logp, grad []float32) {
	segments, places, targets := c.sequences()
	grads := newNetwork(net.Config)
	g := newTestGraph(t, net, grads, segments, threads)
	logp, _ = gradients(t, g, places, targets, 1, func(logp, _ []float32) ([]float32, []float32) {
		return slices.Repeat([]float32{1}, len(logp)), make([]float32, len(logp))
	})
	return logp, grads.Params.Flat
}

// bf16 changes log-probabilities and gradients by no more than the rounding of their
// operands, and gives the same bits for any number of threads.
func TestGoldenBF16(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		want, wantGrad := logProbsAndGradient(t, net, c, 2)
		net.useBF16()
		got, gotGrad := logProbsAndGradient(t, net, c, 2)
		again, againGrad := logProbsAndGradient(t, net, c, 3)
		if !slices.Equal(got, again) || !slices.Equal(gotGrad, againGrad) {
			t.Error("2 and 3 threads differ")
		}
		if slices.Equal(got, want) {
			t.Error("bf16 and float32 do not differ")
		}
		largest, square, off := 0.0, 0.0, 0.0
		for i, w := range want {
			largest = max(largest, math.Abs(float64(got[i]-w)))
		}
		for i, w := range wantGrad {
			square += float64(w) * float64(w)
			off += math.Pow(float64(gotGrad[i]-w), 2)
		}
		relative := math.Sqrt(off / square)
		t.Logf("largest difference of a log-probability %.4f, of the gradient %.4f of its norm", largest, relative)
		if largest > 0.1 || !(relative < 0.04) {
			t.Errorf("log-probabilities differ by up to %v, the gradient by %v of its norm", largest, relative)
		}
	})
}
