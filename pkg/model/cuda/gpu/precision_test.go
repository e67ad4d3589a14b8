//go:build withcuda && linux

package gpu

import (
	"math"
	"testing"

	"grpo/internal/tinylmtest"
)

// The errors of the faster matmuls: the largest change of a token's log-probability
// and the relative change of the gradient, ‖g-g₀‖/‖g₀‖, against the CPU. They are
// logged for cuda-check's table and bounded by 64 times the rounding of an operand. On
// the emulator each precision has a larger error than the one before; a card's cuBLAS
// may round some operands less than it is allowed to.
func TestGPUPrecisionCosts(t *testing.T) {
	rounding := map[string]float64{"float32": 0x1p-24, "tf32": 0x1p-11, "bf16": 0x1p-8}
	for _, steps := range []bool{false, true} {
		p := tinylmtest.Weights(t, tinylmtest.Spec(64, 2), 1)
		b := tinylmtest.Batch(t, p, 6, 4, 16)
		want, wantGrads := tinylmtest.Score(t, p.Clone(), 1, tinylmtest.Pool(t, 1), b), tinylmtest.Gradients(t, p.Clone(), tinylmtest.Pool(t, 1), b)
		logpBefore, gradBefore := 0.0, 0.0
		for _, precision := range []string{"float32", "tf32", "bf16"} {
			g := stepByStep(testGPU(t, precision), steps)
			grad := relativeError(tinylmtest.Gradients(t, p, g, b), wantGrads)
			logp := 0.0
			for i, x := range tinylmtest.Score(t, p, 1, g, b).LogProbs {
				if want.Mask[i] {
					logp = math.Max(logp, math.Abs(x-want.LogProbs[i]))
				}
			}
			how := "fused"
			if steps {
				how = "step by step"
			}
			t.Logf("costs: %s | %s | %.1e | %.1e", precision, how, logp, grad)
			if bound := 64 * rounding[precision]; !(logp <= bound && grad <= bound) {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, more than %g", precision, how, logp, grad, bound)
			}
			if !onCard() && (logp <= logpBefore || grad <= gradBefore) {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, no more than in the previous precision (%g, %g)", precision, how, logp, grad, logpBefore, gradBefore)
			}
			logpBefore, gradBefore = logp, grad
			g.Close()
		}
	}
}

func relativeError(got, want []float32) float64 {
	var diff, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(diff / norm)
}
