package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
)

// comparePrinted are the columns for people, behind the folder.
var comparePrinted = []armColumn{
	{head: "arm", text: true, cell: func(r *analysis.ArmResult) string { return r.Name() }},
	{head: "seeds", cell: func(r *analysis.ArmResult) string { return strconv.Itoa(r.Of(analysis.FinalMetric).N) }},
	column1("final\n[95% interval]", analysis.FinalMetric, withInterval(3)),
	column1("best", analysis.BestMetric, meanCell(3)),
	column1("greedy", analysis.GreedyMetric, meanCell(3)),
	column1("test", analysis.TestMetric, meanCell(3)),
	column1("`correct_num`", analysis.CorrectMetric, meanCell(1)),
	column1("`error_num`", analysis.ErrorMetric, meanCell(1)),
	column1("steps\nto 90%", analysis.StepsTo90Metric, meanCell(0)),
	column1("length", analysis.LengthMetric, meanCell(1)),
	column1("entropy", analysis.EntropyMetric, threeDigits),
	column1("gradient\nnorm", analysis.GradNormMetric, threeDigits),
	column1("seconds", analysis.WallMetric, meanCell(1)),
	{head: "status", text: true, cell: func(r *analysis.ArmResult) string { return r.Status }},
}

// compareCells are the heads and cells of the table for people.
func compareCells(rows []CompareRow) ([]armColumn, [][]string) {
	arms := make([]analysis.ArmResult, len(rows))
	for i, r := range rows {
		arms[i] = r.Row
	}
	columns, cells := fill(comparePrinted, arms)
	columns = append([]armColumn{{head: "folder", text: true}}, columns...)
	for i, r := range rows {
		folder := compareColumns()[0].text(&r)
		if i > 0 && rows[i-1].Dir == r.Dir {
			folder = `"` // the same as above
		}
		cells[i] = append([]string{folder}, cells[i]...)
	}
	return columns, cells
}

// compareNote says what the numbers are.
const compareNote = "Means over the finished seeds; interval: 95%, Student's t over seeds (a single run has none). Rows of different folders may differ in anything: only arms of one sweep are compared fairly."

// compareNotes adds to the note what keeps these rows from being compared.
func compareNotes(rows []CompareRow) string {
	var runs []*rundir.Run
	for _, r := range rows {
		for _, s := range r.Row.Runs {
			if s.Run != nil {
				runs = append(runs, s.Run)
			}
		}
	}
	if all := analysis.Unique(runs, analysis.RunSettings); len(all) > 1 {
		return compareNote + " These were evaluated with different settings (" + strings.Join(all, "; ") + "), so their rewards are not comparable."
	}
	return compareNote
}

// WriteCompareText writes rows as a table for a terminal.
func WriteCompareText(w io.Writer, rows []CompareRow) error {
	columns, cells := compareCells(rows)
	text := make([]column, len(columns))
	for i, c := range columns {
		text[i] = column{head: strings.ReplaceAll(c.head, "`", ""), right: !c.text}
	}
	_, err := io.WriteString(w, textTable(text, cells)+"\n"+compareNotes(rows)+"\n")
	return err
}

// WriteCompareMarkdown writes rows as a Markdown table.
func WriteCompareMarkdown(w io.Writer, rows []CompareRow) error {
	columns, cells := compareCells(rows)
	for i := range cells {
		for k := range cells[i] {
			cells[i][k] = escapeMarkdown(cells[i][k])
		}
		cells[i][0] = escapeMarkdown(compareColumns()[0].text(&rows[i]))
	}
	var b strings.Builder
	markdownTable(&b, columns, cells)
	b.WriteString("\n" + compareNotes(rows) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCompareCSV writes every column of [CompareColumns], figures as their
// mean and, beside it, the ends of the interval (NAME_lo, NAME_hi), with all
// their digits; an empty cell is a figure that does not exist. Text is escaped by
// [csvText].
func WriteCompareCSV(w io.Writer, rows []CompareRow) error {
	out := csv.NewWriter(w)
	var head []string
	columns := compareColumns()
	figures := len(columns) - len(analysis.Metrics)
	for i, c := range columns {
		head = append(head, c.name)
		if i >= figures {
			head = append(head, c.name+"_lo", c.name+"_hi")
		}
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for i := range rows {
		var line []string
		for k, c := range columns {
			if c.number == nil {
				line = append(line, csvText(c.text(&rows[i])))
				continue
			}
			line = append(line, exact(c.number(&rows[i])))
			if k >= figures {
				f := rows[i].Row.Of(analysis.Metrics[k-figures])
				line = append(line, exact(f.Lo), exact(f.Hi))
			}
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
