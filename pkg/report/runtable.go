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

// runColumns are the metrics in the table of runs.
var runColumns = []struct {
	head   string
	metric *analysis.Metric
	digits int
}{
	{"best", analysis.BestMetric, 3}, {"greedy", analysis.GreedyMetric, 3}, {"test", analysis.TestMetric, 3},
	{"unseen facts", analysis.UnseenMetric, 3}, {"correct_num", analysis.CorrectMetric, 0}, {"error_num", analysis.ErrorMetric, 0},
	{"length", analysis.LengthMetric, 1}, {"entropy", analysis.EntropyMetric, 4}, {"gradient norm", analysis.GradNormMetric, 4},
	{"seconds", analysis.WallMetric, 1},
}

// runsTable is the table of runs; linked means that their folders are below folder.
func (a *Report) runsTable(folder string, linked bool) Table {
	t := Table{
		Label: "Runs",
		Columns: []Column{
			{Head: "arm", Text: true}, {Head: "seed"}, {Head: "final"}, {Head: "outcome", Text: true, Wrap: "long"}, {Head: "best step"},
		},
		Notes: []string{"As in the table of arms, run by run. Seconds: wall-clock time; other runs may have shared the cores."},
	}
	for _, c := range runColumns {
		t.head(c.head)
	}
	t.Columns = append(t.Columns, Column{Head: "folder", Text: true})
	for k := range a.Arms {
		r := &a.Arms[k]
		for i, s := range r.Runs {
			value := func(m *analysis.Metric, digits int) Cell {
				return Cell{Text: analysis.Decimals(r.Of(m).Values[i], digits)}
			}
			bad := s.State == rundir.StateDiverged || s.State == rundir.StateFailed || s.State == sweepdir.Dead
			bestStep, where := Cell{Text: analysis.Absent}, Cell{Text: path.Base(s.Dir)}
			if s.Run != nil {
				if e := analysis.Evaluation(s.Run, rundir.SplitVal, analysis.AtBest); e != nil {
					bestStep.Text = fmt.Sprint(e.Step)
				}
				if linked {
					where.Link = link(folder, s.Dir+"/")
				}
			}
			row := Row{Cells: []Cell{
				{Text: r.Name(), Sort: fmt.Sprint(k)}, {Text: fmt.Sprint(s.Seed)}, value(analysis.FinalMetric, 3), {Text: runOutcome(s), Bad: bad}, bestStep,
			}}
			for _, c := range runColumns {
				row.Cells = append(row.Cells, value(c.metric, c.digits))
			}
			row.Cells = append(row.Cells, where)
			t.Rows = append(t.Rows, row)
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
			if x := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key }); x >= 0 && x < len(m.Arms[k].Point) {
				value = m.Axes[x].Shown(m.Arms[k].Point[x])
			}
			row.Cells = append(row.Cells, Cell{Text: value})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
