package explain

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"grpo/pkg/rl"
)

// LossCase is one configuration of a batch and its result.
type LossCase struct {
	Name     string  `json:"-"` // the settings that differ from the defaults
	OnPolicy bool    `json:"-"`
	Check    Check   `json:"-"`
	Loss     float64 `json:"loss"`
	// Grad (B, T) is the gradient with respect to the log-probabilities.
	Grad [][]float64 `json:"grad_per_token_logps"`
	// Metrics have the names of TRL or verl.
	Metrics map[string]float64 `json:"metrics"`

	clips bool // the loss has a clip
}

type lossFile struct {
	Inputs       lossInputs `json:"inputs"`
	Cases        []trlCase  `json:"cases"`
	PolicyLosses []verlCase `json:"policy_losses"`
	// The reference data has cases of other functions.
	Advantages jsontext.Value `json:"advantages"`
	KLPenalty  jsontext.Value `json:"kl_penalty"`
	AggLoss    jsontext.Value `json:"agg_loss"`
}

// lossInputs are the matrices that the cases of a file share.
type lossInputs struct {
	Mask       numbers `json:"mask"`
	B          int     `json:"B"`
	T          int     `json:"T"`
	LogProbs   numbers `json:"per_token_logps"`
	Old        numbers `json:"old_per_token_logps"`
	Ref        numbers `json:"ref_per_token_logps"`
	Entropies  numbers `json:"entropies"`
	Advantages numbers `json:"advantages"` // for each completion or token
	// The reference data has unused fields.
	Lens           jsontext.Value `json:"lens"`
	Rewards        jsontext.Value `json:"rewards"`
	NumGenerations jsontext.Value `json:"num_generations"`
	TokenRewards   jsontext.Value `json:"token_level_rewards"`
	Index          jsontext.Value `json:"index"`
}

// lossRequest is a case that has been read and checked.
type lossRequest struct {
	at       path
	name     string
	cfg      rl.LossConfig
	quantile float64 // top_entropy_quantile; 1 = all
	onPolicy bool
	steps    int // micro-batches: multiplies the batch's totals
	metrics  func(rl.Result) map[string]float64
	want     expected
	grad     numbers // expected
}

// expected are the expected values of a case, nil if missing.
type expected struct {
	Loss    *float64            `json:"loss"`
	Metrics map[string]*float64 `json:"metrics"`
}

// Losses reads a batch in TRL's format ("inputs" and "cases") or verl's ("inputs"
// and "policy_losses") and computes the loss, its gradient and the metrics of each
// case, in the order of the file. A file with "calls" has calls of the assignment's
// functions ([Call]). `grpo explain loss --help` describes the fields.
func Losses(f File) (Batch, error) {
	if b, ok, err := called(f, "loss"); ok {
		return b, err
	}
	cases, err := losses(f)
	return newBatch(f, "case", cases, func(c LossCase) Check { return c.Check }, lossTable), err
}

