package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

// AggregationOptions are the inputs of [Aggregation].
type AggregationOptions struct {
	Lengths  []int   // tokens of each completion
	Constant float64 // Z of the aggregations that divide by one; 0 = the longest completion
}

// DefaultAggregation is a completion of 100 tokens and one of 1000.
func DefaultAggregation() AggregationOptions { return AggregationOptions{Lengths: []int{100, 1000}} }

// AggregationResult is the result of [Aggregation].
type AggregationResult struct {
	Lengths  []int             `json:"lengths"`
	Constant float64           `json:"constant"`
	Forms    []AggregationForm `json:"forms"`
}

// AggregationForm has the weights of the completions under one aggregation.
type AggregationForm struct {
	Aggregation rl.Aggregation `json:"aggregation"`
	TokenWeight []float64      `json:"token_weight"` // of each token of a completion
	Weight      []float64      `json:"weight"`       // of the completion: length times token weight
	Share       []float64      `json:"share"`        // Weight over Total
	Total       float64        `json:"total_weight"`
}

// alias is the name of an aggregation in other sources.
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

// Aggregation returns the weight that each aggregation of pkg/rl gives each token, and so each
// completion, of a batch. The weight is dL/dl of the token's loss l, from [rl.Aggregate].
func Aggregation(o AggregationOptions) (out AggregationResult, err error) {
	defer named("aggregation", &err)
	s, mask, err := lengthMask(o.Lengths, 0)
	if err != nil {
		return out, err
	}
	out = AggregationResult{Lengths: o.Lengths, Constant: cmp.Or(o.Constant, float64(s.T))}
	for _, name := range rl.Aggregations() {
		f := AggregationForm{Aggregation: rl.Aggregation(name)}
		if f.TokenWeight, f.Share, f.Total, err = tokenWeights(f.Aggregation, out.Constant, s, mask); err != nil {
			return out, err
		}
		for b, n := range o.Lengths {
			f.Weight = append(f.Weight, float64(n)*f.TokenWeight[b])
		}
		out.Forms = append(out.Forms, f)
	}
	return out, nil
}

// Form is the form of an aggregation.
func (r AggregationResult) Form(a rl.Aggregation) AggregationForm {
	return r.Forms[slices.IndexFunc(r.Forms, func(f AggregationForm) bool { return f.Aggregation == a })]
}

// Alias is the aggregation's name in other sources, Shares the shares of the completions.
func (f AggregationForm) Alias() string  { return alias[f.Aggregation] }
func (f AggregationForm) Shares() string { return each(f.Share, " / ", percent) }

// WriteText writes the table and the conclusions.
func (r AggregationResult) WriteText(w io.Writer) error { return writePage(w, "aggregation", r) }

// Figure plots the share of a second completion against its length.
func (r AggregationResult) Figure() (plots.ExplainFigure, error) {
	if len(r.Lengths) < 2 {
		return plots.ExplainFigure{}, fmt.Errorf("draw aggregation: one completion has a share of 1 (give two lengths)")
	}
	first, second := r.Lengths[0], r.Lengths[1]
	lo := min(10, float64(second))
	hi := math.Pow(10, math.Ceil(math.Log10(float64(10*max(first, second)))))
	hi = max(lo+1, min(hi, maxTokens/2))
	p := plots.ExplainPanel{
		XLabel: "length of the second completion (tokens)", YLabel: "its share of the batch's loss",
		XMin: lo, XMax: hi, YMin: 0, YMax: 1, LogX: true,
		Curves: []plots.ExplainCurve{
			{Name: "sequence-level (masked_mean)"}, {Name: "token-level (token-mean), and with a constant", Style: 1},
		},
	}
	for i, a := range []rl.Aggregation{rl.MaskedMeanSeq, rl.TokenMean} {
		share := func(n int) (float64, error) {
			s, mask, err := lengthMask([]int{first, n}, 0)
			if err != nil {
				return 0, err
			}
			_, shares, _, err := tokenWeights(a, float64(s.T), s, mask)
			if err != nil {
				return 0, err
			}
			return shares[1], nil
		}
		c := &p.Curves[i]
		for k := 0; k <= 40; k++ {
			n := int(math.Round(lo * math.Pow(hi/lo, float64(k)/40)))
			y, err := share(n)
			if err != nil {
				return plots.ExplainFigure{}, err
			}
			c.X, c.Y = append(c.X, float64(n)), append(c.Y, y)
		}
		y, err := share(second)
		if err != nil {
			return plots.ExplainFigure{}, err
		}
		p.Points = append(p.Points, plots.ExplainPoint{X: float64(second), Y: y})
	}
	p.Points[0].Name = fmt.Sprintf("%d tokens", second)
	return plots.ExplainFigure{
		Title:   "The weight of a long completion",
		Setting: fmt.Sprintf("two completions, the first of %s", textutil.Count(first, "token")),
		Panels:  []plots.ExplainPanel{p},
		Caption: []string{
			"Share: the weights of the completion's tokens over the sum of all weights in the batch's loss.",
		},
	}, nil
}
