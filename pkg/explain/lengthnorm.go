package explain

import (
	"fmt"
	"io"
	"slices"

	"grpo/pkg/rl"
)

// LengthNormOptions are the inputs of [LengthNorm].
type LengthNormOptions struct {
	Lengths []int // tokens of each completion
	// MaxLength is the number of columns T; 0 means the longest completion.
	MaxLength int
	// Masks give the tokens instead of Lengths, one row for each completion, all
	// of equal length.
	Masks [][]bool
	// Advantages are one for each completion, or a single one for all.
	Advantages []float64
	// Ratio is the importance ratio of every token.
	Ratio float64
	// Constant is what masked_normalize divides by; 0 means T.
	Constant float64
}

// DefaultLengthNorm is the assignment's example: ratios of 1, advantages of 2,
// and 4 and 7 of 7 tokens.
func DefaultLengthNorm() LengthNormOptions {
	return LengthNormOptions{Lengths: []int{4, 7}, Advantages: []float64{2}, Ratio: 1}
}

// LengthNormResult is what [LengthNorm] computes.
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
	Aggregation rl.Aggregation `json:"aggregation"`
	// Constant is what a sum is divided by; absent for masked_mean.
	Constant float64 `json:"constant,omitempty"`
	// PerSequence (B) is ratio * A reduced over the tokens of each completion.
	PerSequence []float64 `json:"per_sequence"`
	// Objective is that of the whole batch.
	Objective float64 `json:"objective"`
	// Gradient (B, T) is d objective / d ratio.
	Gradient [][]float64 `json:"gradient"`
	// TokenGradient (B) is the gradient of each token of a completion.
	TokenGradient []float64 `json:"token_gradient"`
}

// LengthNorm reduces ratio * A over the tokens of each completion, once by their
// mean (masked_mean) and once by their sum over a constant (masked_normalize),
// takes the mean over completions, and differentiates it by the ratio of each
// token:
//
//	masked_mean       J = 1/B sum_b 1/n_b sum_t r A     dJ/dr = A / (B n_b)
//	masked_normalize  J = 1/B sum_b 1/Z   sum_t r A     dJ/dr = A / (B Z)
//	constant          J = 1/Z sum_b sum_t r A           dJ/dr = A / Z
//
// The last is the 2026 assignment's form, without a mean over completions.
func LengthNorm(o LengthNormOptions) (LengthNormResult, error) {
	fail := func(err error) (LengthNormResult, error) {
		return LengthNormResult{}, fmt.Errorf("explain lengthnorm: %w", err)
	}
	s, mask, err := o.mask()
	if err != nil {
		return fail(err)
	}
	adv := o.Advantages
	if len(adv) == 1 {
		adv = make([]float64, s.B)
		for b := range adv {
			adv[b] = o.Advantages[0]
		}
	}
	if len(adv) != s.B {
		return fail(fmt.Errorf("%d advantages for %d completions (give one for each, or one for all)", len(adv), s.B))
	}
	z := o.Constant
	if z == 0 {
		z = float64(s.T)
	}
	if err := finite("a number", append([]float64{o.Ratio, z}, adv...)...); err != nil {
		return fail(err)
	}
	out := LengthNormResult{Lengths: rowLengths(s, mask), MaxLength: s.T, Ratio: o.Ratio, Advantages: adv}
	terms := make([]float64, s.Len())
	for i := range terms {
		terms[i] = o.Ratio * adv[i/s.T]
	}
	for b := range s.B {
		row := make([]int, s.T)
		for t := range row {
			if mask[b*s.T+t] {
				row[t] = 1
			}
		}
		out.Mask = append(out.Mask, row)
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
			return fail(err)
		}
		grad := make([]float64, s.Len())
		if f.Objective, err = rl.Aggregate(a, z, s, terms, mask, rl.Totals{}, grad); err != nil {
			return fail(err)
		}
		f.TokenGradient = make([]float64, s.B)
		for i := range grad {
			// The weight is d objective / d (r A); the chain rule gives a factor A.
			grad[i] *= adv[i/s.T]
			if mask[i] {
				f.TokenGradient[i/s.T] = grad[i]
			}
		}
		f.Gradient = rows(s, grad)
		if err := computed("an objective or gradient of "+string(a), slices.Concat(grad, f.PerSequence, []float64{f.Objective})...); err != nil {
			return fail(err)
		}
		out.Forms = append(out.Forms, f)
	}
	return out, nil
}

