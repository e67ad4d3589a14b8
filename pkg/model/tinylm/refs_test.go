package tinylm

import (
	"math"
	"slices"

	"grpo/pkg/model/kernel"
)

// Simple float64 references of the fused ops, on the packed layout. Output entries that no sequence
// uses are NaN: the tests do not compare them, send no gradient there, and poison them.

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

func refLinear(x, w []float64, first, rows, in, out, capRows int) []float64 {
	y := nans(capRows * out)
	kernel.ReferenceGemm(false, true, rows, out, in, x[first*in:], in, w, in, false, y, out)
	return y
}

func refGRU(gi, h0, whh, bih, bhh []float64, active []int, h, capRows int) []float64 {
	out := nans(capRows * h)
	first := out[:active[0]*h]
	clear(first)
	copy(first, h0)
	prev, at, in := 0, active[0], 0
	for _, n := range active[1:] {
		gh := refLinear(out, whh, prev, n, h, 3*h, n)
		kernel.ReferenceGRUForward(n, h, gi[in*3*h:], gh, bih, bhh, out[prev*h:], out[at*h:], nil)
		prev, at, in = at, at+n, in+n
	}
	return out
}

// refHeadRow returns log-probability of the target and entropy.
func refHeadRow(x, w, b []float64, target int, temperature float64) (logp, entropy float64) {
	logits, out := slices.Clone(b), make([]float64, 2)
	kernel.ReferenceGemm(false, true, 1, len(b), len(x), x, len(x), w, len(x), true, logits, len(b))
	kernel.ReferenceLogSoftmaxGather(1, len(b), logits, 1/temperature, []int{target}, out[:1], out[1:], make([]float64, len(b)))
	return out[0], out[1]
}

func refValue(x, w []float64, b float64) float64 {
	for k := range x {
		b += w[k] * x[k]
	}
	return b
}
