package explain

import (
	"strings"

	"grpo/pkg/rl"
)

// readVerlCase reads one of "policy_losses": verl's loss_mode and loss_agg_mode,
// and the clip's fields under "config". What is missing has verl's default.
func readVerlCase(n node) (lossRequest, error) {
	r := lossRequest{at: n, steps: 1, quantile: 1}
	f := n.fields()
	r.want = readWanted(f, "grad_log_prob")
	o := rl.VerlOptions{
		LossMode:    f.choice("loss_mode", "vanilla", rl.VerlLossModes()...),
		LossAggMode: f.choice("loss_agg_mode", "token-mean", verlAggregations()...),
		ClipRatio:   0.2,
	}
	var tau []float64
	if c, ok := f.get("config"); ok {
		g := c.fields()
		// In VerlOptions a 0 means the default, so it is refused here.
		for _, x := range []struct {
			name string
			to   *float64
		}{
			{"clip_ratio", &o.ClipRatio}, {"clip_ratio_low", &o.ClipRatioLow}, {"clip_ratio_high", &o.ClipRatioHigh},
			{"clip_ratio_c", &o.ClipRatioC}, {"loss_scale_factor", &o.LossScaleFactor},
		} {
			positive(g, x.name, x.to)
		}
		if info, ok := g.get("global_batch_info"); ok {
			h := info.fields()
			positive(h, "loss_scale_factor", &o.LossScaleFactor)
			if err := h.done(); err != nil {
				g.fail(err)
			}
		}
		tau = readCurves(g, "tau_pos", "tau_neg")
		if err := g.done(); err != nil {
			f.fail(err)
		}
	}
	if err := f.done(); err != nil {
		return r, err
	}
	var err error
	if r.cfg, err = rl.VerlLoss(o); err != nil {
		return r, n.errorf("%w", err)
	}
	if tau != nil {
		r.cfg.SAPOTempPos, r.cfg.SAPOTempNeg = tau[0], tau[1]
	}
	r.metrics = func(res rl.Result) map[string]float64 { return verlMetrics(o.LossMode, res) }
	r.name = verlName(o)
	return r, nil
}

// positive reads a number above 0 into to, if it is there.
func positive(f *fields, name string, to *float64) {
	v := f.floatOrNil(name)
	if v == nil {
		return
	}
	if !(*v > 0) {
		f.fail(f.child(name, nil).errorf("%v; it must be above 0", *v))
	}
	*to = *v
}

// verlAggregations are the aggregations that verl has.
func verlAggregations() []string {
	var out []string
	for _, a := range []rl.Aggregation{rl.TokenMean, rl.TokenSum, rl.SeqMeanTokenSum, rl.SeqMeanTokenMean, rl.SeqMeanTokenSumNorm} {
		out = append(out, string(a))
	}
	return out
}

// verlMetrics are the metrics that verl logs, under verl's names. gpg has none;
// modes without a clip report 0 for its fractions, as verl does.
func verlMetrics(mode string, r rl.Result) map[string]float64 {
	out := map[string]float64{}
	if mode == "gpg" {
		return out
	}
	s := r.Stats
	for _, m := range []struct {
		name string
		v    *float64
	}{
		{"actor/pg_clipfrac", s.ClipFraction()}, {"actor/pg_clipfrac_lower", s.ClipFractionDual()}, {"actor/ppo_kl", s.PPOKL()},
	} {
		out[m.name] = 0
		if m.v != nil {
			out[m.name] = *m.v
		}
	}
	return out
}

// verlName says what of a configuration is not at its default.
func verlName(o rl.VerlOptions) string {
	parts := []string{o.LossMode, o.LossAggMode}
	for _, x := range []struct {
		name   string
		v, def float64
	}{
		{"clip_ratio", o.ClipRatio, 0.2}, {"clip_ratio_low", o.ClipRatioLow, 0}, {"clip_ratio_high", o.ClipRatioHigh, 0},
		{"clip_ratio_c", o.ClipRatioC, 0}, {"loss_scale_factor", o.LossScaleFactor, 0},
	} {
		if x.v != x.def {
			parts = append(parts, x.name+" "+short(x.v))
		}
	}
	return strings.Join(parts, ", ")
}
