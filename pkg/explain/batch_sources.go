package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"grpo/pkg/rl"
)

// trlConfig are the fields of TRL's GRPOConfig that choose the loss. In the
// parameters of sapo and vespo 0 is the default of pkg/rl.
type trlConfig struct {
	rl.TRLOptions
	TopEntropyQuantile        float64 `json:"top_entropy_quantile"`
	GradientAccumulationSteps int     `json:"gradient_accumulation_steps"`
	OnPolicy                  bool    `json:"on_policy"`
	SAPOTempPos               float64 `json:"sapo_temperature_pos" check:"positive"`
	SAPOTempNeg               float64 `json:"sapo_temperature_neg" check:"positive"`
	VESPOKPos                 float64 `json:"vespo_k_pos" check:"positive"`
	VESPOLambdaPos            float64 `json:"vespo_lambda_pos" check:"positive"`
	VESPOKNeg                 float64 `json:"vespo_k_neg" check:"positive"`
	VESPOLambdaNeg            float64 `json:"vespo_lambda_neg" check:"positive"`
}

// trlDefaults are TRL's, except that loss_type is required.
var trlDefaults = trlConfig{
	TRLOptions:         rl.TRLOptions{Epsilon: 0.2, ImportanceSamplingLevel: "token"},
	TopEntropyQuantile: 1, GradientAccumulationSteps: 1,
}

// trlCase reads one of "cases".
func trlCase(v value) (r lossRequest, err error) {
	var c struct {
		expected
		Grad   [][]float64 `json:"grad_per_token_logps"`
		Config value       `json:"config" check:"required"`
	}
	if err := v.decode(&c); err != nil {
		return r, err
	}
	g := trlDefaults
	if err := c.Config.decode(&g); err != nil {
		return r, err
	}
	if err := c.Config.field("loss_type").choice(g.LossType, rl.TRLLossTypes()...); err != nil {
		return r, err
	}
	level := c.Config.field("importance_sampling_level")
	if err := level.choice(g.ImportanceSamplingLevel, "token", "sequence"); err != nil {
		return r, err
	}
	switch q := g.TopEntropyQuantile; {
	case g.LossType == "dr_grpo" && g.MaxCompletionLength == 0:
		return r, c.Config.field("max_completion_length").errorf("missing")
	case g.LossType == "cispo" && g.EpsilonHigh == nil:
		return r, c.Config.field("epsilon_high").errorf("missing")
	case !(q > 0 && q <= 1):
		return r, c.Config.field("top_entropy_quantile").errorf("%v; it must be above 0 and at most 1", q)
	}
	cfg, err := rl.TRLLoss(g.TRLOptions)
	if err != nil {
		return r, c.Config.errorf("%w", err)
	}
	cfg.SAPOTempPos, cfg.SAPOTempNeg = g.SAPOTempPos, g.SAPOTempNeg
	cfg.VESPOKPos, cfg.VESPOLambdaPos = g.VESPOKPos, g.VESPOLambdaPos
	cfg.VESPOKNeg, cfg.VESPOLambdaNeg = g.VESPOKNeg, g.VESPOLambdaNeg
	steps := g.GradientAccumulationSteps
	if slices.Contains([]string{"cispo", "dapo", "vespo"}, g.LossType) {
		// TRL divides these by num_items_in_batch, the tokens of all micro-batches,
		// which is the whole batch here; the others by the number of steps.
		steps = 1
	}
	plain := trlDefaults
	plain.LossType, plain.OnPolicy = g.LossType, g.OnPolicy
	c.grad = c.Grad
	return lossRequest{
		at: v, name: g.LossType + differences(g, plain), cfg: cfg, quantile: g.TopEntropyQuantile,
		onPolicy: g.OnPolicy, steps: steps, want: c.expected,
		metrics: func(res rl.Result) map[string]float64 { return trlMetrics(g.LossType, cfg, res) },
	}, nil
}

// trlMetrics are the metrics that TRL logs for a loss, under TRL's names.
func trlMetrics(lossType string, cfg rl.LossConfig, r rl.Result) map[string]float64 {
	s := r.Stats
	metrics := map[string]*float64{"entropy": s.MeanEntropy(), "kl": s.MeanRefKL()}
	if cfg.EntropyCoef != 0 {
		metrics["policy_loss"], metrics["entropy_coef"] = &r.PolicyLoss, &cfg.EntropyCoef
	}
	switch lossType {
	case "cispo":
		metrics["cispo_clip_ratio"] = s.ClipFraction()
	case "vespo":
		metrics["vespo/phi_seq_mean"] = s.MeanPhi()
	case "sapo":
	default:
		metrics["clip_ratio/low_mean"] = s.ClipFractionLow()
		metrics["clip_ratio/high_mean"] = s.ClipFractionHigh()
		metrics["clip_ratio/region_mean"] = s.ClipFraction()
		metrics["clip_ratio/low_min"] = s.ClipFractionLowMin()
		metrics["clip_ratio/high_max"] = s.ClipFractionHighMax()
	}
	out := map[string]float64{}
	for name, v := range metrics {
		if v != nil {
			out[name] = *v
		}
	}
	return out
}

