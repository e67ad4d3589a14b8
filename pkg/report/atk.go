package report

import (
	"fmt"
	"maps"
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// AtKTable has pass@k and maj@k of evaluations, a row for each k of each; it has no rows if they have neither.
func AtKTable(evals []rundir.Eval) Table {
	t := Table{Columns: []Column{{Head: "split", Text: true}, {Head: "k"}, {Head: "pass@k"},
		{Head: "95% interval", Text: true}, {Head: "maj@k"}, {Head: "95% interval", Text: true}}}
	for i := range evals {
		for _, k := range analysis.KsOf(&evals[i]) {
			cells := []string{splitName(evals[i].Split), fmt.Sprint(k)}
			for _, kind := range []string{analysis.PassAtPrefix, analysis.MajorityAtPrefix} {
				mean, interval := analysis.Absent, ""
				if x := analysis.AtK(&evals[i], kind, k); x != nil {
					mean = analysis.Decimals(x.Mean, 3)
					interval = fmt.Sprintf("[%s, %s]", analysis.Decimals(x.Lo, 3), analysis.Decimals(x.Hi, 3))
				}
				cells = append(cells, mean, interval)
			}
			t.add(cells...)
		}
	}
	return t
}

var atKHeads = []string{"pass@k, before", "pass@k, after", "maj@k, before", "maj@k, after"}

// atKColumns are the columns before with one for k and those of [atKHeads].
func atKColumns(before Column) []Column {
	columns := []Column{before, {Head: "k"}}
	for _, head := range atKHeads {
		columns = append(columns, Column{Head: head + " [95%]"})
	}
	return columns
}

// atKCells are the columns of [atKHeads] for one k, from what of prefix and kind gives.
func atKCells(of func(prefix, kind string) string) (cells []string) {
	for _, kind := range []string{analysis.PassAtPrefix, analysis.MajorityAtPrefix} {
		cells = append(cells, of(analysis.InitialPrefix, kind), of("", kind))
	}
	return cells
}

// runAtKTable has pass@k and maj@k of a run before and after training, on each set.
func runAtKTable(r *rundir.Run) Table {
	t := Table{Label: "pass@k and maj@k", Columns: atKColumns(Column{Head: "split", Text: true})}
	for _, split := range analysis.SetsOf(r) {
		before, after := analysis.Evaluation(r, split, analysis.AtStart), analysis.Evaluation(r, split, analysis.AtEnd)
		for _, k := range analysis.KsOf(before, after) {
			t.add(append([]string{splitName(split), fmt.Sprint(k)}, atKCells(func(prefix, kind string) string {
				e := after
				if prefix != "" {
					e = before
				}
				x := analysis.AtK(e, kind, k)
				if x == nil {
					return analysis.Absent
				}
				return analysis.WithInterval(x.Mean, x.Lo, x.Hi)
			})...)...)
		}
	}
	t.Notes = []string{"Means over the problems, with 95% intervals over them by Student's t."}
	t.dropEmpty()
	return t
}

// atKTable has pass@k and maj@k of each arm on the validation problems; it has no rows if no run has them.
func (a *Report) atKTable() Table {
	t := Table{Label: "pass@k and maj@k", Columns: atKColumns(Column{Head: "arm", Text: true, Wrap: "middle"})}
	for i := range a.Arms {
		arm := &a.Arms[i]
		for _, k := range arm.Ks() {
			row := Row{Cells: []Cell{{Text: arm.Name(), Sort: fmt.Sprint(i)}, {Text: fmt.Sprint(k)}}}
			for _, text := range atKCells(func(prefix, kind string) string {
				s := arm.AtKOf(prefix, kind, k)
				if s.N == 0 {
					return analysis.Absent
				}
				return interval(s)
			}) {
				row.Cells = append(row.Cells, Cell{Text: text})
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Notes = []string{
		"pass@k: the chance that at least one of k completions of a problem is right, estimated without bias; maj@k: that " +
			"their most frequent answer is right. Validation problems; means over the finished seeds, with 95% intervals by " +
			"Student's t.",
	}
	t.dropEmpty()
	return t
}

// atKNames are the names of pass@k and maj@k of all arms: after training first, by rising k.
func (a *Report) atKNames() (names []string) {
	ks := map[int]bool{}
	for i := range a.Arms {
		for _, k := range a.Arms[i].Ks() {
			ks[k] = true
		}
	}
	for _, prefix := range []string{"", analysis.InitialPrefix} {
		for _, kind := range []string{analysis.PassAtPrefix, analysis.MajorityAtPrefix} {
			for _, k := range slices.Sorted(maps.Keys(ks)) {
				name := fmt.Sprint(prefix, kind, k)
				if slices.ContainsFunc(a.Arms, func(r analysis.ArmResult) bool { return r.AtK[name].N > 0 }) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