// mask returns the mask that the options ask for.
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
		mask = append(mask, row...)
	}
	for b, n := range rowLengths(s, mask) {
		if n == 0 {
			return s, nil, fmt.Errorf("mask %d has no token (the mean over nothing is 0/0)", b)
		}
	}
	return s, mask, nil
}

// widestMatrix is the number of columns up to which a matrix is printed.
const widestMatrix = 12

// WriteText writes the tables and what follows from them.
func (r LengthNormResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Length normalization: mean over a completion's tokens, or sum over a constant")
	p.gap()
	p.line("ratio %s for every token, advantages %s, lengths %s of %d tokens", short(r.Ratio), listShort(r.Advantages), lengthList(r.Lengths), r.MaxLength)
	p.gap()
	table := [][]string{{"form", "divides by", "each completion", "objective", "gradient of each token"}}
	for _, f := range r.Forms {
		table = append(table, []string{formName(f.Aggregation), r.divisor(f), list(f.PerSequence), num(f.Objective), list(f.TokenGradient)})
	}
	p.table("lllll", table...)
	p.gap()
	p.say("Each completion: ratio * advantage reduced over its tokens. Objective: their mean over completions (for constant: the sum). Gradient: d objective / d ratio, the same for all tokens of a completion, 0 outside the mask.")
	if r.MaxLength <= widestMatrix {
		for _, f := range r.Forms[:2] {
			p.gap()
			p.line("gradient under %s", f.Aggregation)
			for _, row := range f.Gradient {
				p.line("  %s", each(row, "  ", num))
			}
		}
	}
	p.gap()
	p.line("What follows")
	r.writeConsequences(p)
	return p.err
}

func (r LengthNormResult) divisor(f LengthNormForm) string {
	if f.Aggregation == rl.MaskedMeanSeq {
		return "its length"
	}
	return short(f.Constant)
}

func formName(a rl.Aggregation) string {
	if a == rl.Constant {
		return "constant (2026)"
	}
	return string(a)
}

// writeConsequences says what the numbers mean for the shortest and the longest
// completion.
func (r LengthNormResult) writeConsequences(p *printer) {
	lo, hi := 0, 0
	for b, n := range r.Lengths {
		if n < r.Lengths[lo] {
			lo = b
		}
		if n > r.Lengths[hi] {
			hi = b
		}
	}
	norm, constant := r.Forms[1], r.Forms[2]
	least, most := r.Lengths[lo], r.Lengths[hi]
	if least == most {
		p.point("The completions are equally long, so masked_mean and masked_normalize differ by the factor %s/%s alone, which acts as a learning rate. Give unlike --lengths to see the rest.",
			short(norm.Constant), short(float64(most)))
	} else {
		p.point("Under masked_mean a token of the completion of %s weighs %s times one of the completion of %d: its share of the gradient is divided by its own length. Right answers (A > 0) are reinforced more for each token when they are short, and wrong answers (A < 0) are punished less for each token when they are long. So a policy that fails can lower its punishment by failing at greater length.",
			count(least, "token"), digits(float64(most)/float64(least), 3), most)
		p.point("Under masked_normalize every token weighs the same, 1/(B Z) = %s for an advantage of 1, whatever the length; a completion counts in proportion to its length (here %s). Nothing is gained or lost by length alone.",
			num(1/(float64(len(r.Lengths))*norm.Constant)), listShort(lengthsOver(r.Lengths, norm.Constant)))
	}
	p.point("The constant sets the scale of the gradient and so acts as a learning rate: halve it, and the gradient doubles. Choose it once (the sampling limit, say) and keep it through a comparison.")
	p.point("\"Divide by a constant\" is said of two forms. The 2025 assignment divides each completion's sum by Z and takes the mean over the %d completions; the 2026 one divides the sum over all tokens by Z, which here is %s times as large (%s against %s). This project's masked_normalize is the 2025 form, constant is the 2026 one.",
		len(r.Lengths), short(float64(len(r.Lengths))), num(constant.Objective), num(norm.Objective))
}

// lengthsOver divides lengths by z, rounded for reading.
func lengthsOver(lengths []int, z float64) []float64 {
	out := make([]float64, len(lengths))
	for i, n := range lengths {
		out[i] = round(float64(n)/z, 4)
	}
	return out
}
