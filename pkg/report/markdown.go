package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// WriteMarkdown writes the validation of one run, or of several seeds of one
// arm, as a Markdown table: a row for each run, and for several runs a row of
// means with sample standard deviations over those that are finished (a run
// that diverged is). Columns that no run fills are left out. Notes below the table say what the numbers are.
func WriteMarkdown(w io.Writer, runs []*rundir.Run) error {
	if len(runs) == 0 {
		return errors.New("write markdown: there are no runs")
	}
	all, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return err
	}
	var columns []markdownColumn
	for _, c := range markdownColumns {
		for _, r := range runs {
			if c.value(r) != nil {
				columns = append(columns, c)
				break
			}
		}
	}
	var b strings.Builder
	b.WriteString("| seed |")
	for _, c := range columns {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString(" outcome |\n| --- |" + strings.Repeat(" ---: |", len(columns)) + " --- |\n")
	for i, r := range runs {
		fmt.Fprintf(&b, "| %s |", strings.TrimPrefix(all[i].SeedText(), "seed "))
		for _, c := range columns {
			b.WriteString(" " + c.cell(r) + " |")
		}
		b.WriteString(" " + escapeMarkdown(analysis.Outcome(r, all[i])) + " |\n")
	}
	if len(runs) > 1 {
		b.WriteString("| mean ± sd |")
		for _, c := range columns {
			b.WriteString(" " + c.mean(runs) + " |")
		}
		b.WriteString("  |\n")
	}
	b.WriteString("\n" + markdownNotes(runs))
	_, err = io.WriteString(w, textutil.Text(b.String()))
	return err
}

// markdownColumn is a figure of a run. value is nil where the run has none.
type markdownColumn struct {
	head   string
	digits int
	value  func(r *rundir.Run) *float64
	// show prints the cell of one run; nil prints the value alone.
	show func(r *rundir.Run) string
}

func (c markdownColumn) cell(r *rundir.Run) string {
	v := c.value(r)
	switch {
	case v == nil:
		return "n/a"
	case c.show != nil:
		return c.show(r)
	}
	return analysis.Decimals(*v, c.digits)
}

// mean is the mean and the standard deviation over the finished runs that have
// the figure, with their number where it is not all runs.
func (c markdownColumn) mean(runs []*rundir.Run) string {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = math.NaN()
		if v := c.value(r); v != nil && r.Finished() {
			values[i] = *v
		}
	}
	m, sd, n := stats.MeanSD(values)
	// A mean of counts needs a decimal of its own.
	digits := max(c.digits, 1)
	s := analysis.Decimals(m, digits)
	if n > 1 {
		s += " ± " + analysis.Decimals(sd, digits)
	}
	if n > 0 && n < len(runs) {
		s += fmt.Sprintf(" (%d of %d runs)", n, len(runs))
	}
	return s
}

var markdownColumns = []markdownColumn{
	rewardColumn("before, sampled", rundir.SplitVal, analysis.AtStart, rundir.DecodingSampled, nil),
	rewardColumn("after, sampled [95% interval]", rundir.SplitVal, analysis.AtEnd, rundir.DecodingSampled,
		func(e rundir.Eval, c rundir.Counts) string { return rewardWithInterval(c) }),
	rewardColumn("after, greedy", rundir.SplitVal, analysis.AtEnd, rundir.DecodingGreedy, nil),
	rewardColumn("best, sampled (step)", rundir.SplitVal, analysis.AtBest, rundir.DecodingSampled,
		func(e rundir.Eval, c rundir.Counts) string {
			return fmt.Sprintf("%s (%d)", analysis.Decimals(c.AnswerReward, 3), e.Step)
		}),
	countColumn("`correct_num`", 0, func(c rundir.Counts) float64 { return float64(c.CorrectNum) }),
	countColumn("`error_num`", 0, func(c rundir.Counts) float64 { return float64(c.ErrorNum) }),
	countColumn("formatted, wrong", 0, func(c rundir.Counts) float64 { return float64(c.FormattedWrong) }),
	countColumn("unformatted", 0, func(c rundir.Counts) float64 { return float64(c.Unformatted) }),
	countColumn("length", 1, func(c rundir.Counts) float64 { return c.Length }),
	rewardColumn("unseen facts, sampled", rundir.SplitUnseen, analysis.AtEnd, rundir.DecodingSampled, nil),
	rewardColumn("unseen facts, greedy", rundir.SplitUnseen, analysis.AtEnd, rundir.DecodingGreedy, nil),
	rewardColumn("test, sampled", rundir.SplitTest, analysis.AtEnd, rundir.DecodingSampled, nil),
	rewardColumn("test, greedy", rundir.SplitTest, analysis.AtEnd, rundir.DecodingGreedy, nil),
}

// rewardColumn is the answer reward of a split and decoding at a moment.
func rewardColumn(head, split string, when analysis.EvalPoint, decoding string, show func(rundir.Eval, rundir.Counts) string) markdownColumn {
	find := func(r *rundir.Run) (*rundir.Eval, *rundir.Counts) {
		e := analysis.Evaluation(r, split, when)
		if e == nil {
			return nil, nil
		}
		return e, analysis.DecodedCounts(*e, decoding)
	}
	c := markdownColumn{head: head, digits: 3, value: func(r *rundir.Run) *float64 {
		if _, counts := find(r); counts != nil {
			return &counts.AnswerReward
		}
		return nil
	}}
	if show != nil {
		c.show = func(r *rundir.Run) string {
			e, counts := find(r)
			return show(*e, *counts)
		}
	}
	return c
}

// countColumn is a figure of the last sampled validation.
func countColumn(head string, digits int, figure func(rundir.Counts) float64) markdownColumn {
	return markdownColumn{head: head, digits: digits, value: func(r *rundir.Run) *float64 {
		e := analysis.Evaluation(r, rundir.SplitVal, analysis.AtEnd)
		if e == nil {
			return nil
		}
		v := figure(e.Sampled)
		return &v
	}}
}

func markdownNotes(runs []*rundir.Run) string {
	var b strings.Builder
	var evals []rundir.Eval
	for _, r := range runs {
		if e := analysis.AnyValidation(r); e != nil {
			evals = append(evals, *e)
		}
	}
	sizes := analysis.Common(evals, func(e rundir.Eval) string {
		return fmt.Sprintf("%d problems; always answering %q is right on %s of them",
			e.Sampled.N, e.MajorityAnswer, analysis.Decimals(e.MajorityBaseline, 3))
	})
	if sizes != "" {
		b.WriteString("Validation: " + escapeMarkdown(sizes) + ". ")
	}
	b.WriteString("Columns without another split are the validation answer reward (fraction correct) and, from `correct_num` to length, counts and mean completion length (tokens) of the last sampled validation. " +
		"The interval is Wilson's, over the problems of one evaluation; it does not cover the spread over seeds.")
	if len(runs) > 1 {
		finished := 0
		for _, r := range runs {
			if r.Finished() {
				finished++
			}
		}
		fmt.Fprintf(&b, " The last row is the mean and the sample standard deviation over the n = %d finished runs.", finished)
	}
	b.WriteString(" The best step is chosen on the same validation problems, so its reward flatters.\n")
	return b.String()
}

// escapeMarkdown keeps foreign text inside its cell or paragraph: it makes no
// column, no HTML, no code, no link and no image.
func escapeMarkdown(s string) string {
	return markdownEscapes.Replace(textutil.Printable(s, 0))
}

var markdownEscapes = strings.NewReplacer("|", `\|`, `\`, `\\`, "<", "&lt;", "`", "'", "](", `]\(`)
