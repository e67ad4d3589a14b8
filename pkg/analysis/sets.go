package analysis

import (
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
)

// SetMetric is a quantity of a set of problems, over the seeds of an arm.
type SetMetric struct {
	Name  string
	scale scale
	read  func(before, after *counts) float64 // either may be nil
	of    string                              // the decoding
}

// SetMetrics are the quantities of each set, in the order of results.csv.
var SetMetrics = []*SetMetric{SetBefore, SetAfter, SetGreedyBefore, SetGreedyAfter,
	SetGainByFormat, SetGainByAnswers, SetGreedyGainByFormat, SetGreedyGainByAnswers,
	SetCorrect, SetErrors, SetFormattedRight, SetFormattedWrong, SetUnformatted}

// The answer rewards before training and after the last step, the parts of the gain
// ([GainOf]), and the counts of the last sampled evaluation.
var (
	SetBefore       = &SetMetric{"before", rewardScale, rewardBefore, sampled}
	SetAfter        = &SetMetric{"after", rewardScale, rewardAfter, sampled}
	SetGreedyBefore = &SetMetric{"greedy_before", rewardScale, rewardBefore, greedy}
	SetGreedyAfter  = &SetMetric{"greedy_after", rewardScale, rewardAfter, greedy}

	SetGainByFormat        = setGain("gain_by_format", sampled, byFormat)
	SetGainByAnswers       = setGain("gain_by_answers", sampled, byAnswers)
	SetGreedyGainByFormat  = setGain("greedy_gain_by_format", greedy, byFormat)
	SetGreedyGainByAnswers = setGain("greedy_gain_by_answers", greedy, byAnswers)

	SetCorrect        = setCount("correct_num", correctNum)
	SetErrors         = setCount("error_num", errorNum)
	SetFormattedRight = setCount("formatted_right", formattedRight)
	SetFormattedWrong = setCount("formatted_wrong", formattedWrong)
	SetUnformatted    = setCount("unformatted", unformatted)
)

func rewardBefore(before, _ *counts) float64 { return countsValue(before, answerReward) }
func rewardAfter(_, after *counts) float64   { return countsValue(after, answerReward) }

func setGain(name, decoding string, part func(Gain) float64) *SetMetric {
	return &SetMetric{name, signedScale, func(before, after *counts) float64 { return part(GainOf(before, after)) }, decoding}
}

func setCount(name string, of func(*counts) float64) *SetMetric {
	return &SetMetric{name, countScale, func(_, after *counts) float64 { return countsValue(after, of) }, sampled}
}

// SetResult is an arm on one set of problems.
type SetResult struct {
	Set      string             `json:"set"` // as in eval.jsonl
	Problems int                `json:"problems"`
	Metrics  map[string]Summary `json:"metrics"` // by the name of a [SetMetric]
}

// Of is the summary of a metric.
func (s *SetResult) Of(m *SetMetric) Summary { return s.Metrics[m.Name] }

// mostSets bounds the sets that are shown of a run: a folder may come from anyone.
const mostSets = 64

// SetsOf lists the sets that a run was evaluated on: validation, unseen facts, the other
// sets in the order of its evaluations, and test.
func SetsOf(r *rundir.Run) []string {
	own := []string{rundir.SplitVal, rundir.SplitUnseen, rundir.SplitTest}
	has := func(split string) bool {
		return Evaluation(r, split, AtStart) != nil || Evaluation(r, split, AtEnd) != nil
	}
	var others []string
	if r.Result != nil {
		for _, s := range r.Result.Sets[:min(len(r.Result.Sets), mostSets)] {
			others = append(others, s.Name)
		}
	}
	for _, e := range r.Evals {
		if len(others) >= mostSets {
			break
		}
		if !slices.Contains(own, e.Split) && !slices.Contains(others, e.Split) {
			others = append(others, e.Split)
		}
	}
	all := slices.Concat(own[:2], others, own[2:])
	return slices.DeleteFunc(all, func(split string) bool { return !has(split) })
}

// setResults sums up the sets of an arm's runs. As in [Metrics], what follows training
// counts when a run has its result.
func setResults(r *ArmResult) []SetResult {
	var names []string
	for _, s := range r.Runs {
		if s.Run == nil {
			continue
		}
		for _, set := range SetsOf(s.Run) {
			if !slices.Contains(names, set) {
				names = append(names, set)
			}
		}
	}
	var out []SetResult
	for _, name := range names {
		set := SetResult{Set: textutil.Printable(name, 0), Metrics: map[string]Summary{}}
		values := make([][]float64, len(SetMetrics))
		for _, s := range r.Runs {
			var before, after *rundir.Eval
			if s.Run != nil {
				if before = Evaluation(s.Run, name, AtStart); s.Run.Result != nil {
					after = Evaluation(s.Run, name, AtEnd)
				}
			}
			for k, m := range SetMetrics {
				values[k] = append(values[k], m.read(DecodedCounts(before, m.of), DecodedCounts(after, m.of)))
			}
			for _, e := range []*rundir.Eval{before, after} {
				if e != nil {
					set.Problems = e.Sampled.N
				}
			}
		}
		for k, m := range SetMetrics {
			least, most := m.scale.bounds(set.Problems)
			set.Metrics[m.Name] = NewSummary(values[k], m.scale.resolution(set.Problems, 0), least, most)
		}
		out = append(out, set)
	}
	return out
}
