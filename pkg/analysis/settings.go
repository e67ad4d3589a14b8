package analysis

import (
	"fmt"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"

	"go.yaml.in/yaml/v3"
)

// evalKeys are the settings of sampled evaluations: how a caption writes a value,
// the value that it leaves out, and the key of the rollout that the first release
// used in its place, whose configurations do not have the key.
var evalKeys = []struct{ key, was, text, off string }{
	{"eval.temperature", "rollout.sampling_temperature", "temperature %s", ""},
	{"eval.top_p", "rollout.sampling_top_p", "top-p %s", "1"},
	{"eval.top_k", "rollout.sampling_top_k", "top-k %s", "0"},
	{"eval.min_tokens", "rollout.sampling_min_tokens", "at least %s tokens", "0"},
	{"eval.max_tokens", "rollout.sampling_max_tokens", "at most %s tokens", ""},
}

// EvalSettingsOf are the settings of a configuration's sampled evaluations in words;
// empty where the configuration does not say them.
func EvalSettingsOf(config map[string]string) string {
	var parts []string
	for _, k := range evalKeys {
		v, ok := config[k.key]
		if !ok {
			v, ok = config[k.was]
		}
		if ok && v != k.off {
			parts = append(parts, fmt.Sprintf(k.text, textutil.Printable(v, 0)))
		}
	}
	return strings.Join(parts, ", ")
}

// EvalSettings says how a configuration's evaluations sample: "temperature 1, at
// most 64 tokens".
func EvalSettings(config []byte) string { return EvalSettingsOf(FlatConfig(string(config))) }

func RunSettings(r *rundir.Run) string { return EvalSettings(r.Config) }

// SampledAt says in captions how evaluations were sampled: "sampled at temperature
// 1, at most 64 tokens".
func SampledAt(runs []*rundir.Run) string {
	all := Unique(runs, RunSettings)
	switch {
	case len(all) > 1:
		return "sampled differently for some runs, which are not comparable (" + strings.Join(all, "; ") + ")"
	case len(all) == 1:
		return "sampled at " + all[0]
	}
	return "sampled"
}

// SampledTemperature is the same for a legend: "sampled, temperature 1".
func SampledTemperature(runs []*rundir.Run) string {
	all := Unique(runs, func(r *rundir.Run) string {
		s, _, _ := strings.Cut(RunSettings(r), ", ")
		return s
	})
	if len(all) == 1 {
		return "sampled, " + all[0]
	}
	return "sampled"
}

// distinct lists what f says of the elements, each once; empty is nothing said.
func Unique[T any](of []T, f func(T) string) []string {
	seen := map[string]bool{}
	var out []string
	for _, x := range of {
		if s := f(x); s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// ArmsDiffer lists what a function says of the arms' configurations, if it does not
// say the same of all.
func (a *Analysis) ArmsDiffer(f func(config map[string]string) string) []string {
	arms := make([]int, len(a.Arms))
	for i := range arms {
		arms[i] = i
	}
	if all := Unique(arms, func(i int) string { return f(a.configOf(i)) }); len(all) > 1 {
		return all
	}
	return nil
}

// TrainingTemperatures are the temperatures that the arms sample rollouts at, if
// they differ: entropy is then of different distributions.
func (a *Analysis) TrainingTemperatures() []string {
	return a.ArmsDiffer(func(c map[string]string) string { return textutil.Printable(c["rollout.sampling_temperature"], 0) })
}

// Identical reports two arms whose finished runs, seed by seed, ended with the same
// weights and the same evaluations.
func (a *Analysis) Identical(q Pair) bool {
	pairs := 0
	x, y := a.Arms[q.A].Runs, a.Arms[q.B].Runs
	for i := range min(len(x), len(y)) {
		r, s := x[i].Run, y[i].Run
		if r == nil || s == nil || r.Result == nil || s.Result == nil {
			continue
		}
		if r.Result.WeightsSHA256 == "" || r.Result.WeightsSHA256 != s.Result.WeightsSHA256 || rundir.CompareEvals(r.Evals, s.Evals) != nil {
			return false
		}
		pairs++
	}
	return pairs > 0
}

// Differing are the keys in which the resolved configurations of two arms
// differ; where they can't be read, all that vary in the sweep.
func (a *Analysis) Differing(q Pair) []string {
	m := &a.Sweep.Manifest
	x, y := a.configOf(q.A), a.configOf(q.B)
	var out []string
	for _, key := range m.Varied {
		if key == m.BestOver { // its values belong to the arms that it tunes
			continue
		}
		v, okV := x[key]
		w, okW := y[key]
		if !okV || !okW || v != w {
			out = append(out, key)
		}
	}
	return out
}

// configOf is the resolved configuration of an arm's first run, by full keys.
func (a *Analysis) configOf(arm int) map[string]string {
	out := map[string]string{}
	for _, e := range a.Sweep.Manifest.Runs {
		if e.Arm != arm || e.Config == "" {
			continue
		}
		if out = FlatConfig(e.Config); len(out) == 0 {
			return out
		}
		break
	}
	for _, o := range a.Sweep.Manifest.Arms[arm].Set {
		if _, ok := out[o.Key]; !ok { // a kernel, say, which no configuration tells
			out[o.Key] = o.Value
		}
	}
	return out
}

// FlatConfig is a configuration by full keys; empty where it can't be read, so that
// every key counts as differing.
func FlatConfig(text string) map[string]string {
	out := map[string]string{}
	var tree map[string]any
	if yaml.Unmarshal([]byte(text), &tree) == nil {
		flatten(out, "", tree)
	}
	return out
}

func flatten(out map[string]string, prefix string, tree map[string]any) {
	for key, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			flatten(out, prefix+key+".", sub)
			continue
		}
		out[prefix+key] = fmt.Sprint(v)
	}
}

// rateKey is the key whose sweep is read as a curve from too slow to too fast.
const RateKey = "train.learning_rate"

// RateAxis is the only axis of a learning-rate sweep; nil for other sweeps.
func (a *Analysis) RateAxis() *sweepdir.Axis {
	m := &a.Sweep.Manifest
	if len(m.Axes) != 1 || m.Axes[0].Key != RateKey || len(m.Arms) < 2 || len(PointsOver(m, RateKey)) > 1 {
		return nil
	}
	for _, arm := range m.Arms {
		if len(arm.Point) != 1 {
			return nil
		}
		if _, err := strconv.ParseFloat(arm.Point[0], 64); err != nil {
			return nil
		}
	}
	return &m.Axes[0]
}
