package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// WriteMarkdown writes the validation of one run, or of several seeds of one
// arm, as a Markdown table: a row for each run, and for several runs a row of
// means with sample standard deviations over those that are finished (a run
// that diverged is). Columns that no run fills are left out. A second table has
// the gains.
func WriteMarkdown(w io.Writer, runs []*rundir.Run) error {
	t, err := seedTable(runs)
	if err != nil {
		return err
	}
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return err
	}
	text := t.Markdown() + "\n" + seedNotes(runs)
	if gains := gainsBySeed(runs, infos); len(gains.Rows) > 0 {
		text += "\n" + gains.Markdown()
	}
	_, err = io.WriteString(w, textutil.Text(text))
	return err
}

// seedTable is the table of runs of one setting.
func seedTable(runs []*rundir.Run) (Table, error) {
	var t Table
	if len(runs) == 0 {
		return t, errors.New("write markdown: there are no runs")
	}
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return t, err
	}
	columns := slices.Clone(seedColumns)
	for _, set := range otherSets(runs) {
		for _, decoding := range decodings {
			for _, when := range []analysis.EvalPoint{analysis.AtStart, analysis.AtEnd} {
				head := fmt.Sprintf("%s, %s, %s", splitName(set), when, decoding)
				columns = append(columns, rewardColumn(head, set, when, decoding))
			}
		}
	}
	t = Table{Label: "Results by seed", Columns: []Column{{Head: "seed", Text: true}}}
	for _, c := range columns {
		t.head(c.head)
	}
	t.Columns = append(t.Columns, Column{Head: "outcome", Text: true})
	for i, r := range runs {
		cells := []string{strings.TrimPrefix(infos[i].SeedText(), "seed ")}
		for _, c := range columns {
			cells = append(cells, c.cell(r))
		}
		t.add(append(cells, analysis.Outcome(r, infos[i]))...)
	}
	if len(runs) > 1 {
		cells := []string{"mean ± sd"}
		for _, c := range columns {
			cells = append(cells, c.mean(runs))
		}
		t.add(append(cells, "")...)
	}
	t.dropEmpty()
	return t, nil
}

// otherSets are the sets from files that a run was evaluated on.
func otherSets(runs []*rundir.Run) []string {
	var out []string
	for _, r := range runs {
		for _, set := range analysis.SetsOf(r) {
			own := set == rundir.SplitVal || set == rundir.SplitUnseen || set == rundir.SplitTest
			if !own && !slices.Contains(out, set) {
				out = append(out, set)
			}
		}
	}
	return out
}

// seedColumn is a number of an evaluation of a run.
type seedColumn struct {
	head     string
	split    string
	when     analysis.EvalPoint
	decoding string
	digits   int
	value    func(*rundir.Counts) float64
	// show prints the cell of one run if the number alone does not do.
	show func(*rundir.Eval, *rundir.Counts) string
}

// find is the evaluation that the column is about; nil where the run has none.
func (c seedColumn) find(r *rundir.Run) (*rundir.Eval, *rundir.Counts) {
	e := analysis.Evaluation(r, c.split, c.when)
	return e, analysis.DecodedCounts(e, c.decoding)
}

func (c seedColumn) cell(r *rundir.Run) string {
	e, counts := c.find(r)
	switch {
	case counts == nil:
		return analysis.Absent
	case c.show != nil:
		return c.show(e, counts)
	}
	return analysis.Decimals(c.value(counts), c.digits)
}

// mean is the mean and the standard deviation over the finished runs that have the
// number, and how many they are if they are not all.
func (c seedColumn) mean(runs []*rundir.Run) string {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = math.NaN()
		if _, counts := c.find(r); counts != nil && r.Finished() {
			values[i] = c.value(counts)
		}
	}
	m, sd, n := stats.MeanSD(values)
	digits := max(c.digits, 1) // a mean of counts has decimals
	s := analysis.Decimals(m, digits)
	if n > 1 {
		s += " ± " + analysis.Decimals(sd, digits)
	}
	if n > 0 && n < len(runs) {
		s += fmt.Sprintf(" (%d of %d runs)", n, len(runs))
	}
	return s
}

