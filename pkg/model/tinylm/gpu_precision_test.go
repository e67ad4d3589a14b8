//go:build withcuda && linux

package tinylm

import (
	"math"
	"testing"

	"grpo/pkg/model/tinylm/tokenizer"
)

// What the faster products cost: the largest change of a token's log-probability
// and the relative change of the gradient, ‖g-g₀‖/‖g₀‖, against the CPU. The costs
// are logged (cuda-check's table reads them) and bounded: each precision costs more
// than the one before, and no more than so many times an operand's rounding.
func TestGPUPrecisionCosts(t *testing.T) {
	rounding := map[string]float64{"float32": 0x1p-24, "tf32": 0x1p-11, "bf16": 0x1p-8}
	for _, steps := range []bool{false, true} {
		p := randomModel(t, Spec{tokenizer.VocabSize, 64, 2}, 1)
		b := randomBatch(t, p, 6, 4, 16)
		want, wantGrads := scored(t, p.Clone(), 1, threads(t, 1), b), gradients(t, p.Clone(), 1, b)
		logpBefore, gradBefore := 0.0, 0.0
		for _, precision := range []string{"float32", "tf32", "bf16"} {
			g := aStepAtATime(testGPU(t, precision), steps)
			grad := relativeError(gpuGradients(t, g, p, b), wantGrads)
			logp := 0.0
			for i, x := range scored(t, p, 1, g, b).LogProbs {
				if want.Mask[i] {
					logp = math.Max(logp, math.Abs(x-want.LogProbs[i]))
				}
			}
			way := "whole sequences"
			if steps {
				way = "a step at a time"
			}
			t.Logf("costs: %s | %s | %.1e | %.1e", precision, way, logp, grad)
			if bound := 64 * rounding[precision]; !(logp <= bound && grad <= bound) {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, more than %g", precision, way, logp, grad, bound)
			}
			if logp <= logpBefore || grad <= gradBefore {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, no more than in the precision before (%g, %g)", precision, way, logp, grad, logpBefore, gradBefore)
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
