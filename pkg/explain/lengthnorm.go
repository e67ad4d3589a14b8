package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"grpo/pkg/rl"
)

// LengthNormOptions are the inputs of [LengthNorm].
type LengthNormOptions struct {
	Lengths   []int // tokens of each completion
	MaxLength int   // number of columns T; 0 = the longest completion
	// Masks replace Lengths: one row for each completion, all of equal length.
	Masks      [][]bool
	Advantages []float64 // one for each completion, or a single one for all
	Ratio      float64   // importance ratio of every token
	Constant   float64   // divisor of masked_normalize; 0 = T
}

// DefaultLengthNorm is the assignment's example: ratios of 1, advantages of 2,
// and 4 and 7 of 7 tokens.
func DefaultLengthNorm() LengthNormOptions {
	return LengthNormOptions{Lengths: []int{4, 7}, Advantages: []float64{2}, Ratio: 1}
}

// LengthNormResult is the result of [LengthNorm].
type LengthNormResult struct {
	Lengths    []int            `json:"lengths"`
	MaxLength  int              `json:"max_length"`
	Ratio      float64          `json:"ratio"`
	Advantages []float64        `json:"advantages"`
	Mask       [][]int          `json:"mask"`
	Forms      []LengthNormForm `json:"forms"`
}

// LengthNormForm is one way to reduce the tokens of a batch to one number.
type LengthNormForm struct {
	Aggregation   rl.Aggregation `json:"aggregation"`
	Constant      float64        `json:"constant,omitempty"` // divisor of the sum; none for masked_mean
	PerSequence   []float64      `json:"per_sequence"`       // (B): ratio * A reduced over each completion's tokens
	Objective     float64        `json:"objective"`          // of the whole batch
	Gradient      [][]float64    `json:"gradient"`           // (B, T): d objective / d ratio
	TokenGradient []float64      `json:"token_gradient"`     // (B): of each token of a completion
}

// LengthNorm reduces ratio * A over the tokens of each completion, as a mean (masked_mean) and as a
// sum over a constant (masked_normalize), takes the mean over completions, and differentiates with
// respect to the ratio of each token:
//
//	masked_mean       J = 1/B sum_b 1/n_b sum_t r A     dJ/dr = A / (B n_b)
//	masked_normalize  J = 1/B sum_b 1/Z   sum_t r A     dJ/dr = A / (B Z)
//	constant          J = 1/Z sum_b sum_t r A           dJ/dr = A / Z
//
// The last one is the 2026 assignment's form, without a mean over completions.
func LengthNorm(o LengthNormOptions) (out LengthNormResult, err error) {
	defer named("lengthnorm", &err)
	s, mask, err := o.mask()
	if err != nil {
		return out, err
	}
	adv := o.Advantages
	if len(adv) == 1 {
		adv = slices.Repeat(adv, s.B)
	}
	if len(adv) != s.B {
		return out, fmt.Errorf("%d advantages for %d completions (give one for each, or one for all)", len(adv), s.B)
	}
	z := cmp.Or(o.Constant, float64(s.T))
	if err := finite("ratio, constant or an advantage", append([]float64{o.Ratio, z}, adv...)...); err != nil {
		return out, err
	}
	out = LengthNormResult{
		Lengths: rowLengths(s, mask), MaxLength: s.T, Ratio: o.Ratio, Advantages: adv, Mask: maskRows(s, mask),
	}
	terms := make([]float64, s.Len())
	for i := range terms {
		terms[i] = o.Ratio * adv[i/s.T]
	}
	for _, a := range []rl.Aggregation{rl.MaskedMeanSeq, rl.MaskedNormalizeSeq, rl.Constant} {
		f := LengthNormForm{Aggregation: a}
		if a == rl.MaskedMeanSeq {
			f.PerSequence, err = rl.MaskedMean(terms, mask, []int{s.B, s.T}, -1)
		} else {
			f.Constant = z
			f.PerSequence, err = rl.MaskedNormalize(terms, mask, []int{s.B, s.T}, -1, z)
		}
		if err != nil {
			return out, err
		}
		grad := make([]float64, s.Len())
		if f.Objective, err = rl.Aggregate(a, z, s, terms, mask, rl.Totals{}, grad); err != nil {
			return out, err
		}
		f.TokenGradient = make([]float64, s.B)
		for i := range grad {
			// The weight is d objective / d (r A); the chain rule adds a factor A.
			grad[i] *= adv[i/s.T]
			if mask[i] {
				f.TokenGradient[i/s.T] = grad[i]
			}
		}
		f.Gradient = rows(s, grad)
		err := computed("an objective or gradient of "+string(a), grad, f.PerSequence, []float64{f.Objective})
		if err != nil {
			return out, err
		}
		out.Forms = append(out.Forms, f)
	}
	return out, nil
}

func (o LengthNormOptions) mask() (rl.Shape, []bool, error) {
	if len(o.Masks) == 0 {
		return lengthMask(o.Lengths, o.MaxLength)
	}
	s := rl.Shape{B: len(o.Masks), T: len(o.Masks[0])}
	if s.T == 0 || s.T > maxTokens || s.B > maxTokens/s.T {
		return s, nil, fmt.Errorf("masks of shape %v: there must be 1 to %d tokens", s, maxTokens)
	}
	var mask []bool
	for b, row := range o.Masks {
		if len(row) != s.T {
			return s, nil, fmt.Errorf("mask %d has %d tokens, mask 0 has %d (pad the shorter one with 0)", b, len(row), s.T)
		}
		if !slices.Contains(row, true) {
			return s, nil, fmt.Errorf("mask %d has no token (the mean of no values is 0/0)", b)
		}
		mask = append(mask, row...)
	}
	return s, mask, nil
}

// Name is the form's name in the table, Divisor what it divides by.
func (f LengthNormForm) Name() string {
	if f.Aggregation == rl.Constant {
		return "constant (2026)"
	}
	return string(f.Aggregation)
}

func (f LengthNormForm) Divisor() string {
	if f.Aggregation == rl.MaskedMeanSeq {
		return "its length"
	}
	return short(f.Constant)
}

// WriteText writes the tables and the conclusions.
func (r LengthNormResult) WriteText(w io.Writer) error {
	page := struct {
		LengthNormResult
		Matrices          []LengthNormForm // whose gradients are printed
		Normalize, Sum    LengthNormForm
		Shortest, Longest int
		TokenWeight       float64 // under masked_normalize
		LengthsOverZ      []float64
	}{
		LengthNormResult: r, Normalize: r.Forms[1], Sum: r.Forms[2],
		Shortest: slices.Min(r.Lengths), Longest: slices.Max(r.Lengths),
		TokenWeight: 1 / (float64(len(r.Lengths)) * r.Forms[1].Constant),
	}
	if r.MaxLength <= widestMatrix {
		page.Matrices = r.Forms[:2]
	}
	for _, n := range r.Lengths {
		page.LengthsOverZ = append(page.LengthsOverZ, round(float64(n)/page.Normalize.Constant, 4))
	}
	return writePage(w, "lengthnorm", page)
}
