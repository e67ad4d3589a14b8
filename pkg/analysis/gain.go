package analysis

import (
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Gain is a change of the answer reward, split into what the format and what the answers
// explain. The answer reward is a product,
//
//	A = F C,  F = P(formatted),  C = P(right | formatted),
//
// and each factor explains its own change times the mean of the other factor:
//
//	A1 - A0 = (F1 - F0)(C0 + C1)/2 + (C1 - C0)(F0 + F1)/2
//
// This is exact and symmetric: each part is the mean over the two orders in which the
// factors can change, the Shapley value (Kitagawa, JASA 50, 1955; Shorrocks, Journal of
// Economic Inequality 11, 2013).
type Gain struct{ Format, Answers float64 }

// GainOf splits the change of the answer reward from one evaluation to a later one. It
// is NaN if one of them was not made, or if none of its completions was formatted: then
// C does not exist.
func GainOf(before, after *rundir.Counts) Gain {
	if before == nil || after == nil || formatted(before) == 0 || formatted(after) == 0 {
		return Gain{math.NaN(), math.NaN()}
	}
	f0, f1, c0, c1 := before.FormatReward, after.FormatReward, RightOfFormatted(before), RightOfFormatted(after)
	return Gain{Format: (f1 - f0) * (c0 + c1) / 2, Answers: (c1 - c0) * (f0 + f1) / 2}
}

// GainByProblem is the change of a decoding's answer reward from one evaluation to a later one of the same problems,
// with the interval by Student's t over the problems. ok is false if an evaluation does not say which completions are
// right, or if the problems show no spread.
func GainByProblem(before, after *rundir.Eval, decoding string) (gain stats.Estimate, ok bool) {
	x, y := before.Shares(decoding), after.Shares(decoding)
	if len(x) == 0 || len(x) != len(y) {
		return gain, false
	}
	gain = stats.StudentT(stats.Differences(y, x), 0).Clip(-1, 1)
	return gain, gain.SE > 0
}

// RightOfFormatted is the share of right completions among the formatted ones; NaN if
// there are none.
func RightOfFormatted(c *rundir.Counts) float64 {
	if formatted(c) == 0 {
		return math.NaN()
	}
	return float64(c.FormattedRight) / float64(formatted(c))
}

func formatted(c *rundir.Counts) int { return c.FormattedRight + c.FormattedWrong }

// gain reads a part of the gain of a run with a result.
func gain(decoding string, part func(Gain) float64) reader {
	last := after(decoding, nil).counts
	return reader{func(f *runFacts) float64 { return part(GainOf(DecodedCounts(f.first, decoding), last(f))) }, last}
}

func byFormat(g Gain) float64  { return g.Format }
func byAnswers(g Gain) float64 { return g.Answers }

// ArmGain is the change of an arm's answer reward over training, with its parts.
type ArmGain struct {
	Decoding                   string
	Total, ByFormat, ByAnswers Summary
	// Before and after training: the share of formatted completions, and that of right ones among
	// these. They are of the seeds of Total: a run that has not ended has one before training only.
	Formatted, Right [2]float64
}

// gainMetrics are the answer reward and the share of formatted completions before and after
// training, and the parts of the gain.
type gainMetrics struct {
	decoding        string
	answer, form    [2]*Metric
	format, answers *Metric
}

var (
	sampledGain = gainMetrics{
		rundir.DecodingSampled, [2]*Metric{InitialMetric, FinalMetric}, [2]*Metric{InitialFormatMetric, FormatMetric},
		GainByFormatMetric, GainByAnswersMetric,
	}
	greedyGain = gainMetrics{
		rundir.DecodingGreedy, [2]*Metric{InitialGreedyMetric, GreedyMetric},
		[2]*Metric{InitialGreedyFormatMetric, GreedyFormatMetric},
		GreedyGainByFormatMetric, GreedyGainByAnswersMetric,
	}
)

// Gains are those of sampled and of greedy decoding.
func (r *ArmResult) Gains() []ArmGain { return []ArmGain{sampledGain.of(r), greedyGain.of(r)} }

// GainIn is the gain of the arm in the final reward or in that of greedy decoding, by its metric.
func (r *ArmResult) GainIn(metric string) ArmGain {
	if metric == GreedyMetric.Name {
		return greedyGain.of(r)
	}
	return sampledGain.of(r)
}

func (m gainMetrics) of(r *ArmResult) ArmGain {
	before, after := m.answer[0], m.answer[1]
	values := stats.Differences(r.Of(after).Values, r.Of(before).Values)
	g := ArmGain{
		Decoding: m.decoding, Total: *summaryOf(values, stats.StudentT(values, after.resolution(r)).Clip(-1, 1)),
		ByFormat: r.Of(m.format), ByAnswers: r.Of(m.answers),
	}
	for i := range m.form {
		g.Formatted[i] = r.Of(m.form[i]).MeanWhere(values)
		// All seeds have the same number of problems: the quotient of means is the share over all.
		g.Right[i] = r.Of(m.answer[i]).MeanWhere(values) / g.Formatted[i]
	}
	return g
}

// gainFindings are the arms that improved, with the sources of their gain. Controls and
// arms whose format is hacked have findings of their own.
func (a *Analysis) gainFindings() []Finding {
	var out []Finding
	for i := range a.Arms {
		r := &a.Arms[i]
		f, ok := a.gainSources(i, sampledGain)
		if !ok || r.Arm.Control || r.hacked() {
			continue
		}
		if greedy, ok := a.gainSources(i, greedyGain); ok {
			f.Parts = append(f.Parts, greedy)
		}
		out = append(out, f)
	}
	return out
}

// gainSources is an arm's gain, if the seeds don't explain it. One seed can't show that;
// its gain is reported as it is.
func (a *Analysis) gainSources(arm int, m gainMetrics) (Finding, bool) {
	total := m.of(&a.Arms[arm]).Total
	if !(total.Mean > 0) || total.Lo <= 0 {
		return Finding{}, false
	}
	f := Finding{Kind: GainSources, Arms: []int{arm}, Metric: m.answer[1].Name, Numbers: &total}
	if a.Arms[arm].Of(m.format).N < total.N { // means over fewer seeds would not add up to the gain
		return f, true
	}
	f.Parts = []Finding{a.armFinding(GainByFormat, arm, m.format), a.armFinding(GainByAnswers, arm, m.answers)}
	return f, true
}

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
	read := func(before, after *counts) float64 { return part(GainOf(before, after)) }
	return &SetMetric{name, signedScale, read, decoding}
}

