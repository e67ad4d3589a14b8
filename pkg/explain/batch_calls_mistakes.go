package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/rl"
)

// mistake is a result with a common mistake in it: "without the clip".
type mistake struct {
	what string
	x    []float64
}

// hintOf says which mistake gives the numbers in the file, or how all of them relate to the right ones; "" if it
// knows none.
func hintOf(got, want []float64, known []mistake) string {
	var same []string
	for _, m := range known {
		if agreeAll(got, m.x) && !agreeAll(want, m.x) && !slices.Contains(same, m.what) {
			same = append(same, m.what)
		}
	}
	switch {
	case agreeAll(got, scaled(want, -1)):
		return "The sign is turned: a loss is minus what is maximized."
	case len(same) > 0:
		return "These are the numbers " + strings.Join(same[:min(len(same), 2)], ", or ") + "."
	case agreeAll(got, make([]float64, len(got))):
		return "All are 0: is the graph cut (detach, no_grad, item), or was backward not called?"
	case slices.ContainsFunc(got, math.IsNaN):
		return "NaN comes from 0/0 (a mean over an empty mask, a group of equal rewards without advantage_eps), from " +
			"the logarithm of 0, or from a token that the mask leaves out by a product, as 0 * inf."
	}
	if factor := commonFactor(got, want); factor != 0 {
		return "Every number is " + digits(factor, 5) + " times the expected one."
	}
	return ""
}

func agreeAll(got, want []float64) bool {
	return slices.EqualFunc(got, want, agrees)
}

func scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}

func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		if v != 0 { // y can be NaN where nothing counts
			sum += v * y[i]
		}
	}
	return sum
}

// commonFactor is the factor between two lists of numbers, of which at least two are not 0; otherwise 0.
func commonFactor(got, want []float64) float64 {
	most, n := 0, 0
	for i, w := range want {
		if w != 0 {
			n++
		}
		if math.Abs(w) > math.Abs(want[most]) {
			most = i
		}
	}
	if factor := got[most] / want[most]; n > 1 && factor-factor == 0 && agreeAll(got, scaled(want, factor)) {
		return factor
	}
	return 0
}

