package explain

import (
	"fmt"

	"grpo/pkg/rl"
)

// LossResult is what a loss gives for a batch.
type LossResult struct {
	Loss float64 `json:"loss"`
	// Grad (B, T) is the gradient with respect to the log-probabilities.
	Grad [][]float64 `json:"grad_per_token_logps"`
	// Metrics have the names of TRL or of verl.
	Metrics map[string]float64 `json:"metrics"`
}

// LossCase is one configuration of a batch and what it gives.
type LossCase struct {
	Name     string // what is not at its default
	OnPolicy bool
	Result   LossResult
	// Check compares with the values that stand in the file, nil without any.
	Check *Check

	clips bool // the loss has a clip
}

// lossRequest is a case that has been read and checked, ready to be computed.
type lossRequest struct {
	at       node
	name     string
	cfg      rl.LossConfig
	quantile float64 // top_entropy_quantile; 1 = all
	onPolicy bool
	// steps are the micro-batches that the batch's totals are multiplied by.
	steps   int
	metrics func(rl.Result) map[string]float64
	want    wanted
}

// Losses reads a batch in TRL's form ("inputs" and "cases") or verl's ("inputs"
// and "policy_losses") and computes the loss, its gradient and the metrics of
// each case, in the order of the file. `grpo explain loss --help` describes the
// fields.
//
// Errors name the file, the case and the field.
func Losses(file string, data []byte) ([]LossCase, error) {
	out, err := losses(file, data)
	if err != nil {
		return nil, fmt.Errorf("explain loss: %w", err)
	}
	return out, nil
}

func losses(file string, data []byte) ([]LossCase, error) {
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	root.ignore("advantages", "kl_penalty", "agg_loss")
	in := readInputs(root)
	var requests []lossRequest
	read := map[string]func(node) (lossRequest, error){"cases": readTRLCase, "policy_losses": readVerlCase}
	for _, name := range root.order {
		f, known := read[name]
		if !known {
			continue
		}
		list, ok := root.must(name)
		if !ok {
			break
		}
		err := list.each(maxCases, func(_ int, n node) error {
			r, err := f(n)
			if err == nil {
				err = in.suit(r)
			}
			requests = append(requests, r)
			return err
		})
		if err != nil {
			root.fail(err)
		}
	}
	if len(requests) == 0 {
		root.fail(root.at.errorf("no cases: there is neither a list \"cases\" (TRL's form) nor \"policy_losses\" (verl's form)"))
	}
	root.ignore("cases", "policy_losses")
	if err := root.done(); err != nil {
		return nil, err
	}
	if n := in.shape.Len(); len(requests) > maxNumbers/n {
		return nil, root.at.errorf("%d cases of %d tokens are more than %d numbers (split the cases over several files)", len(requests), n, maxNumbers)
	}
	out := make([]LossCase, len(requests))
	for i, r := range requests {
		if out[i], err = in.compute(r); err != nil {
			return nil, r.at.errorf("%w", err)
		}
	}
	return out, nil
}

// compute runs one case. On-policy the old log-probabilities are the policy's
// own, as in TRL: the ratio is 1 and a clip fraction is 0, counted over tokens.
func (in *tokenInputs) compute(r lossRequest) (LossCase, error) {
	out := LossCase{Name: r.name, OnPolicy: r.onPolicy || in.old == nil}
	b := rl.Batch{
		Shape: in.shape, Mask: in.mask, Advantages: in.adv, LogProbs: in.logps,
		OldLogProbs: in.old, RefLogProbs: in.ref, Entropies: in.entropies,
	}
	if out.OnPolicy {
		b.OldLogProbs = in.logps
	}
	var err error
	if r.quantile < 1 {
		if b.PolicyMask, err = rl.TopEntropyMask(b.Shape, b.Entropies, b.Mask, r.quantile); err != nil {
			return out, err
		}
	}
	b.Totals = rl.Count(b.Shape, b.Mask, b.PolicyMask).Times(r.steps)
	res, err := rl.Loss(r.cfg, b)
	if err != nil {
		return out, err
	}
	if err := computed("the loss or its gradient", append(res.Grad, res.Loss)...); err != nil {
		return out, err
	}
	out.Result = LossResult{Loss: res.Loss, Grad: rows(in.shape, res.Grad), Metrics: r.metrics(res)}
	out.clips = res.Stats.ClipUnits > 0
	out.Check, err = r.want.check(out.Result)
	return out, err
}