// seedColumns are the answer rewards, and the counts and length of the last sampled
// validation.
var seedColumns = []seedColumn{
	rewardColumn("before, sampled", rundir.SplitVal, analysis.AtStart, rundir.DecodingSampled),
	{"after, sampled [95% interval]", rundir.SplitVal, analysis.AtEnd, rundir.DecodingSampled, 3, answerReward,
		rewardWithInterval},
	rewardColumn("after, greedy", rundir.SplitVal, analysis.AtEnd, rundir.DecodingGreedy),
	{"best, sampled (step)", rundir.SplitVal, analysis.AtBest, rundir.DecodingSampled, 3, answerReward,
		func(e *rundir.Eval, c *rundir.Counts) string {
			return fmt.Sprintf("%s (%d)", analysis.Decimals(c.AnswerReward, 3), e.Step)
		}},
	countColumn("`correct_num`", 0, func(c *rundir.Counts) float64 { return float64(c.CorrectNum) }),
	countColumn("`error_num`", 0, func(c *rundir.Counts) float64 { return float64(c.ErrorNum) }),
	countColumn("formatted, wrong", 0, func(c *rundir.Counts) float64 { return float64(c.FormattedWrong) }),
	countColumn("unformatted", 0, func(c *rundir.Counts) float64 { return float64(c.Unformatted) }),
	countColumn("length", 1, func(c *rundir.Counts) float64 { return c.Length }),
	rewardColumn("unseen facts, sampled", rundir.SplitUnseen, analysis.AtEnd, rundir.DecodingSampled),
	rewardColumn("unseen facts, greedy", rundir.SplitUnseen, analysis.AtEnd, rundir.DecodingGreedy),
	rewardColumn("test, sampled", rundir.SplitTest, analysis.AtEnd, rundir.DecodingSampled),
	rewardColumn("test, greedy", rundir.SplitTest, analysis.AtEnd, rundir.DecodingGreedy),
}

func answerReward(c *rundir.Counts) float64 { return c.AnswerReward }

func rewardColumn(head, split string, when analysis.EvalPoint, decoding string) seedColumn {
	return seedColumn{head, split, when, decoding, 3, answerReward, nil}
}

func countColumn(head string, digits int, value func(*rundir.Counts) float64) seedColumn {
	return seedColumn{head, rundir.SplitVal, analysis.AtEnd, rundir.DecodingSampled, digits, value, nil}
}

func seedNotes(runs []*rundir.Run) string {
	var b strings.Builder
	var evals []rundir.Eval
	for _, r := range runs {
		if e := analysis.AnyValidation(r); e != nil {
			evals = append(evals, *e)
		}
	}
	sizes := analysis.Common(evals, func(e rundir.Eval) string {
		if e.MajorityAnswer == "" {
			return e.OutOf("problem")
		}
		return fmt.Sprintf("%s; always answering %q is right on %s of them",
			e.OutOf("problem"), e.MajorityAnswer, analysis.Decimals(e.MajorityBaseline, 3))
	})
	if sizes != "" {
		b.WriteString("Validation: " + escapeMarkdown(sizes) + ". ")
	}
	if note := analysis.CurveNote(runs); note != "" {
		b.WriteString(asSentence(note) + " ")
	}
	b.WriteString("Columns that name no split are the validation answer reward (fraction correct) and, from " +
		"`correct_num` to length, counts and mean completion length (tokens) of the last sampled validation. " +
		"The interval is Wilson's (pass@1's for several completions of a problem), over the problems of one evaluation; " +
		"it does not cover the spread over seeds.")
	if len(runs) > 1 {
		finished := 0
		for _, r := range runs {
			if r.Finished() {
				finished++
			}
		}
		fmt.Fprintf(&b, " The last row is the mean and the sample standard deviation over the n = %d finished runs.",
			finished)
	}
	b.WriteString(" The best step is chosen on the same validation problems, so its reward is biased upward.")
	if note := analysis.VersionsNote(runs); note != "" {
		b.WriteString(" " + escapeMarkdown(note) + ".")
	}
	b.WriteString("\n")
	return b.String()
}
