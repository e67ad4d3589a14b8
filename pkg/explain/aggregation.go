package explain

import (
	"fmt"
	"io"

	"grpo/pkg/rl"
)

// AggregationOptions are the inputs of [Aggregation].
type AggregationOptions struct {
	Lengths []int // tokens of each response
	// Constant is Z of the aggregations that divide by one; 0 means the longest
	// response.
	Constant float64
}

// DefaultAggregation is a response of 100 tokens and one of 1000.
func DefaultAggregation() AggregationOptions { return AggregationOptions{Lengths: []int{100, 1000}} }

// AggregationResult is what [Aggregation] computes.
type AggregationResult struct {
	Lengths  []int             `json:"lengths"`
	Constant float64           `json:"constant"`
	Forms    []AggregationForm `json:"forms"`
}

// AggregationForm is how one aggregation weighs the responses.
type AggregationForm struct {
	Aggregation rl.Aggregation `json:"aggregation"`
	TokenWeight []float64      `json:"token_weight"` // of each token of a response
	Weight      []float64      `json:"weight"`       // of the response: length times token weight
	Share       []float64      `json:"share"`        // Weight over Total
	Total       float64        `json:"total_weight"`
}

// alias are the names that sources give to an aggregation.
var alias = map[rl.Aggregation]string{
	rl.MaskedMeanSeq:       "sequence-level; TRL grpo",
	rl.MaskedNormalizeSeq:  "constant; TRL dr_grpo, CS336 2025",
	rl.Constant:            "constant; CS336 2026",
	rl.TokenMean:           "token-level; verl, TRL dapo",
	rl.TokenSum:            "verl",
	rl.SeqMeanTokenSum:     "verl, TRL luspo",
	rl.SeqMeanTokenMean:    "sequence-level; verl",
	rl.SeqMeanTokenSumNorm: "constant; verl",
}

// Aggregation returns the weight that each aggregation of pkg/rl gives to each
// token, and so to each response, of a batch. The weight is dL/dl of the token's
// loss l, from [rl.Aggregate].
func Aggregation(o AggregationOptions) (AggregationResult, error) {
	fail := func(err error) (AggregationResult, error) {
		return AggregationResult{}, fmt.Errorf("explain aggregation: %w", err)
	}
	s, mask, err := lengthMask(o.Lengths, 0)
	if err != nil {
		return fail(err)
	}
	out := AggregationResult{Lengths: o.Lengths, Constant: o.Constant}
	if out.Constant == 0 {
		out.Constant = float64(s.T)
	}
	for _, name := range rl.Aggregations() {
		f := AggregationForm{Aggregation: rl.Aggregation(name)}
		if f.TokenWeight, err = tokenWeight(f.Aggregation, out.Constant, s, mask); err != nil {
			return fail(err)
		}
		for b, n := range o.Lengths {
			f.Weight = append(f.Weight, float64(n)*f.TokenWeight[b])
			f.Total += f.Weight[b]
		}
		for _, w := range f.Weight {
			f.Share = append(f.Share, w/f.Total)
		}
		if err := computed("a weight under "+name, append(f.Share, f.Total)...); err != nil {
			return fail(err)
		}
		out.Forms = append(out.Forms, f)
	}
	return out, nil
}

// form returns the form of an aggregation.
func (r AggregationResult) form(a rl.Aggregation) AggregationForm {
	for _, f := range r.Forms {
		if f.Aggregation == a {
			return f
		}
	}
	return AggregationForm{}
}

// WriteText writes the table and what follows from it.
func (r AggregationResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Aggregation: how much each response of a batch weighs")
	p.gap()
	p.line("lengths %s tokens, constant Z = %s", lengthList(r.Lengths), short(r.Constant))
	p.gap()
	table := [][]string{{"aggregation", "also", "share of each response", "weight of a token", "sum of weights"}}
	for _, f := range r.Forms {
		table = append(table, []string{
			string(f.Aggregation), alias[f.Aggregation], each(f.Share, " / ", percent),
			each(f.TokenWeight, " / ", func(x float64) string { return digits(x, 3) }), digits(f.Total, 3),
		})
	}
	p.table("llll", table...)
	p.gap()
	p.say("Weight of a token: the factor of its loss in the batch's loss. Share: the response's tokens together, over the sum of all weights.")
	p.gap()
	p.line("What follows")
	seq, tok, norm, constant := r.form(rl.MaskedMeanSeq), r.form(rl.TokenMean), r.form(rl.MaskedNormalizeSeq), r.form(rl.Constant)
	p.point("Sequence-level: every response weighs the same (%s), however long it is, so that a token of a long response counts less than one of a short response.", each(seq.Share, " / ", percent))
	p.point("Token-level: every token weighs the same, so that a response weighs in proportion to its length (%s). Long responses, right or wrong, dominate the update.", each(tok.Share, " / ", percent))
	p.point("With a constant every token weighs the same too (%s): masked_normalize differs from token-mean by a factor alone, %s here. But that factor depends on the batch's lengths: token-mean divides by the tokens that happen to be there, the constant does not, so that a batch of long responses makes a larger step.",
		each(norm.Share, " / ", percent), digits(norm.Total, 3))
	p.point("The sum of the weights acts as a learning rate: 1 for the means, %s for masked_normalize, %s for constant, %s for token-sum. Compare aggregations at equal sums, or say that you did not.",
		digits(norm.Total, 3), digits(constant.Total, 3), digits(r.form(rl.TokenSum).Total, 3))
	return p.err
}
