package explain

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"grpo/pkg/formula"
	"grpo/pkg/rl"
)

// trlConfig are the fields of TRL's GRPOConfig that choose the loss. In the
// parameters of sapo and vespo 0 is the default of pkg/rl.
type trlConfig struct {
	rl.TRLOptions
	EpsilonHigh               *positive `json:"epsilon_high"` // replaces the one of TRLOptions
	Delta                     *positive `json:"delta"`
	TopEntropyQuantile        float64   `json:"top_entropy_quantile"`
	GradientAccumulationSteps int       `json:"gradient_accumulation_steps"`
	OnPolicy                  bool      `json:"on_policy"`
	SAPOTempPos               positive  `json:"sapo_temperature_pos"`
	SAPOTempNeg               positive  `json:"sapo_temperature_neg"`
	VESPOKPos                 positive  `json:"vespo_k_pos"`
	VESPOLambdaPos            positive  `json:"vespo_lambda_pos"`
	VESPOKNeg                 positive  `json:"vespo_k_neg"`
	VESPOLambdaNeg            positive  `json:"vespo_lambda_neg"`
	LossExpr                  string    `json:"loss_expr"` // ours: algorithm.loss_expr
}

// trlCase is one of "cases".
type trlCase struct {
	expected
	Grad   numbers    `json:"grad_per_token_logps"`
	Config *trlConfig `json:"config"`
}

// trlDefaults are those of TRL 1.16, except that loss_type is required. Before 1.10
// use_bias_correction_kl was false.
var trlDefaults = trlConfig{
	TRLOptions:         rl.TRLOptions{Epsilon: 0.2, ImportanceSamplingLevel: "token", UseBiasCorrectionKL: true},
	TopEntropyQuantile: 1, GradientAccumulationSteps: 1,
}

func (c trlCase) request(at path) (r lossRequest, err error) {
	config := at.field("config")
	if c.Config == nil {
		return r, config.errorf("missing")
	}
	g := *c.Config
	switch q := g.TopEntropyQuantile; {
	case g.LossType == "dr_grpo" && g.MaxCompletionLength == 0:
		err = config.field("max_completion_length").errorf("missing")
	case g.LossType == "cispo" && g.EpsilonHigh == nil:
		err = config.field("epsilon_high").errorf("missing")
	case !(q > 0 && q <= 1):
		err = config.field("top_entropy_quantile").errorf("%v; it must be above 0 and at most 1", q)
	default:
		err = config.field("loss_type").choice(g.LossType, rl.TRLLossTypes()...)
	}
	if err == nil {
		err = config.field("importance_sampling_level").choice(g.ImportanceSamplingLevel, "token", "sequence")
	}
	if err != nil {
		return r, err
	}
	o := g.TRLOptions
	o.EpsilonHigh, o.Delta = (*float64)(g.EpsilonHigh), (*float64)(g.Delta)
	cfg, err := rl.TRLLoss(o)
	if err != nil {
		return r, config.errorf("%w", err)
	}
	cfg.SAPOTempPos, cfg.SAPOTempNeg = float64(g.SAPOTempPos), float64(g.SAPOTempNeg)
	cfg.VESPOKPos, cfg.VESPOLambdaPos = float64(g.VESPOKPos), float64(g.VESPOLambdaPos)
	cfg.VESPOKNeg, cfg.VESPOLambdaNeg = float64(g.VESPOKNeg), float64(g.VESPOLambdaNeg)
	if g.LossExpr != "" {
		cfg.Formula, err = formula.ParseLoss(g.LossExpr, cfg.Epsilon, cmp.Or(cfg.EpsilonHigh, cfg.Epsilon))
		if cfg.Loss = ""; err != nil {
			return r, config.field("loss_expr").errorf("%w", err)
		}
	}
	steps := g.GradientAccumulationSteps
	if slices.Contains([]string{"cispo", "dapo", "vespo"}, g.LossType) {
		// TRL divides these by num_items_in_batch, the tokens of all micro-batches,
		// which is the whole batch here; the others by the number of steps.
		steps = 1
	}
	plain := trlDefaults
	plain.LossType, plain.OnPolicy = g.LossType, g.OnPolicy
	if g.Beta == 0 { // the key has no effect
		plain.UseBiasCorrectionKL = g.UseBiasCorrectionKL
	}
	return lossRequest{
		at: at, name: g.LossType + differences(g, plain), cfg: cfg, quantile: g.TopEntropyQuantile,
		onPolicy: g.OnPolicy, steps: steps, want: c.expected, grad: c.Grad,
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
	ClipRatio       positive  `json:"clip_ratio"`
	ClipRatioLow    positive  `json:"clip_ratio_low"`
	ClipRatioHigh   positive  `json:"clip_ratio_high"`
	ClipRatioC      positive  `json:"clip_ratio_c"`
	LossScaleFactor positive  `json:"loss_scale_factor"`
	GlobalBatchInfo batchInfo `json:"global_batch_info"`
	TauPos          positive  `json:"tau_pos"`
	TauNeg          positive  `json:"tau_neg"`
}

type batchInfo struct {
	LossScaleFactor positive `json:"loss_scale_factor"`
}

// verlCase is one of "policy_losses".
type verlCase struct {
	expected
	Grad        numbers    `json:"grad_log_prob"`
	LossMode    string     `json:"loss_mode"`
	LossAggMode string     `json:"loss_agg_mode"`
	Config      verlConfig `json:"config"`
}

var verlDefaults = verlCase{
	LossMode: "vanilla", LossAggMode: string(rl.TokenMean), Config: verlConfig{ClipRatio: 0.2},
}

func (c verlCase) request(at path) (r lossRequest, err error) {
	if err := at.field("loss_mode").choice(c.LossMode, rl.VerlLossModes()...); err != nil {
		return r, err
	}
	if err := at.field("loss_agg_mode").choice(c.LossAggMode, string(rl.TokenMean), string(rl.TokenSum),
		string(rl.SeqMeanTokenSum), string(rl.SeqMeanTokenMean), string(rl.SeqMeanTokenSumNorm)); err != nil {
		return r, err
	}
	g := c.Config
	if f := &g.GlobalBatchInfo.LossScaleFactor; *f != 0 {
		g.LossScaleFactor, *f = *f, 0
	}
	cfg, err := rl.VerlLoss(rl.VerlOptions{
		LossMode: c.LossMode, LossAggMode: c.LossAggMode, ClipRatio: float64(g.ClipRatio),
		ClipRatioLow: float64(g.ClipRatioLow), ClipRatioHigh: float64(g.ClipRatioHigh),
		ClipRatioC: float64(g.ClipRatioC), LossScaleFactor: float64(g.LossScaleFactor),
	})
	if err != nil {
		return r, at.errorf("%w", err)
	}
	cfg.SAPOTempPos, cfg.SAPOTempNeg = float64(g.TauPos), float64(g.TauNeg)
	return lossRequest{
		at: at, name: c.LossMode + ", " + c.LossAggMode + differences(g, verlDefaults.Config), cfg: cfg,
		quantile: 1, steps: 1, want: c.expected, grad: c.Grad,
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
		name := f.Tag.Get("json")
		x := got.FieldByIndex(f.Index)
		if name == "" || reflect.DeepEqual(x.Interface(), base.FieldByIndex(f.Index).Interface()) {
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