// verlConfig are the fields of verl's actor configuration that choose the loss. In
// [rl.VerlOptions] 0 is verl's default, so a 0 in the file is refused.
type verlConfig struct {
	ClipRatio       float64 `json:"clip_ratio" check:"positive"`
	ClipRatioLow    float64 `json:"clip_ratio_low" check:"positive"`
	ClipRatioHigh   float64 `json:"clip_ratio_high" check:"positive"`
	ClipRatioC      float64 `json:"clip_ratio_c" check:"positive"`
	LossScaleFactor float64 `json:"loss_scale_factor" check:"positive"`
	GlobalBatchInfo struct {
		LossScaleFactor float64 `json:"loss_scale_factor" check:"positive"`
	} `json:"global_batch_info"`
	TauPos float64 `json:"tau_pos" check:"positive"`
	TauNeg float64 `json:"tau_neg" check:"positive"`
}

// verlCase reads one of "policy_losses". Missing fields have verl's defaults.
func verlCase(v value) (r lossRequest, err error) {
	defaults := verlConfig{ClipRatio: 0.2}
	c := struct {
		expected
		Grad        [][]float64 `json:"grad_log_prob"`
		LossMode    string      `json:"loss_mode"`
		LossAggMode string      `json:"loss_agg_mode"`
		Config      verlConfig  `json:"config"`
	}{LossMode: "vanilla", LossAggMode: string(rl.TokenMean), Config: defaults}
	if err := v.decode(&c); err != nil {
		return r, err
	}
	if err := v.field("loss_mode").choice(c.LossMode, rl.VerlLossModes()...); err != nil {
		return r, err
	}
	if err := v.field("loss_agg_mode").choice(c.LossAggMode, string(rl.TokenMean), string(rl.TokenSum),
		string(rl.SeqMeanTokenSum), string(rl.SeqMeanTokenMean), string(rl.SeqMeanTokenSumNorm)); err != nil {
		return r, err
	}
	g := c.Config
	if f := &g.GlobalBatchInfo.LossScaleFactor; *f != 0 {
		g.LossScaleFactor, *f = *f, 0
	}
	cfg, err := rl.VerlLoss(rl.VerlOptions{
		LossMode: c.LossMode, LossAggMode: c.LossAggMode, ClipRatio: g.ClipRatio, ClipRatioLow: g.ClipRatioLow,
		ClipRatioHigh: g.ClipRatioHigh, ClipRatioC: g.ClipRatioC, LossScaleFactor: g.LossScaleFactor,
	})
	if err != nil {
		return r, v.errorf("%w", err)
	}
	cfg.SAPOTempPos, cfg.SAPOTempNeg = g.TauPos, g.TauNeg
	c.grad = c.Grad
	return lossRequest{
		at: v, name: c.LossMode + ", " + c.LossAggMode + differences(g, defaults), cfg: cfg, quantile: 1, steps: 1,
		want:    c.expected,
		metrics: func(res rl.Result) map[string]float64 { return verlMetrics(c.LossMode, res) },
	}, nil
}

// verlMetrics are the metrics that verl logs, under verl's names. gpg has none;
// modes without a clip report 0 for its fractions, as verl does.
func verlMetrics(mode string, r rl.Result) map[string]float64 {
	out := map[string]float64{}
	if mode == "gpg" {
		return out
	}
	s := r.Stats
	for name, v := range map[string]*float64{
		"actor/pg_clipfrac": s.ClipFraction(), "actor/pg_clipfrac_lower": s.ClipFractionDual(),
		"actor/ppo_kl": s.PPOKL(),
	} {
		out[name] = 0
		if v != nil {
			out[name] = *v
		}
	}
	return out
}

// differences lists the fields of a configuration that differ from plain, as
// ", epsilon 0.1, beta 0.04".
func differences[T any](config, plain T) string {
	var out strings.Builder
	got, base := reflect.ValueOf(config), reflect.ValueOf(plain)
	for _, f := range reflect.VisibleFields(got.Type()) {
		name, ok := f.Tag.Lookup("json")
		x := got.FieldByIndex(f.Index)
		if !ok || reflect.DeepEqual(x.Interface(), base.FieldByIndex(f.Index).Interface()) {
			continue
		}
		out.WriteString(", " + name)
		switch x = reflect.Indirect(x); x.Kind() {
		case reflect.Bool:
		case reflect.Float64:
			out.WriteString(" " + short(x.Float()))
		default:
			out.WriteString(" " + fmt.Sprint(x))
		}
	}
	return out.String()
}
