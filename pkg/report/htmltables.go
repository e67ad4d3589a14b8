package report

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/pkg/analysis"

	"go.yaml.in/yaml/v3"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// htmlTable is a table of the page. The first cell of a row is its head.
type htmlTable struct {
	Label string // for those who can't see it
	Head  []htmlHead
	Rows  []htmlRow
	Notes []string
}

type htmlHead struct {
	Name string
	Text bool // not a number
}

type htmlRow struct {
	Badge string // behind the head of the row
	Cells []htmlCell
}

type htmlCell struct {
	Text  string
	Sort  string // what it is sorted by, where that is not its text
	Class string
	Link  string
}

// word is a word of a cell. A short one is not broken, as at the hyphen of
// 1e-4.
type word struct {
	Text  string
	Whole bool
}

// Words are the words of the cell's text.
func (c htmlCell) Words() []word {
	var out []word
	for s := range strings.FieldsSeq(c.Text) {
		out = append(out, word{s, utf8.RuneCountInString(s) <= 12})
	}
	return out
}

// armsHTML is the table of arms, with the columns of results.md.
func (a *Report) armsHTML() htmlTable {
	t := htmlTable{Label: "Results by arm", Notes: a.TableNotes()}
	columns, rows := fill(armColumns, a.Arms)
	// The final reward and what became of the arm stand beside its name, where a
	// narrow screen shows them.
	var first, order []int
	for i, c := range columns {
		if c.text || strings.HasPrefix(c.head, "final") {
			first = append(first, i)
		} else {
			order = append(order, i)
		}
	}
	order = append(first, order...)
	for _, i := range order {
		t.Head = append(t.Head, htmlHead{strings.ReplaceAll(columns[i].head, "`", ""), columns[i].text})
	}
	for k, row := range rows {
		r := htmlRow{}
		if k == a.Best {
			r.Badge = a.BestBadge
		}
		for _, i := range order {
			c := htmlCell{Text: row[i]}
			if columns[i].text {
				c.Class = "text middle"
				if a.Arms[k].Diverged+a.Arms[k].Failed > 0 {
					c.Class += " bad"
				}
			}
			r.Cells = append(r.Cells, c)
		}
		r.Cells[0].Sort = fmt.Sprint(k)
		t.Rows = append(t.Rows, r)
	}
	return t
}

// comparisonsHTML is the table of the paired differences of the figures that
// wanted accepts by their JSON names.
func (a *Report) comparisonsHTML(wanted func(metric string) bool) htmlTable {
	t := htmlTable{
		Label: "Paired differences",
		Head: []htmlHead{
			{"A − B", true}, {"metric", true}, {"mean difference [95% interval]", false}, {"each seed", false}, {"seeds", false},
			{"p", false}, {"p, adjusted", false}, {"separable", true}, {"seeds needed", false},
		},
		Notes: []string{
			comparisonNote,
			"Rewards in points (1 point = 1%).",
		},
	}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		if c.N == 0 || !wanted(c.Metric) {
			continue
		}
		n := analysis.FormatOf(analysis.FinalMetric, 0)
		if c.Kind != analysis.KindInteraction {
			n = a.metricNumbers(c)
		}
		cells := a.comparisonCells(c, n)
		t.Rows = append(t.Rows, htmlRow{Cells: []htmlCell{
			{Text: cells.a + " − " + cells.b, Sort: fmt.Sprint(i)},
			{Text: a.metricLabel(c.Metric), Class: "text short"},
			{Text: cells.difference}, {Text: cells.each}, {Text: fmt.Sprint(c.N)},
			{Text: analysis.PValue(c.P), Sort: exact(c.P)}, {Text: analysis.PValue(c.PHolm), Sort: exact(c.PHolm)},
			{Text: cells.separable, Class: "text"}, {Text: cells.needed, Sort: fmt.Sprint(c.SeedsNeeded)},
		}})
	}
	return t
}

