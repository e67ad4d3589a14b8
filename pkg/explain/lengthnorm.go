package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"grpo/internal/textutil"
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

// widestMatrix is the number of columns up to which a matrix is printed.
const widestMatrix = 12

// WriteText writes the tables and the conclusions.
func (r LengthNormResult) WriteText(w io.Writer) error {
	p := &page{}
	p.title("Length normalization: mean over a completion's tokens, or sum over a constant")
	p.title("ratio %s for every token, advantages %s, lengths %s of %d tokens",
		short(r.Ratio), list(r.Advantages, short), each(r.Lengths, ", ", strconv.Itoa), r.MaxLength)
	table := [][]string{{"form", "divides by", "each completion", "objective", "gradient of each token"}}
	for _, f := range r.Forms {
		name, divisor := string(f.Aggregation), short(f.Constant)
		switch f.Aggregation {
		case rl.MaskedMeanSeq:
			divisor = "its length"
		case rl.Constant:
			name = "constant (2026)"
		}
		table = append(table, []string{
			name, divisor, list(f.PerSequence, num), num(f.Objective), list(f.TokenGradient, num),
		})
	}
	p.table("l", table...)
	p.gap()
	p.paragraph(`Each completion: ratio * advantage, reduced over its tokens. Objective: the mean over completions (for
		constant: the sum). Gradient: d objective / d ratio, equal for all tokens of a completion and 0 outside the
		mask.`)
	if r.MaxLength <= widestMatrix {
		for _, f := range r.Forms[:2] {
			p.gap()
			p.line("gradient under %s", f.Aggregation)
			for _, row := range f.Gradient {
				p.line("  %s", each(row, "  ", num))
			}
		}
	}
	p.meaning()
	shortest, longest := slices.Min(r.Lengths), slices.Max(r.Lengths)
	norm, constant := r.Forms[1], r.Forms[2]
	if shortest == longest {
		p.point(`All completions have the same length, so masked_mean and masked_normalize differ only by the factor
			%s/%d, which acts as a learning rate. Give different --lengths to see the rest.`,
			short(norm.Constant), longest)
	} else {
		p.point(`Under masked_mean a token of the completion of %s weighs %s times as much as one of the completion
			of %d, because its gradient is divided by its own completion's length. Correct answers (A > 0) are
			reinforced more per token when they are short. Wrong answers (A < 0) are penalized less per token when they
			are long, so a policy that fails can reduce its penalty by failing at greater length.`,
			textutil.Count(shortest, "token"), digits(float64(longest)/float64(shortest), 3), longest)
		p.point(`Under masked_normalize every token weighs the same, 1/(B Z) = %s for an advantage of 1, whatever
			the length. A completion counts in proportion to its length (here %s). Length alone gains or loses nothing.`,
			num(1/(float64(len(r.Lengths))*norm.Constant)), r.lengthsOver(norm.Constant))
	}
	p.point(`The constant scales the gradient and so acts as a learning rate: halve it, and the gradient doubles.
		Choose it once (for example the sampling limit) and keep it throughout a comparison.`)
	p.point(`"Divide by a constant" can mean two things. The 2025 assignment divides each completion's sum by Z
		and takes the mean over the %d completions. The 2026 assignment divides the sum over all tokens by Z, which
		is %d times as large here (%s instead of %s). In this project masked_normalize is the 2025 form and constant
		the 2026 form.`, len(r.Lengths), len(r.Lengths), num(constant.Objective), num(norm.Objective))
	return p.writeTo(w)
}

func (r LengthNormResult) lengthsOver(z float64) string {
	return "[" + each(r.Lengths, ", ", func(n int) string { return short(round(float64(n)/z, 4)) }) + "]"
}
