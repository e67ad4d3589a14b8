package report

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
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

// evalSettings are the settings of a configuration's sampled evaluations in words;
// empty where the configuration does not say them.
func evalSettings(config map[string]string) string {
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
func EvalSettings(config []byte) string { return evalSettings(flatConfig(string(config))) }

func runSettings(r *rundir.Run) string { return EvalSettings(r.Config) }

// sampledAt says in captions how evaluations were sampled: "sampled at temperature
// 1, at most 64 tokens".
func sampledAt(runs []*rundir.Run) string {
	all := distinct(runs, runSettings)
	switch {
	case len(all) > 1:
		return "sampled differently for some runs, which are not comparable (" + strings.Join(all, "; ") + ")"
	case len(all) == 1:
		return "sampled at " + all[0]
	}
	return "sampled"
}

// sampledTemperature is the same for a legend: "sampled, temperature 1".
func sampledTemperature(runs []*rundir.Run) string {
	all := distinct(runs, func(r *rundir.Run) string {
		s, _, _ := strings.Cut(runSettings(r), ", ")
		return s
	})
	if len(all) == 1 {
		return "sampled, " + all[0]
	}
	return "sampled"
}

// distinct lists what f says of the elements, each once; empty is nothing said.
func distinct[T any](of []T, f func(T) string) []string {
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

// armsDiffer lists what a function says of the arms' configurations, if it does not
// say the same of all.
func (a *Analysis) armsDiffer(f func(config map[string]string) string) []string {
	arms := make([]int, len(a.Arms))
	for i := range arms {
		arms[i] = i
	}
	if all := distinct(arms, func(i int) string { return f(a.configOf(i)) }); len(all) > 1 {
		return all
	}
	return nil
}

// trainingTemperatures are the temperatures that the arms sample rollouts at, if
// they differ: entropy is then of different distributions.
func (a *Analysis) trainingTemperatures() []string {
	return a.armsDiffer(func(c map[string]string) string { return textutil.Printable(c["rollout.sampling_temperature"], 0) })
}

// comparability says which figures of the arms were not measured in the same way.
func (a *Report) comparability() []string {
	var out []string
	if all := a.armsDiffer(evalSettings); all != nil {
		out = append(out, "The arms were evaluated with different settings ("+strings.Join(all, "; ")+"), so their rewards are not comparable. Train them again with this version, which evaluates all arms in the same way.")
	}
	if all := a.trainingTemperatures(); all != nil {
		out = append(out, "Entropy is that of each arm's own sampling temperature ("+strings.Join(all, ", ")+") and is not comparable between arms.")
	}
	return out
}

// identical reports two arms whose finished runs, seed by seed, ended with the same
// weights and the same evaluations.
func (a *Analysis) identical(q pair) bool {
	pairs := 0
	x, y := a.Arms[q.a].Runs, a.Arms[q.b].Runs
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
