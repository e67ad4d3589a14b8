package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// Gate are conditions on results, for CI.
type Gate struct {
	Below    *float64  // the lowest final validation reward; nil = any
	Diverged bool      // no run may have diverged
	Baseline *Baseline // the final validation rewards of an earlier result; nil = none
	MaxDrop  float64   // the points by which a reward may be below its baseline
	Weights  string    // the first digits of the SHA-256 of the final weights; empty = any
}

// Check is a condition with what was found.
type Check struct {
	// Name is that of the flag without dashes, or "results": whether all runs have a result.
	Name      string `json:"name"`
	Of        string `json:"of,omitempty"` // the arm, or of several runs the folder
	OK        bool   `json:"ok"`
	Value     any    `json:"value"` // a number, or a hash; null if there is none
	Threshold any    `json:"threshold"`
	failure   string // why it is not OK
}

// Failed are the checks that failed as one error, nil if there are none.
func Failed(checks []Check) error {
	var errs []error
	for _, c := range checks {
		if !c.OK {
			errs = append(errs, errors.New(c.failure))
		}
	}
	return errors.Join(errs...)
}

func (g *Gate) isSet() bool {
	return g.Below != nil || g.Diverged || g.Baseline != nil || g.Weights != ""
}

// Run checks a run; name is empty for the only one, and a run that has not ended has no result. The
// list is empty, not nil, without conditions.
func (g *Gate) Run(name string, r *rundir.Result) []Check {
	out := []Check{}
	if !g.isSet() {
		return out
	}
	prefix := name
	if prefix != "" {
		prefix += ": "
	}
	if r == nil {
		return append(out, Check{"results", name, false, 0, 1, prefix + "it has no result to check"})
	}
	out = append(out, g.reward("", prefix, "", r.Final.Sampled.AnswerReward)...)
	if g.Diverged {
		at, n := "", 0
		if r.Status == rundir.StateDiverged {
			n = 1
		}
		if r.DivergedAt != nil {
			at = fmt.Sprintf(" at step %d", *r.DivergedAt)
		}
		out = append(out, Check{"fail-on-diverged", "", n == 0, n, 0,
			fmt.Sprintf("--fail-on-diverged: %sthe run diverged%s (%s)", prefix, at, r.DivergedReason)})
	}
	if g.Weights != "" {
		hash := r.WeightsSHA256
		out = append(out, Check{"expect-weights", "", strings.HasPrefix(hash, g.Weights), hash, g.Weights,
			fmt.Sprintf("--expect-weights %s: %sthe SHA-256 of the final weights is %s", g.Weights, prefix, hash)})
	}
	return of(name, out)
}

// of says what checks are of.
func of(name string, checks []Check) []Check {
	for i := range checks {
		checks[i].Of = name
	}
	return checks
}

// reward checks a final validation reward; key is its place in the baseline.
func (g *Gate) reward(key, prefix, suffix string, final float64) []Check {
	var out []Check
	if g.Below != nil {
		out = append(out, Check{"fail-below", "", final >= *g.Below, final, *g.Below,
			fmt.Sprintf("--fail-below %g: %sthe final validation reward is %.3f%s", *g.Below, prefix, final, suffix)})
	}
	if g.Baseline == nil {
		return out
	}
	flag := fmt.Sprintf("--max-drop %g: %s", g.MaxDrop, prefix)
	before, err := g.Baseline.of(key)
	if err != nil {
		return append(out, Check{"max-drop", "", false, nil, g.MaxDrop, flag + err.Error()})
	}
	const billion = 1e9 // without the last digits: 0.56 - 0.54 is two points
	drop := math.Round((before-final)*100*billion) / billion
	failure := fmt.Sprintf("the final validation reward is %.3f%s, %.3g points below %.3f of the baseline",
		final, suffix, drop, before)
	return append(out, Check{"max-drop", "", drop <= g.MaxDrop, drop, g.MaxDrop, flag + failure})
}

