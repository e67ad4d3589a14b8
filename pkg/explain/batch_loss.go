package explain

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/rl"
)

// LossCase is one configuration of a batch and its result.
type LossCase struct {
	Name     string  `json:"-"` // the settings that differ from the defaults
	OnPolicy bool    `json:"-"`
	Check    *Check  `json:"-"` // nil if the file has no expected values
	Loss     float64 `json:"loss"`
	// Grad (B, T) is the gradient with respect to the log-probabilities.
	Grad [][]float64 `json:"grad_per_token_logps"`
	// Metrics have the names of TRL or verl.
	Metrics map[string]float64 `json:"metrics"`

	clips bool // the loss has a clip
}

// lossRequest is a case that has been read and checked.
type lossRequest struct {
	at       value
	name     string
	cfg      rl.LossConfig
	quantile float64 // top_entropy_quantile; 1 = all
	onPolicy bool
	steps    int // micro-batches: multiplies the batch's totals
	metrics  func(rl.Result) map[string]float64
	want     expected
}

// expected are the expected values of a case, nil if missing.
type expected struct {
	Loss    *float64           `json:"loss"`
	Metrics map[string]float64 `json:"metrics"`

	grad [][]float64
}

// lossKinds reads a case of each list, in TRL's and verl's format.
var lossKinds = map[string]func(value) (lossRequest, error){"cases": trlCase, "policy_losses": verlCase}

