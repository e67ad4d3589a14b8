package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// AssignmentLine is a run's last sampled validation in the assignment's own
// form, for example
//
//	learning_rate: 0.001 Eval step: 200 correct_num: 871 error_num: 153
//
// The assignment counts steps from 0 (n_grpo_idx: 199); here, as everywhere, step
// 200 is the 200th. ok is false when no validation was made after a step.
func AssignmentLine(r *rundir.Run) (line string, ok bool, err error) {
	a, err := analysis.ReadInfo(r)
	if err != nil {
		return "", false, err
	}
	e := analysis.Evaluation(r, rundir.SplitVal, analysis.AtEnd)
	if e == nil || e.Step < 1 {
		return "", false, nil
	}
	return fmt.Sprintf("learning_rate: %s Eval step: %d correct_num: %d error_num: %d",
		textutil.Number(a.Train.LearningRate), e.Step, e.Sampled.CorrectNum, e.Sampled.ErrorNum), true, nil
}

// WriteSummary writes the results of a run for a terminal: the assignment's line
// ([AssignmentLine]), a table of every split and decoding before and after
// training and at the best step, the majority-answer baseline, the result's
// warnings, and the paths of the figures and of the page that the caller has written. For a
// run that is not finished it covers the steps made and describes what is missing.
func WriteSummary(w io.Writer, r *rundir.Run, files ...string) error {
	a, err := analysis.ReadInfo(r)
	if err != nil {
		return err
	}
	line, ok, err := AssignmentLine(r)
	if err != nil {
		return err
	}
	var b strings.Builder
	if ok {
		b.WriteString(line + "\n\n")
	}
	b.WriteString(headline(r, a) + "\n")

	table := summaryTable(r)
	if len(table.Rows) == 0 {
		b.WriteString("no evaluation yet\n")
	} else {
		b.WriteString("\n" + table.String())
		b.WriteString("\n" + footnotes(r))
		if gains := gainTable(r); len(gains.Rows) > 0 {
			b.WriteString("\n" + gains.String() + "\n")
		}
		if atK := runAtKTable(r); len(atK.Rows) > 0 {
			b.WriteString(atK.String() + "\n")
		}
	}
	if s := lastMetrics(r); s != "" {
		b.WriteString(s + "\n")
	}
	if r.Result != nil {
		for _, warning := range r.Result.Warnings {
			b.WriteString("warning: " + textutil.Printable(warning, 0) + "\n")
		}
		if n := r.Result.Checks; n > 0 {
			fmt.Fprintf(&b, "checks: %d passed\n", n)
		}
	}
	for _, gap := range gaps(r) {
		b.WriteString(gap + "\n")
	}
	for _, path := range files {
		kind := "figure"
		if filepath.Ext(path) == ".html" {
			kind = "report"
		}
		b.WriteString(kind + ": " + textutil.Printable(path, 0) + "\n")
	}
	_, err = io.WriteString(w, textutil.Text(b.String()))
	return err
}

// headline names the run and describes how it ended, in one line.
func headline(r *rundir.Run, a analysis.RunInfo) string {
	parts := []string{fmt.Sprintf("%s, %s: %s", a.Name, a.SeedText(), analysis.Outcome(r, a))}
	if res := r.Result; res != nil {
		parts = append(parts,
			textutil.Count(analysis.LastStep(r), "step"), textutil.Count(res.Updates, "update"),
			textutil.Count(res.Parameters, "parameter"))
		if stats.IsFinite(res.WallS) {
			parts = append(parts, analysis.Decimals(res.WallS, 1)+" s")
		}
	}
	return strings.Join(parts, ", ")
}

var summaryColumns = []Column{
	{Head: "split", Text: true}, {Head: "decoding", Text: true}, {Head: "when", Text: true}, {Head: "step"},
	{Head: "answer reward\n[95% interval]", Text: true}, {Head: "correct/\nerror"}, {Head: "formatted\nright/wrong"},
	{Head: "un-\nformatted"}, {Head: "cut"}, {Head: "length"},
}

// summaryTable has a row for each evaluation.
func summaryTable(r *rundir.Run) Table {
	t := Table{Columns: summaryColumns}
	scored := slices.ContainsFunc(r.Evals, func(e rundir.Eval) bool { return e.Sampled.Score != nil })
	if scored {
		t.Columns = append(slices.Clip(t.Columns), Column{Head: "mean of\neval.reward"})
	}
	for _, split := range analysis.SetsOf(r) {
		for _, decoding := range decodings {
			for _, when := range []analysis.EvalPoint{analysis.AtStart, analysis.AtEnd, analysis.AtBest} {
				e := analysis.Evaluation(r, split, when)
				c := analysis.DecodedCounts(e, decoding)
				if c == nil || when == analysis.AtBest && split != rundir.SplitVal {
					continue
				}
				row := []string{
					splitName(split), decoding, string(when), fmt.Sprint(e.Step), rewardWithInterval(e, c),
					fmt.Sprintf("%d/%d", c.CorrectNum, c.ErrorNum),
					fmt.Sprintf("%d/%d", c.FormattedRight, c.FormattedWrong),
					fmt.Sprint(c.Unformatted), fmt.Sprint(c.Truncated), analysis.Decimals(c.Length, 1),
				}
				if scored {
					row = append(row, scoreText(c))
				}
				t.add(row...)
			}
		}
	}
	return t
}

// scoreText is the mean of eval.reward.
func scoreText(c *rundir.Counts) string {
	if c.Score == nil {
		return analysis.Absent
	}
	return analysis.Significant(*c.Score, 4)
}

