package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

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