// weightMistakes are weights of each token in a loss (B, T), with common mistakes in the mask, the normalization
// or the division by the number of micro-batches, of which each has size sequences: all B, or fewer where the loss is
// that of a whole step.
func weightMistakes(s rl.Shape, mask []bool, a rl.Aggregation, z float64, steps, size int) (out []mistake) {
	k, b, t := float64(steps), float64(size), float64(s.T)
	// Tokens of each sequence, and of each micro-batch those at each place, and all.
	rows, columns, all := make([]float64, s.B), make([]float64, s.B/size*s.T), make([]float64, s.B/size)
	for i, in := range mask {
		if in {
			batch := i / s.T / size
			rows[i/s.T]++
			columns[batch*s.T+i%s.T]++
			all[batch]++
		}
	}
	// over is a share of a token in the mask; 0 for others, where the divisor can be 0 too.
	over := func(in, divisor float64) float64 {
		if in == 0 {
			return 0
		}
		return in / divisor
	}
	with := func(what string, weight func(row, column int, in float64) float64) {
		x := make([]float64, len(mask))
		for i, in := range mask {
			x[i] = weight(i/s.T, i%s.T, map[bool]float64{true: 1}[in])
		}
		out = append(out, mistake{what, x})
	}
	constant := a != rl.MaskedMeanSeq
	row := func(r int) float64 { // the divisor of a sequence's sum
		if constant {
			return z
		}
		return rows[r]
	}
	if a == rl.Constant {
		with("with a mean over the sequences, after the division by the constant",
			func(r, _ int, in float64) float64 { return in / (z * b) })
		with("without the division by the constant", func(_, _ int, in float64) float64 { return in })
		with("of a masked_mean of each sequence in place of the constant",
			func(r, _ int, in float64) float64 { return over(in, rows[r]*b) })
		with("with all tokens, the mask left out", func(_, _ int, _ float64) float64 { return 1 / z })
		return out
	}
	if steps > 1 {
		with(fmt.Sprintf("without the division by gradient_accumulation_steps (%d)", steps),
			func(r, _ int, in float64) float64 { return over(in, row(r)*b) })
		with(fmt.Sprintf("divided twice by gradient_accumulation_steps (%d)", steps),
			func(r, _ int, in float64) float64 { return over(in, row(r)*b*k*k) })
	}
	with("with a sum over the sequences in place of their mean",
		func(r, _ int, in float64) float64 { return over(in, row(r)*k) })
	if constant {
		with("without the division by normalize_constant", func(_, _ int, in float64) float64 { return in / (b * k) })
		with("with all tokens, the mask left out", func(_, _ int, _ float64) float64 { return 1 / (z * b * k) })
		with("of a masked_mean of each sequence in place of masked_normalize",
			func(r, _ int, in float64) float64 { return over(in, rows[r]*b*k) })
		with("with a mean over all of the response's tokens, in place of a sum over each sequence",
			func(r, _ int, in float64) float64 { return over(in, all[r/size]*k) })
		return out
	}
	with("of one masked_mean over all tokens (dim=None), in place of each sequence's and then their mean",
		func(r, _ int, in float64) float64 { return over(in, all[r/size]*k) })
	if !slices.Contains(rows, 0) { // else a mean over each sequence is NaN, too
		with("of a masked_mean over the wrong dimension (dim=0, the sequences)",
			func(r, c int, in float64) float64 {
				of := columns[r/size*s.T+c]
				if of == 0 {
					return math.NaN()
				}
				return in / (of * t * k)
			})
	}
	with("with all tokens, the mask left out", func(_, _ int, _ float64) float64 { return 1 / (t * b * k) })
	with("of a sum over the mask divided by the padded length, in place of the number of its tokens",
		func(_, _ int, in float64) float64 { return in / (t * b * k) })
	with("of a sum over each sequence, not divided by its length",
		func(_, _ int, in float64) float64 { return in / (b * k) })
	if !slices.Contains(rows, t) {
		with("with the mask upside down", func(r, _ int, in float64) float64 { return (1 - in) / ((t - rows[r]) * b * k) })
	}
	return out
}

// stepMistakes are the losses and gradients of a train step with a mistake in the loss of each token, or in the
// aggregation, of the loss of a micro-batch or of a whole step.
func (p policyCall) stepMistakes(steps int, whole bool) (losses, grads []mistake) {
	size := p.Shape.B
	switch {
	case p.cfg.Aggregation == rl.Constant, whole && size%max(1, steps) != 0:
		steps = 1 // constant: whatever the micro-batches
	case whole:
		size /= max(1, steps)
	}
	right := make([]float64, p.Shape.Len())
	_, err := rl.Aggregate(p.cfg.Aggregation, p.cfg.NormalizeConstant, p.Shape, right, p.Mask, p.Totals, right)
	if err != nil {
		return nil, nil
	}
	add := func(what string, weights []float64, l tokenLoss) {
		grad := make([]float64, len(weights))
		for i, w := range weights {
			if w != 0 {
				grad[i] = w * l.slope[i]
			}
		}
		losses = append(losses, mistake{what, []float64{dot(weights, l.value)}})
		grads = append(grads, mistake{what, grad})
	}
	for _, m := range p.mistakes() {
		add(m.what, right, m.tokenLoss)
	}
	every := p // the loss of tokens that the mask leaves out, too
	every.Mask = slices.Repeat([]bool{true}, p.Shape.Len())
	l, err := every.tokens()
	if err != nil || p.cfg.Level == rl.SequenceLevel { // the tokens of a sequence share their gradient
		return losses, grads
	}
	for _, w := range weightMistakes(p.Shape, p.Mask, p.cfg.Aggregation, p.cfg.NormalizeConstant, steps, size) {
		add(w.what, w.x, l)
	}
	return losses, grads
}
