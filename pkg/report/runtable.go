package report

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// runRow is a run in the table of runs: that of the i-th seed of an arm, whose index is at.
type runRow struct {
	sweepdir.RunState
	arm   *analysis.ArmResult
	at, i int
}

func runColumn(head string, m *analysis.Metric, digits int) column[runRow] {
	return plain(head, func(r runRow) string { return analysis.Decimals(r.arm.Of(m).Values[r.i], digits) })
}

var runColumns = []column[runRow]{
	{Column{Head: "arm", Text: true}, func(r runRow) Cell { return Cell{Text: r.arm.Name(), Sort: fmt.Sprint(r.at)} }},
	plain("seed", func(r runRow) string { return fmt.Sprint(r.Seed) }),
	runColumn("final", analysis.FinalMetric, 3),
	{Column{Head: "outcome", Text: true, Wrap: "long"}, func(r runRow) Cell {
		bad := r.State == rundir.StateDiverged || r.State == rundir.StateFailed || r.State == sweepdir.Dead
		return Cell{Text: runOutcome(r.RunState), Bad: bad}
	}},
	plain("best step", func(r runRow) string {
		if r.Run != nil {
			if e := analysis.Evaluation(r.Run, rundir.SplitVal, analysis.AtBest); e != nil {
				return fmt.Sprint(e.Step)
			}
		}
		return analysis.Absent
	}),
	runColumn("best", analysis.BestMetric, 3), runColumn("greedy", analysis.GreedyMetric, 3),
	runColumn("test", analysis.TestMetric, 3), runColumn("unseen facts", analysis.UnseenMetric, 3),
	runColumn("correct_num", analysis.CorrectMetric, 0), runColumn("error_num", analysis.ErrorMetric, 0),
	runColumn("length", analysis.LengthMetric, 1), runColumn("entropy", analysis.EntropyMetric, 4),
	runColumn("gradient norm", analysis.GradNormMetric, 4), runColumn("seconds", analysis.WallMetric, 1),
	{Column{Head: "folder", Text: true}, func(r runRow) Cell { return Cell{Text: path.Base(r.Dir)} }},
}

// runsTable is the table of runs; linked means that their folders are below folder.
func (a *Report) runsTable(folder string, linked bool) Table {
	var rows []runRow
	for k := range a.Arms {
		for i, s := range a.Arms[k].Runs {
			rows = append(rows, runRow{s, &a.Arms[k], k, i})
		}
	}
	t := tableOf("Runs", runColumns, rows)
	t.Notes = []string{
		"As in the table of arms, run by run. Seconds: wall-clock time; other runs may have shared the cores.",
	}
	for i, r := range rows {
		if linked && r.Run != nil {
			t.Rows[i].Cells[len(runColumns)-1].Link = link(folder, r.Dir+"/")
		}
	}
	return t
}

// runOutcome describes what became of a run.
func runOutcome(s sweepdir.RunState) string {
	out := s.State
	if s.Run != nil {
		info, _ := analysis.ReadInfo(s.Run) // without a readable configuration, only the number of steps is missing
		out = analysis.Outcome(s.Run, info)
		if s.State == sweepdir.Dead {
			out = "dead: " + out
		}
	}
	if s.Error != "" && !strings.Contains(out, s.Error) {
		out += ": " + s.Error
	}
	return out
}

// varyingKeys are the keys in which the arms differ.
func (a *Report) varyingKeys() []string {
	m := a.Sweep.Manifest
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
	return keys
}

// settingsTable shows what differs by arm; nil if nothing does.
func (a *Report) settingsTable() *Table {
	m, keys := &a.Sweep.Manifest, a.varyingKeys()
	if len(keys) == 0 {
		return nil
	}
	t := &Table{Label: "What differs by arm", Columns: []Column{{Head: "arm", Text: true}}}
	for _, key := range keys {
		t.Columns = append(t.Columns, Column{Head: key, Text: true})
	}
	for k := range a.Arms {
		row := Row{Cells: []Cell{{Text: a.Arms[k].Name(), Sort: fmt.Sprint(k)}}}
		values := a.ConfigOf(k)
		for _, key := range keys {
			value, ok := values[key]
			if !ok {
				value = analysis.Absent
			} else if value == "" {
				value = "(empty)"
			}
			x := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key })
			if x >= 0 && x < len(m.Arms[k].Point) {
				value = m.Axes[x].Shown(m.Arms[k].Point[x])
			}
			row.Cells = append(row.Cells, Cell{Text: value})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