// runsHTML is the table of runs, linked to their folders where asked for.
func (a *Report) runsHTML(folder string, linked bool) htmlTable {
	t := htmlTable{
		Label: "Runs",
		Head: []htmlHead{
			{"arm", true}, {"seed", false}, {"final", false}, {"outcome", true}, {"best", false}, {"best step", false}, {"greedy", false},
			{"test", false}, {"unseen facts", false}, {"correct_num", false}, {"error_num", false}, {"length", false},
			{"entropy", false}, {"gradient norm", false}, {"seconds", false}, {"folder", true},
		},
		Notes: []string{"As in the table of arms, run by run. Seconds: wall-clock, on cores that runs beside it may have shared."},
	}
	for k := range a.Arms {
		r := &a.Arms[k]
		for i, s := range r.Runs {
			value := func(f analysis.Summary, digits int) htmlCell {
				if i >= len(f.Values) {
					return htmlCell{Text: analysis.Absent}
				}
				return htmlCell{Text: analysis.Decimals(f.Values[i], digits)}
			}
			what := htmlCell{Text: runOutcome(s), Class: "text long"}
			if s.State == rundir.StateDiverged || s.State == rundir.StateFailed || s.State == sweepdir.Dead {
				what.Class += " bad"
			}
			bestStep := htmlCell{Text: analysis.Absent}
			if s.Run != nil {
				if e := analysis.Evaluation(s.Run, rundir.SplitVal, analysis.AtBest); e != nil {
					bestStep.Text = fmt.Sprint(e.Step)
				}
			}
			where := htmlCell{Text: path.Base(s.Dir), Class: "text"}
			if linked && s.Run != nil {
				where.Link = link(folder, s.Dir+"/")
			}
			t.Rows = append(t.Rows, htmlRow{Cells: []htmlCell{
				{Text: r.Name(), Sort: fmt.Sprint(k)}, {Text: fmt.Sprint(s.Seed)}, value(r.Of(analysis.FinalMetric), 3), what,
				value(r.Of(analysis.BestMetric), 3), bestStep, value(r.Of(analysis.GreedyMetric), 3), value(r.Of(analysis.TestMetric), 3), value(r.Of(analysis.UnseenMetric), 3),
				value(r.Of(analysis.CorrectMetric), 0), value(r.Of(analysis.ErrorMetric), 0), value(r.Of(analysis.LengthMetric), 1),
				value(r.Of(analysis.EntropyMetric), 4), value(r.Of(analysis.GradNormMetric), 4), value(r.Of(analysis.WallMetric), 1), where,
			}})
		}
	}
	return t
}

// runOutcome says what became of a run.
func runOutcome(s sweepdir.RunState) string {
	out := s.State
	if s.Run != nil {
		// What can't be read of a configuration is only the number of steps.
		about, _ := analysis.ReadInfo(s.Run)
		out = analysis.Outcome(s.Run, about)
		if s.State == sweepdir.Dead {
			out = "dead: " + out
		}
	}
	if s.Error != "" && !strings.Contains(out, s.Error) {
		out += ": " + s.Error
	}
	return out
}

// madePart says what was held fixed and what differs by arm.
func (a *Report) madePart(heading string) htmlMadePart {
	m := a.Sweep.Manifest
	part := htmlMadePart{Heading: heading, Fixed: m.Fixed}
	keys := slices.Clone(m.Varied)
	if len(keys) == 0 {
		for _, arm := range m.Arms {
			for _, o := range arm.Set {
				if !slices.Contains(keys, o.Key) {
					keys = append(keys, o.Key)
				}
			}
		}
		slices.Sort(keys)
	}
	if len(keys) == 0 {
		return part
	}
	t := &htmlTable{Label: "What differs by arm", Head: []htmlHead{{"arm", true}}}
	for _, key := range keys {
		t.Head = append(t.Head, htmlHead{key, true})
	}
	for k, arm := range m.Arms {
		values := settings(m, k)
		row := htmlRow{Cells: []htmlCell{{Text: analysis.ArmResult{Arm: arm}.Name(), Sort: fmt.Sprint(k)}}}
		for _, key := range keys {
			row.Cells = append(row.Cells, htmlCell{Text: values(key), Class: "text"})
		}
		t.Rows = append(t.Rows, row)
	}
	part.Differs = t
	return part
}

// settings looks up keys in the resolved configuration of an arm, or in what
// makes the arm where there is none.
func settings(m sweepdir.Manifest, arm int) func(key string) string {
	var tree map[string]any
	for _, e := range m.Runs {
		if e.Arm == arm && e.Config != "" && yaml.Unmarshal([]byte(e.Config), &tree) == nil {
			break
		}
	}
	return func(key string) string {
		var at any = tree
		for part := range strings.SplitSeq(key, ".") {
			branch, ok := at.(map[string]any)
			if !ok {
				at = nil
				break
			}
			at = branch[part]
		}
		switch v := at.(type) {
		case nil:
			for _, o := range m.Arms[arm].Set {
				if o.Key == key {
					return o.Value
				}
			}
			return analysis.Absent
		case string:
			if v == "" {
				return "(empty)"
			}
			return v
		default:
			return fmt.Sprint(v)
		}
	}
}