// rewardWithInterval is "0.851 [0.827, 0.871]".
func rewardWithInterval(e *rundir.Eval, c *rundir.Counts) string {
	if c.N == 0 {
		return analysis.Absent
	}
	lo, hi := analysis.ProblemInterval(e, c)
	return analysis.WithInterval(c.AnswerReward, lo, hi)
}

// footnotes say what the table's numbers are.
func footnotes(r *rundir.Run) string {
	var b strings.Builder
	var sizes, majorities []string
	interval := "Wilson"
	for _, split := range analysis.SetsOf(r) {
		e := analysis.AnyEvaluation(r, split)
		size := fmt.Sprintf("%s %d", splitName(split), e.Problems())
		if e.Samples > 1 {
			size += fmt.Sprintf(" x %d completions", e.Samples)
		}
		sizes = append(sizes, size)
		if analysis.HasPassInterval(e) {
			interval = "pass@1 where a problem has several completions, else Wilson"
		}
		if e.MajorityAnswer != "" {
			majorities = append(majorities, fmt.Sprintf("%s %s (always %q)",
				splitName(split), analysis.Decimals(e.MajorityBaseline, 3), e.MajorityAnswer))
		}
	}
	if len(majorities) > 0 {
		fmt.Fprintf(&b, "majority-answer baseline: %s\n", strings.Join(majorities, ", "))
	}
	fmt.Fprintf(&b, "interval: %s, over the problems of a split (%s), not over seeds\n",
		interval, strings.Join(sizes, ", "))
	if note := analysis.CurveNote([]*rundir.Run{r}); note != "" {
		fmt.Fprintf(&b, "%s\n", note)
	}
	if analysis.Evaluation(r, rundir.SplitVal, analysis.AtBest) != nil {
		b.WriteString("best: chosen by the sampled reward on these same validation problems, so it is biased upward\n")
	}
	return b.String()
}

// lastMetrics is three or four lines on the training steps, mostly on the last one.
func lastMetrics(r *rundir.Run) string {
	if len(r.Metrics) == 0 {
		return ""
	}
	m := r.Metrics[len(r.Metrics)-1]
	clip := "n/a (on-policy)"
	if m.RatioMean != nil { // the policy moved within the step
		clip = "n/a (the loss has no clip)"
	}
	if m.Preference != nil {
		clip = "n/a (the loss has no ratio)"
	}
	if m.ClipFraction != nil {
		clip = analysis.Significant(*m.ClipFraction, 3)
	}
	pairs := ""
	if accuracy, ok := m.Preference["rewards/accuracies"]; ok {
		pairs = fmt.Sprintf("pairs: %s, %s of them ranked right, margin of the rewards %s\n",
			analysis.Significant(m.Preference["pairs"], 6), analysis.Significant(accuracy, 3), analysis.Significant(m.Preference["rewards/margins"], 3))
	}
	entropy, norm := analysis.Significant(m.Entropy, 3), analysis.Significant(m.GradNorm, 3)
	if math.IsNaN(m.Entropy) && !math.IsNaN(m.Loss) { // no completion was in an update
		entropy = analysis.Absent
	}
	if m.Preference != nil && m.Preference["pairs"] == 0 {
		entropy, norm = analysis.Absent, analysis.Absent+" (no pair, no update)"
	}
	if m.Preference != nil && len(m.Rewards) == 0 { // of a file: no rollout
		return pairs + fmt.Sprintf("training, step %d: entropy (nats) %s, gradient norm %s", m.Step, entropy, norm)
	}
	differ := "n/a (no completion was in an update)"
	if slices.ContainsFunc(r.Metrics, func(m rundir.Metrics) bool { return m.SamplerDiff != nil }) {
		differ = analysis.Significant(analysis.LargestSamplerDiff(r), 2) + " nats"
	}
	return pairs + fmt.Sprintf("training, step %d: answer reward %s, length %s, share of zero-variance groups %s,\n"+
		"  entropy (nats) %s, gradient norm %s, clip fraction %s\n%s"+
		"largest difference between the log-probabilities of sampler and learner: %s",
		m.Step, analysis.Significant(m.AnswerReward, 3), analysis.Significant(m.Length, 3),
		analysis.Significant(m.FracRewardZeroStd, 2),
		entropy, norm, clip, trainedOn(m), differ)
}

// trainedOn is a line on the reward of a step and on its functions; empty if the answer
// reward is all of it.
func trainedOn(m rundir.Metrics) string {
	if _, answer := m.Rewards["answer"]; len(m.Rewards) == 0 || answer && len(m.Rewards) == 1 {
		return ""
	}
	mean := func(s rundir.Stat) string {
		if math.IsNaN(s.Mean) { // no completion of the step has this reward
			return analysis.Absent
		}
		return analysis.Significant(s.Mean, 3)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m.Rewards)) {
		parts = append(parts, textutil.Printable(name, 0)+" "+mean(m.Rewards[name]))
	}
	return fmt.Sprintf("  reward as trained on %s, of its functions: %s\n",
		mean(m.Reward), strings.Join(parts, ", "))
}

// gaps lists what a folder lacks, a line each: files that are missing and
// partial lines.
func gaps(r *rundir.Run) []string {
	var out []string
	if len(r.Missing) > 0 {
		out = append(out, "missing: "+strings.Join(r.Missing, ", "))
	}
	for _, t := range r.Partial {
		out = append(out, fmt.Sprintf("partial: line %d of %s, left out", t.Line, filepath.Base(t.Path)))
	}
	return out
}

// splitName is a split in the words of tables and figures.
func splitName(split string) string {
	switch split {
	case rundir.SplitVal:
		return "validation"
	case rundir.SplitUnseen:
		return "unseen facts"
	}
	return textutil.Printable(split, 0)
}