// Sweep checks every arm of a sweep but the controls, which are expected to fail. part is its place in a
// study, or empty; a is nil for a part that has not started.
func (g *Gate) Sweep(part string, a *Report) []Check {
	out := []Check{}
	switch {
	case !g.isSet():
		return out
	case a == nil:
		return append(out, Check{"results", "part " + part, false, 0, nil, "part " + part + " has no results to check"})
	}
	place := ""
	if part != "" {
		place = "part " + part + ", "
	}
	for i := range a.Arms {
		r := &a.Arms[i]
		if r.Arm.Control {
			continue
		}
		name, runs := place+textutil.Printable(r.Name(), 0), r.Trained()
		left := r.Failed + r.Left
		checks := []Check{{"results", "", left == 0, runs - left, runs,
			fmt.Sprintf("%s: %d of %s have no result to check", name, left, textutil.Count(runs, "run"))}}
		if final := r.Of(analysis.FinalMetric); final.N > 0 {
			suffix := fmt.Sprintf(" (mean of %s)", textutil.Count(final.N, "seed"))
			checks = append(checks, g.reward(baselineKey(part, r.Arm.Name), name+": ", suffix, final.Mean)...)
		}
		if g.Diverged {
			at := analysis.StepRange(r.DivergedSteps())
			if at != "" {
				at = ", " + at
			}
			checks = append(checks, Check{"fail-on-diverged", "", r.Diverged == 0, r.Diverged, 0,
				fmt.Sprintf("--fail-on-diverged: %s: %d of %s diverged%s", name, r.Diverged, textutil.Count(runs, "run"), at)})
		}
		out = append(out, of(name, checks)...)
	}
	return out
}

// Study checks every part of a study.
func (g *Gate) Study(r *StudyReport) []Check {
	out := []Check{}
	for i, part := range r.Study.Parts {
		out = append(out, g.Sweep(part.Name, r.Parts[i])...)
	}
	return out
}

// Baseline is the final validation rewards of an earlier result: of a run under the name "", of a sweep
// by arm, of a study by part and arm.
type Baseline struct {
	file    string
	rewards map[string]float64
}

// The parts of result files and of the output of --json that a baseline needs.
type (
	baselineRun struct {
		Final *struct {
			Sampled struct {
				AnswerReward *float64 `json:"answer_reward"`
			} `json:"sampled"`
		} `json:"final"`
	}
	baselineSweep struct {
		Arms []struct {
			Arm struct {
				Name string `json:"name"`
			} `json:"arm"`
			Final struct {
				Mean *float64 `json:"mean"`
			} `json:"final"`
		} `json:"arms"`
	}
	baselineStudy struct {
		Parts []struct {
			Part    string        `json:"part"`
			Results baselineSweep `json:"results"`
		} `json:"parts"`
	}
)

// ReadBaseline reads result.json of a run, results.json of a sweep or a study, or what train, sweep,
// ablate or assignment printed with --json. It is an error if the file has nothing of this kind.
func ReadBaseline(file string, kind rundir.Kind) (*Baseline, error) {
	var doc struct {
		baselineRun
		baselineSweep
		baselineStudy
		Result   baselineRun   `json:"result"`   // grpo train --json
		Analysis baselineSweep `json:"analysis"` // grpo sweep --json
		Results  baselineStudy `json:"results"`  // grpo assignment --json
	}
	data, err := regular.Read(file, regular.MaxDocument)
	if err == nil {
		err = jsonkeys.Decode(data, &doc)
	}
	if err != nil {
		return nil, config.Invalid(fmt.Errorf("--baseline %s: %w", file, rundir.Explain(err)))
	}
	b := &Baseline{file: file, rewards: map[string]float64{}}
	add := func(part, name string, reward *float64) {
		if reward != nil && *reward >= 0 && *reward <= 1 {
			b.rewards[baselineKey(part, name)] = *reward
		}
	}
	addSweep := func(part string, s baselineSweep) {
		for _, a := range s.Arms {
			add(part, a.Arm.Name, a.Final.Mean)
		}
	}
	want := "result.json of a run"
	switch kind {
	case rundir.KindSweep:
		want = "results.json of a sweep"
		addSweep("", doc.baselineSweep)
		addSweep("", doc.Analysis)
	case rundir.KindStudy:
		want = "results.json of a study"
		for _, p := range slices.Concat(doc.Parts, doc.Results.Parts) {
			addSweep(p.Part, p.Results)
		}
	default:
		for _, r := range []baselineRun{doc.baselineRun, doc.Result} {
			if r.Final != nil {
				add("", "", r.Final.Sampled.AnswerReward)
			}
		}
	}
	if len(b.rewards) == 0 {
		return nil, config.Invalid(fmt.Errorf("--baseline %s: it has no final validation reward: give the %s, "+
			"or what the command printed with --json", file, want))
	}
	return b, nil
}

func baselineKey(part, name string) string {
	if part == "" {
		return name
	}
	return part + "/" + name
}

// of is the reward of a run (without a name) or of an arm.
func (b *Baseline) of(key string) (float64, error) {
	if v, ok := b.rewards[key]; ok {
		return v, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(b.rewards)), ", ")
	return 0, fmt.Errorf("the baseline %s has no reward of it (there are: %s)", textutil.Quote(b.file),
		textutil.Printable(known, 200))
}