func losses(f File) (cases []LossCase, err error) {
	defer f.wrap("loss", &err)
	var in lossFile
	if err := f.decode(&in, defaulted(trlDefaults), defaulted(verlDefaults)); err != nil {
		return nil, err
	}
	batch, err := in.Inputs.batch("/inputs")
	if err != nil {
		return nil, err
	}
	requests, err := readCases("cases", in.Cases, trlCase.request)
	if err != nil {
		return nil, err
	}
	verl, err := readCases("policy_losses", in.PolicyLosses, verlCase.request)
	if err != nil {
		return nil, err
	}
	requests = inOrder(f, "cases", requests, "policy_losses", verl)
	n := batch.Shape.Len()
	switch {
	case len(requests) == 0:
		return nil, errors.New(`no cases: there is neither a list "cases" (TRL) nor "policy_losses" (verl)`)
	case len(requests) > maxNumbers/n:
		return nil, fmt.Errorf("%d cases of %d tokens are more than %d numbers (split the cases)",
			len(requests), n, maxNumbers)
	}
	for _, r := range requests {
		c, err := r.compute(batch)
		if err != nil {
			return nil, r.at.errorf("%w", err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// batch checks the matrices, which are of the mask's shape.
func (in lossInputs) batch(at path) (b rl.Batch, err error) {
	b.Shape = in.Mask.Shape
	if b.Mask, err = in.Mask.bits(at.field("mask")); err != nil {
		return b, err
	}
	if in.B != 0 && in.B != b.Shape.B {
		return b, at.field("B").errorf("%d, but the mask is of shape %v", in.B, b.Shape)
	}
	if in.T != 0 && in.T != b.Shape.T {
		return b, at.field("T").errorf("%d, but the mask is of shape %v", in.T, b.Shape)
	}
	adv := at.field("advantages")
	switch b.Advantages = in.Advantages.x; {
	case !in.Advantages.flat:
		err = in.Advantages.check(adv, b.Shape, b.Mask)
	case len(b.Advantages) != b.Shape.B:
		err = adv.errorf("%d numbers; there are %d sequences", len(b.Advantages), b.Shape.B)
	default:
		err = in.Advantages.noNull(adv)
	}
	if err != nil {
		return b, err
	}
	for _, m := range []struct {
		name     string
		in       numbers
		to       *[]float64
		optional bool
	}{
		{"per_token_logps", in.LogProbs, &b.LogProbs, false},
		{"old_per_token_logps", in.Old, &b.OldLogProbs, true},
		{"ref_per_token_logps", in.Ref, &b.RefLogProbs, true},
		{"entropies", in.Entropies, &b.Entropies, true},
	} {
		if m.in.x == nil && m.optional {
			continue
		}
		if err := m.in.check(at.field(m.name), b.Shape, b.Mask); err != nil {
			return b, err
		}
		*m.to = m.in.x
	}
	return b, nil
}

// bits converts a mask, whose numbers are 0 or 1.
func (n numbers) bits(at path) ([]bool, error) {
	if err := n.matrix(at); err != nil {
		return nil, err
	}
	if err := n.noNull(at); err != nil {
		return nil, err
	}
	mask := make([]bool, len(n.x))
	for i, v := range n.x {
		if v != 0 && v != 1 {
			return nil, at.index(i/n.T).index(i%n.T).errorf("%v; a mask is 0 or 1", v)
		}
		mask[i] = v == 1
	}
	return mask, nil
}

// check returns an error unless a matrix is of the mask's shape, with a number where the mask is 1.
func (n numbers) check(at path, s rl.Shape, mask []bool) error {
	if err := n.matrix(at); err != nil {
		return err
	}
	if n.Shape != s {
		return at.errorf("shape %v, but the mask is of shape %v", n.Shape, s)
	}
	for i, v := range n.x {
		if mask[i] && math.IsNaN(v) {
			return at.index(i / s.T).index(i % s.T).errorf("null where the mask is 1")
		}
	}
	return nil
}

// compute runs one case. On-policy the old log-probabilities are the policy's own,
// as in TRL: the ratio is 1 and a clip fraction is 0, counted over tokens.
func (r lossRequest) compute(b rl.Batch) (c LossCase, err error) {
	c = LossCase{Name: r.name, OnPolicy: r.onPolicy || b.OldLogProbs == nil}
	switch {
	case r.cfg.Beta != 0 && b.RefLogProbs == nil:
		return c, fmt.Errorf("beta is %v, but inputs.ref_per_token_logps is missing", r.cfg.Beta)
	case r.cfg.EntropyCoef != 0 && b.Entropies == nil:
		return c, fmt.Errorf("entropy_coef is %v, but inputs.entropies is missing", r.cfg.EntropyCoef)
	case r.quantile < 1 && b.Entropies == nil:
		return c, fmt.Errorf("top_entropy_quantile is %v, but inputs.entropies is missing", r.quantile)
	}
	if c.OnPolicy {
		b.OldLogProbs = b.LogProbs
	}
	if r.quantile < 1 {
		if b.PolicyMask, err = rl.TopEntropyMask(b.Shape, b.Entropies, b.Mask, r.quantile); err != nil {
			return c, err
		}
	}
	b.Totals = rl.Count(b.Shape, b.Mask, b.PolicyMask).Times(r.steps)
	res, err := rl.Loss(r.cfg, b)
	if err != nil {
		return c, err
	}
	if err := computed("the loss or its gradient", res.Grad, []float64{res.Loss}); err != nil {
		return c, err
	}
	c.Loss, c.Grad, c.Metrics = res.Loss, rows(b.Shape, res.Grad), r.metrics(res)
	c.clips = res.Stats.ClipUnits > 0
	if w := r.want.Loss; w != nil {
		c.Check.add("loss", []float64{c.Loss}, []float64{*w})
	}
	if r.grad.x != nil {
		if r.grad.Shape != b.Shape {
			return c, fmt.Errorf("the expected gradient is not of the batch's shape %v", b.Shape)
		}
		c.Check.add("gradient", res.Grad, r.grad.x, b.Shape.B, b.Shape.T)
	}
	for _, name := range slices.Sorted(maps.Keys(r.want.Metrics)) {
		got, ok := c.Metrics[name]
		if !ok {
			got = noMetric
		}
		want := math.NaN()
		if w := r.want.Metrics[name]; w != nil {
			want = *w
		}
		c.Check.add(name, []float64{got}, []float64{want})
	}
	return c, nil
}

// noMetric is the value of a metric that is not computed here: it differs from every expected value.
var noMetric = math.Inf(1)

func lossTable(cases []LossCase, checks []Check) caseTable {
	t := caseTable{columns: "lllrrrrrrl", checks: checks, rows: [][]string{
		{"case", "configuration", "", "loss", "|gradient|", "clipped", "low", "high", "dual"},
	}}
	t.notes = []string{"|gradient| is the norm of dL/dlogp over all tokens. clipped, low, high and dual are fractions " +
		"of the tokens (of the sequences for a sequence-level ratio). --json prints all gradients and metrics."}
	onPolicy := map[bool]string{true: "on-policy"}
	for i, c := range cases {
		t.rows = append(t.rows, []string{
			strconv.Itoa(i), c.Name, onPolicy[c.OnPolicy], digits(c.Loss, 6), digits(norm(slices.Concat(c.Grad...)), 6),
			c.clipFraction("clip_ratio/region_mean", "cispo_clip_ratio", "actor/pg_clipfrac"),
			c.clipFraction("clip_ratio/low_mean"), c.clipFraction("clip_ratio/high_mean"),
			c.clipFraction("actor/pg_clipfrac_lower"),
		})
	}
	if slices.ContainsFunc(cases, func(c LossCase) bool { return c.OnPolicy }) {
		t.notes = append(t.notes, "On-policy the ratio is 1, so nothing can be clipped (n/a), and the loss of a ratio "+
			"form is about minus the mean advantage, 0. Both are correct: the gradient is not 0. In --json the clip "+
			"fractions are TRL's, which reports 0 there.")
	}
	return t
}

// clipFraction is the metric with one of these names: "n/a" on-policy, "" if the loss has no such
// clip or the source has no such metric.
func (c LossCase) clipFraction(names ...string) string {
	for _, name := range names {
		if v, ok := c.Metrics[name]; ok && c.clips {
			if c.OnPolicy {
				return "n/a"
			}
			return fixed(v, 3)
		}
	}
	return ""
}