// Losses reads a batch in TRL's format ("inputs" and "cases") or verl's ("inputs"
// and "policy_losses") and computes the loss, its gradient and the metrics of each
// case, in the order of the file. `grpo explain loss --help` describes the fields.
func Losses(file string, data []byte) (cases []LossCase, err error) {
	defer named("loss", &err)
	var f struct {
		Inputs       value `json:"inputs" check:"required"`
		Cases        value `json:"cases"`
		PolicyLosses value `json:"policy_losses"`
	}
	root, err := document(file, data, &f, "advantages", "kl_penalty", "agg_loss")
	if err != nil {
		return nil, err
	}
	batch, err := readInputs(f.Inputs)
	if err != nil {
		return nil, err
	}
	requests, err := readCases(lossKinds, f.Cases, f.PolicyLosses)
	if err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, root.errorf(`no cases: there is neither a list "cases" (TRL) nor "policy_losses" (verl)`)
	}
	if n := batch.Shape.Len(); len(requests) > maxNumbers/n {
		return nil, root.errorf("%d cases of %d tokens are more than %d numbers (split the cases)",
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

// readInputs reads the matrices that the cases of a file share.
func readInputs(v value) (b rl.Batch, err error) {
	var in struct {
		Mask       [][]float64 `json:"mask" check:"required"`
		B          int         `json:"B"`
		T          int         `json:"T"`
		LogProbs   [][]float64 `json:"per_token_logps" check:"required"`
		Old        [][]float64 `json:"old_per_token_logps"`
		Ref        [][]float64 `json:"ref_per_token_logps"`
		Entropies  [][]float64 `json:"entropies"`
		Advantages value       `json:"advantages" check:"required"`
	}
	// The reference data has unused fields.
	if err := v.decode(&in, "lens", "rewards", "num_generations", "token_level_rewards", "index"); err != nil {
		return b, err
	}
	if b.Shape, b.Mask, err = readMask(v.field("mask"), in.Mask); err != nil {
		return b, err
	}
	if in.B != 0 && in.B != b.Shape.B {
		return b, v.field("B").errorf("%d, but the mask is of shape %v", in.B, b.Shape)
	}
	if in.T != 0 && in.T != b.Shape.T {
		return b, v.field("T").errorf("%d, but the mask is of shape %v", in.T, b.Shape)
	}
	var perToken [][]float64
	if in.Advantages.nested() {
		err = in.Advantages.decode(&perToken)
	} else if err = in.Advantages.decode(&b.Advantages); err == nil {
		if err = in.Advantages.noNull(b.Advantages); err == nil && len(b.Advantages) != b.Shape.B {
			err = in.Advantages.errorf("%d numbers; there are %d sequences", len(b.Advantages), b.Shape.B)
		}
	}
	if err != nil {
		return b, err
	}
	for _, m := range []struct {
		name string
		rows [][]float64
		to   *[]float64
	}{
		{"per_token_logps", in.LogProbs, &b.LogProbs},
		{"old_per_token_logps", in.Old, &b.OldLogProbs},
		{"ref_per_token_logps", in.Ref, &b.RefLogProbs},
		{"entropies", in.Entropies, &b.Entropies},
		{"advantages", perToken, &b.Advantages},
	} {
		if m.rows == nil {
			continue
		}
		if *m.to, err = readTokens(v.field(m.name), m.rows, b.Shape, b.Mask); err != nil {
			return b, err
		}
	}
	return b, nil
}

// readMask returns the mask and its shape.
func readMask(at value, m [][]float64) (s rl.Shape, mask []bool, err error) {
	x, s, err := flatten(at, m)
	if err != nil {
		return s, nil, err
	}
	if len(x) == 0 {
		return s, nil, at.errorf("no tokens: shape %v", s)
	}
	mask = make([]bool, len(x))
	for i, v := range x {
		switch {
		case math.IsNaN(v):
			return s, nil, at.index(i / s.T).index(i % s.T).errorf("null; it must be a number")
		case v != 0 && v != 1:
			return s, nil, at.index(i/s.T).index(i%s.T).errorf("%v; a mask is 0 or 1", v)
		}
		mask[i] = v == 1
	}
	return s, mask, nil
}

// readTokens returns a matrix of the mask's shape, flat. A null is allowed where the
// mask is 0.
func readTokens(at value, m [][]float64, s rl.Shape, mask []bool) ([]float64, error) {
	x, shape, err := flatten(at, m)
	if err != nil {
		return nil, err
	}
	if shape != s {
		return nil, at.errorf("shape %v, but the mask is of shape %v", shape, s)
	}
	for i, v := range x {
		if mask[i] && math.IsNaN(v) {
			return nil, at.index(i / s.T).index(i % s.T).errorf("null where the mask is 1")
		}
	}
	return x, nil
}

// flatten returns a matrix in row-major order; its rows must have equal lengths.
func flatten(at value, m [][]float64) (x []float64, s rl.Shape, err error) {
	for i, row := range m {
		if len(row) != len(m[0]) {
			return nil, s, at.index(i).errorf("%d numbers; the rows before it have %d (pad the shorter ones)",
				len(row), len(m[0]))
		}
	}
	if s.B = len(m); s.B > 0 {
		s.T = len(m[0])
	}
	if s.Len() > maxNumbers {
		return nil, s, at.errorf("more than %d numbers", maxNumbers)
	}
	return slices.Concat(m...), s, nil
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
	c.Check, err = r.want.check(c)
	return c, err
}

// check compares with the expected values; nil if there are none.
func (w expected) check(got LossCase) (*Check, error) {
	c := &Check{}
	if w.Loss != nil {
		c.add("loss", got.Loss, *w.Loss)
	}
	if w.grad != nil {
		sameLength := func(a, b []float64) bool { return len(a) == len(b) }
		if !slices.EqualFunc(w.grad, got.Grad, sameLength) {
			return nil, fmt.Errorf("the expected gradient is not of the batch's shape (%d, %d)",
				len(got.Grad), len(got.Grad[0]))
		}
		columns := len(got.Grad[0])
		c.addAll("gradient", slices.Concat(got.Grad...), slices.Concat(w.grad...), func(i int) string {
			return fmt.Sprintf("[%d][%d]", i/columns, i%columns)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(w.Metrics)) {
		g, ok := got.Metrics[name]
		if !ok {
			g = math.Inf(1) // a metric that is not computed here never agrees
		}
		c.add(name, g, w.Metrics[name])
	}
	return c.orNil(), nil
}

// WriteLosses writes a table of the cases and the conclusions.
func WriteLosses(w io.Writer, file string, cases []LossCase) error {
	p := &page{}
	p.title("%s of %s", textutil.Count(len(cases), "case"), file)
	table := [][]string{{"case", "configuration", "", "loss", "|gradient|", "clipped", "low", "high", "dual"}}
	checks := checksOf(cases)
	onPolicy := map[bool]string{true: "on-policy"}
	for i, c := range cases {
		squares := 0.0
		for _, g := range slices.Concat(c.Grad...) {
			squares += g * g
		}
		row := []string{
			strconv.Itoa(i), c.Name, onPolicy[c.OnPolicy], digits(c.Loss, 6), digits(math.Sqrt(squares), 6),
			c.clipFraction("clip_ratio/region_mean", "cispo_clip_ratio", "actor/pg_clipfrac"),
			c.clipFraction("clip_ratio/low_mean"), c.clipFraction("clip_ratio/high_mean"),
			c.clipFraction("actor/pg_clipfrac_lower"),
		}
		table = append(table, row)
	}
	p.caseTable("lllrrrrrrl", table, checks)
	p.paragraph(`|gradient| is the norm of dL/dlogp over all tokens. clipped, low, high and dual are fractions of the
		tokens (of the sequences for a sequence-level ratio). --json prints all gradients and metrics.`)
	if slices.ContainsFunc(cases, func(c LossCase) bool { return c.OnPolicy }) {
		p.gap()
		p.paragraph(`On-policy the ratio is 1, so nothing can be clipped (n/a), and the loss of a ratio form is about
			minus the mean advantage, 0. Both are correct: the gradient is not 0. In --json the clip fractions are
			TRL's, which reports 0 there.`)
	}
	p.checks(checks)
	return p.writeTo(w)
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
