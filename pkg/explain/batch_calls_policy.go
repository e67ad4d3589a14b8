package explain

import (
	"slices"

	"grpo/pkg/rl"
)

// naiveLoss is compute_naive_policy_gradient_loss: -A logp, A the reward or the advantage.
func (in callFields) naiveLoss(at path) (callResult, error) {
	in.LossType, in.Reweighting = "", "none"
	return in.policyLoss(at)
}

// clipLoss is compute_grpo_clip_loss.
func (in callFields) clipLoss(at path) (callResult, error) {
	in.LossType = "grpo_clip"
	return in.policyLoss(at)
}

// policyLoss is compute_policy_gradient_loss: the loss of each token.
func (in callFields) policyLoss(at path) (r callResult, err error) {
	p, err := in.policy(at)
	if err != nil {
		return r, err
	}
	loss, err := p.tokens()
	if err != nil {
		return r, at.errorf("%w", err)
	}
	var values, slopes []mistake
	for _, m := range p.mistakes() {
		values, slopes = append(values, mistake{m.what, m.value}), append(slopes, mistake{m.what, m.slope})
	}
	shape := []int{p.Shape.B, p.Shape.T}
	r.settings = p.settings
	r.values = []callValue{
		{resultName, shape, loss.value, in.Result, values}, {gradName, shape, loss.slope, in.Grad, slopes},
	}
	return r, nil
}

// policyCall is the loss of each token that a call asks for.
type policyCall struct {
	rl.Batch
	cfg      rl.LossConfig
	settings []string
	// other are the raw rewards of a call with advantages, or the advantages of one with raw rewards; nil if it
	// does not have both.
	other []float64
	named string // what Advantages are: advantages or raw_rewards
}

// policy reads the arguments of the loss of each token. Without a mask, all tokens count.
func (in callFields) policy(at path) (p policyCall, err error) {
	name := at.field("policy_log_probs")
	if p.Shape, err = in.PolicyLogProbs.matrix(name, make([]bool, len(in.PolicyLogProbs.x))); err != nil {
		return p, err
	}
	shape := []int{p.Shape.B, p.Shape.T}
	p.Mask = slices.Repeat([]bool{true}, p.Shape.Len())
	if in.ResponseMask.x != nil {
		if p.Mask, err = in.ResponseMask.bits(at.field("response_mask"), shape); err != nil {
			return p, err
		}
	}
	if _, err = in.PolicyLogProbs.matrix(name, p.Mask); err != nil {
		return p, err
	}
	p.LogProbs = in.PolicyLogProbs.x
	if err = in.chooseLoss(at, &p); err == nil {
		err = in.chooseWeights(at, &p)
	}
	if err != nil || !p.reweights() {
		return p, err
	}
	name = at.field("old_log_probs")
	old, err := in.OldLogProbs.matrix(name, p.Mask)
	if err == nil && old != p.Shape {
		err = name.errorf("shape %v, but policy_log_probs is of shape %v", old, p.Shape)
	}
	p.OldLogProbs = in.OldLogProbs.x
	return p, err
}

// reweights reports whether the loss has an importance ratio.
func (p policyCall) reweights() bool { return p.cfg.Loss == rl.GRPOClip || p.cfg.Loss == rl.GRPONoClip }

// clips reports whether the loss has a clip.
func (p policyCall) clips() bool { return p.cfg.Loss == rl.GRPOClip }

// chooseLoss sets the loss: by loss_type (2025) or importance_reweighting_method (2026).
func (in callFields) chooseLoss(at path, p *policyCall) error {
	known := []string{"no_baseline", "reinforce_with_baseline", "grpo_clip", "grpo_no_clip"}
	switch {
	case in.LossType != "":
		if err := at.field("loss_type").choice(in.LossType, known...); err != nil {
			return err
		}
		p.cfg.Loss = rl.LossType(in.LossType)
		p.settings = append(p.settings, in.LossType)
	default:
		err := at.field("importance_reweighting_method").choice(in.Reweighting, "none", "noclip", "grpo", "gspo")
		if err != nil {
			return err
		}
		p.cfg.Loss = map[string]rl.LossType{
			"none": rl.ReinforceWithBaseline, "noclip": rl.GRPONoClip, "grpo": rl.GRPOClip, "gspo": rl.GRPOClip,
		}[in.Reweighting]
		if in.Reweighting == "gspo" {
			p.cfg.Level = rl.SequenceLevel
		}
		if in.Reweighting != "none" {
			p.settings = append(p.settings, in.Reweighting)
		}
	}
	if !p.clips() {
		return nil
	}
	if in.Cliprange == nil {
		return at.field("cliprange").errorf("missing")
	}
	p.cfg.Epsilon = *in.Cliprange
	p.settings = append(p.settings, setting("cliprange", p.cfg.Epsilon))
	return nil
}

// chooseWeights sets the rewards or advantages that multiply the log-probabilities.
func (in callFields) chooseWeights(at path, p *policyCall) (err error) {
	p.named = advantagesName
	from := in.Advantages
	switch {
	case in.LossType == "no_baseline":
		p.named, from = "raw_rewards", in.RawRewards
	case in.Either.x != nil || in.LossType == "" && from.x == nil:
		p.named, from = "raw_rewards_or_advantages", in.Either
	}
	p.Advantages, err = from.perSequence(at.field(p.named), p.Shape.B)
	if err != nil || in.LossType == "" {
		return err
	}
	other := in.RawRewards
	if in.LossType == "no_baseline" {
		other = in.Advantages
	}
	if other.x != nil && sameShape(other.shape, []int{p.Shape.B}) && other.hole(nil) < 0 {
		p.other = other.x
	}
	return nil
}

// tokenLoss is the loss of each token (B, T) and its derivative: of the sum over the mask with respect to each
// log-probability.
type tokenLoss struct{ value, slope []float64 }

// tokens computes the loss of each token.
func (p policyCall) tokens() (l tokenLoss, err error) {
	cfg := p.cfg
	cfg.Aggregation, p.Totals = rl.TokenSum, rl.Totals{}
	res, err := rl.Loss(cfg, p.Batch)
	if err != nil {
		return l, err
	}
	l = tokenLoss{make([]float64, p.Shape.Len()), res.Grad}
	every := p.Batch
	if p.cfg.Level == "" || p.cfg.Level == rl.TokenLevel {
		every.Mask = slices.Repeat([]bool{true}, p.Shape.Len())
	}
	if err := rl.TokenLosses(cfg, every, l.value); err != nil {
		return l, err
	}
	if !slices.Contains(every.Mask, false) {
		return l, computed("a loss or its gradient", masked(l.value, p.Mask), l.slope)
	}
	for b := range p.Shape.B { // the tokens of a sequence share the loss
		row := l.value[b*p.Shape.T : (b+1)*p.Shape.T]
		if i := slices.Index(p.Mask[b*p.Shape.T:(b+1)*p.Shape.T], true); i >= 0 {
			for j := range row {
				row[j] = row[i]
			}
		}
	}
	return l, computed("a loss or its gradient", l.value, l.slope)
}

// masked returns the numbers where the mask is true.
func masked(x []float64, mask []bool) (out []float64) {
	for i, in := range mask {
		if in {
			out = append(out, x[i])
		}
	}
	return out
}
