package explain

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/rl"
)

// readTRLCase reads one of "cases": the fields of TRL's GRPOConfig that choose
// the loss, under "config". What is missing has TRL's default, except loss_type,
// and max_completion_length where it is used.
func readTRLCase(n node) (lossRequest, error) {
	r := lossRequest{at: n, steps: 1, quantile: 1}
	f := n.fields()
	r.want = readWanted(f, "grad_per_token_logps")
	c, ok := f.must("config")
	if !ok {
		return r, f.done()
	}
	g := c.fields()
	o := rl.TRLOptions{
		LossType:                g.choice("loss_type", "", rl.TRLLossTypes()...),
		Epsilon:                 g.float("epsilon", 0.2),
		EpsilonHigh:             g.floatOrNil("epsilon_high"),
		Delta:                   g.floatOrNil("delta"),
		Beta:                    g.float("beta", 0),
		ImportanceSamplingLevel: g.choice("importance_sampling_level", "token", "token", "sequence"),
		EntropyCoef:             g.float("entropy_coef", 0),
		OffPolicyMaskThreshold:  g.floatOrNil("off_policy_mask_threshold"),
		UseBiasCorrectionKL:     g.boolean("use_bias_correction_kl"),
		MaxCompletionLength:     g.integer("max_completion_length", 0, 1, maxTokens),
	}
	r.quantile = g.float("top_entropy_quantile", 1)
	r.onPolicy = g.boolean("on_policy")
	steps := g.integer("gradient_accumulation_steps", 1, 1, maxTokens)
	curve := readCurves(g, "sapo_temperature_pos", "sapo_temperature_neg", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg")
	switch {
	case g.err != nil:
	case o.LossType == "dr_grpo" && o.MaxCompletionLength == 0:
		g.must("max_completion_length")
	case !(r.quantile > 0 && r.quantile <= 1):
		g.fail(g.child("top_entropy_quantile", nil).errorf("%v; it must be above 0 and at most 1", r.quantile))
	case o.EpsilonHigh != nil && *o.EpsilonHigh <= 0:
		g.fail(g.child("epsilon_high", nil).errorf("%v; it must be above 0, or null for epsilon", *o.EpsilonHigh))
	case o.Delta != nil && *o.Delta <= 0:
		g.fail(g.child("delta", nil).errorf("%v; it must be above 0, or null for none", *o.Delta))
	case o.LossType == "cispo" && o.EpsilonHigh == nil:
		g.must("epsilon_high")
	}
	if err := g.done(); err != nil {
		return r, err
	}
	if err := f.done(); err != nil {
		return r, err
	}
	var err error
	if r.cfg, err = rl.TRLLoss(o); err != nil {
		return r, c.errorf("%w", err)
	}
	r.cfg.SAPOTempPos, r.cfg.SAPOTempNeg = curve[0], curve[1]
	r.cfg.VESPOKPos, r.cfg.VESPOLambdaPos, r.cfg.VESPOKNeg, r.cfg.VESPOLambdaNeg = curve[2], curve[3], curve[4], curve[5]
	if !slices.Contains([]string{"cispo", "dapo", "vespo"}, o.LossType) {
		// TRL divides these three by num_items_in_batch, the tokens of all
		// micro-batches, which is the batch's own here; the others by the steps.
		r.steps = steps
	}
	r.metrics = func(res rl.Result) map[string]float64 { return trlMetrics(o.LossType, r.cfg, res) }
	r.name = trlName(o, r.quantile, steps)
	return r, nil
}

// readCurves reads parameters whose 0 means their default in pkg/rl.
func readCurves(g *fields, names ...string) []float64 {
	out := make([]float64, len(names))
	for i, name := range names {
		v := g.floatOrNil(name)
		if v == nil {
			continue
		}
		if out[i] = *v; *v <= 0 {
			g.fail(g.child(name, nil).errorf("%v; it must be above 0", *v))
		}
	}
	return out
}

// trlMetrics are the metrics that TRL logs for a loss, under TRL's names.
func trlMetrics(lossType string, cfg rl.LossConfig, r rl.Result) map[string]float64 {
	s := r.Stats
	out := map[string]float64{}
	put := func(name string, v *float64) {
		if v != nil {
			out[name] = *v
		}
	}
	put("entropy", s.MeanEntropy())
	put("kl", s.MeanRefKL())
	if cfg.EntropyCoef != 0 {
		put("policy_loss", &r.PolicyLoss)
		put("entropy_coef", &cfg.EntropyCoef)
	}
	switch lossType {
	case "cispo":
		put("cispo_clip_ratio", s.ClipFraction())
	case "vespo":
		put("vespo/phi_seq_mean", s.MeanPhi())
	case "sapo":
	default:
		put("clip_ratio/low_mean", s.ClipFractionLow())
		put("clip_ratio/high_mean", s.ClipFractionHigh())
		put("clip_ratio/region_mean", s.ClipFraction())
		put("clip_ratio/low_min", s.ClipFractionLowMin())
		put("clip_ratio/high_max", s.ClipFractionHighMax())
	}
	return out
}

// trlName says what of a configuration is not at its default.
func trlName(o rl.TRLOptions, quantile float64, steps int) string {
	parts := []string{o.LossType}
	add := func(name string, v float64) { parts = append(parts, name+" "+short(v)) }
	if o.ImportanceSamplingLevel != "token" {
		parts = append(parts, o.ImportanceSamplingLevel)
	}
	if o.Epsilon != 0.2 {
		add("epsilon", o.Epsilon)
	}
	for _, x := range []struct {
		name string
		v    *float64
	}{{"epsilon_high", o.EpsilonHigh}, {"delta", o.Delta}, {"off_policy_mask", o.OffPolicyMaskThreshold}} {
		if x.v != nil {
			add(x.name, *x.v)
		}
	}
	if o.Beta != 0 {
		add("beta", o.Beta)
	}
	if o.UseBiasCorrectionKL {
		parts = append(parts, "bias correction")
	}
	if o.EntropyCoef != 0 {
		add("entropy_coef", o.EntropyCoef)
	}
	if quantile != 1 {
		add("top_entropy", quantile)
	}
	if steps != 1 {
		parts = append(parts, fmt.Sprintf("steps %d", steps))
	}
	return strings.Join(parts, ", ")
}