func setCount(name string, of func(*counts) float64) *SetMetric {
	return &SetMetric{name, countScale, func(_, after *counts) float64 { return countsValue(after, of) }, sampled}
}

// SetResult is an arm on one set of problems.
type SetResult struct {
	Set      string             `json:"set"` // as in eval.jsonl
	Problems int                `json:"problems"`
	Metrics  map[string]Summary `json:"metrics"` // by the name of a [SetMetric]

	sampled int // completions of the last sampled evaluation
}

// Of is the summary of a metric.
func (s *SetResult) Of(m *SetMetric) Summary { return s.Metrics[m.Name] }

// mostSets bounds the sets that are shown of a run: a folder may come from anyone.
const mostSets = 64

// SetsOf lists the sets that a run was evaluated on: validation, with the problems of the last evaluation,
// unseen facts, the other sets in the order of its evaluations, and test.
func SetsOf(r *rundir.Run) []string {
	own := []string{rundir.SplitVal, rundir.SplitUnseen, rundir.SplitTest}
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
		if e.Split != rundir.SplitFinal && !slices.Contains(own, e.Split) && !slices.Contains(others, e.Split) {
			others = append(others, e.Split)
		}
	}
	all := slices.Concat(own[:2], others, own[2:])
	return slices.DeleteFunc(all, func(split string) bool { return AnyEvaluation(r, split) == nil })
}

// setResults sums up the sets of an arm's runs. As in [Metrics], what follows training
// counts when a run has its result.
func setResults(r *ArmResult) []SetResult {
	var names []string
	for _, run := range RunsOf(r.Runs) {
		for _, set := range SetsOf(run) {
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
					set.Problems, set.sampled = e.Problems(), e.Sampled.N
				}
			}
		}
		for k, m := range SetMetrics {
			n := set.Problems
			if m.of == sampled {
				n = set.sampled
			}
			least, most := m.scale.bounds(n)
			set.Metrics[m.Name] = NewSummary(values[k], m.scale.resolution(n, 0), least, most)
		}
		out = append(out, set)
	}
	return out
}
