package report

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// CompareRow is a row of a comparison of folders: an arm of a sweep, or a run
// by itself as an arm of one seed.
type CompareRow struct {
	Dir string             `json:"dir"` // the folder of the sweep or run
	Row analysis.ArmResult `json:"row"`
	// WallS is the wall-clock time of the runs, which results.json leaves out so
	// that the same runs give the same bytes.
	WallS analysis.Summary `json:"wall_s"`
	// OtherContents are files of which the runs of the sweep had different contents: its rows are not
	// comparable.
	OtherContents []string `json:"other_contents,omitempty"`
}

// CompareFolders reads folders of runs, sweeps and studies and returns a row for
// each run and for each arm, in the order of the folders; a folder that is named
// twice counts once. It makes no statistical test, because rows of different
// folders may differ in anything. Any other folder is an error.
func CompareFolders(dirs []string) ([]CompareRow, error) {
	var out []CompareRow
	for _, dir := range analysis.Distinct(dirs) {
		rows, err := compareFolder(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

func compareFolder(dir string) ([]CompareRow, error) {
	sweeps, err := openSweeps(dir)
	if err != nil {
		return nil, err
	}
	if sweeps == nil {
		run, err := rundir.Open(dir)
		if err != nil {
			return nil, notAFolder(dir, err)
		}
		info, err := analysis.ReadInfo(run)
		if err != nil {
			return nil, err
		}
		sweeps = append(sweeps, sweepOfOne(dir, info))
	}
	var out []CompareRow
	for _, sw := range sweeps {
		a, err := analysis.Analyse(sw)
		if err != nil {
			return nil, err
		}
		other := a.OtherContents()
		for _, r := range a.Arms {
			out = append(out, CompareRow{Dir: sw.Dir, Row: r, WallS: r.Of(analysis.WallMetric), OtherContents: other})
		}
	}
	return out, nil
}

// openSweeps opens a sweep, or the parts of a study that have started; nil for any other folder.
func openSweeps(dir string) ([]*sweepdir.Sweep, error) {
	switch {
	case sweepdir.IsStudy(dir):
		_, parts, err := sweepdir.OpenStudy(dir)
		return slices.DeleteFunc(parts, func(sw *sweepdir.Sweep) bool { return sw == nil }), err
	case sweepdir.IsSweep(dir):
		sw, err := sweepdir.Open(dir)
		return []*sweepdir.Sweep{sw}, err
	}
	return nil, nil
}

// notAFolder describes what was looked for.
func notAFolder(dir string, err error) error {
	if _, serr := os.Stat(dir); serr != nil {
		if pe, ok := serr.(*fs.PathError); ok {
			return fmt.Errorf("%s: %w", dir, pe.Err)
		}
		return serr
	}
	return fmt.Errorf("%s is not the folder of a run, sweep or study: %w", dir, err)
}

// sweepOfOne is a run as a sweep of one arm and one seed.
func sweepOfOne(dir string, a analysis.RunInfo) *sweepdir.Sweep {
	e := sweepdir.Entry{Dir: "."}
	if a.Seed != nil {
		e.Seed = *a.Seed
	}
	return &sweepdir.Sweep{
		Dir: dir,
		Manifest: sweepdir.Manifest{
			Arms:  []sweepdir.Arm{{Name: a.Name + ", " + a.SeedText()}},
			Seeds: []uint64{e.Seed}, Runs: []sweepdir.Entry{e},
		},
		Runs: []sweepdir.RunState{sweepdir.StateOf(dir, e)},
	}
}

// CompareColumns are the names by which [SortRows] sorts: what a row is, then its metrics.
func CompareColumns() []string {
	out := []string{"dir", "arm", "status", "seeds"}
	for _, m := range analysis.Metrics {
		out = append(out, m.Name)
	}
	return out
}

// folder is the folder of the row as it may be printed.
func (r *CompareRow) folder() string { return textutil.Printable(filepath.ToSlash(r.Dir), 0) }

// SortRows sorts rows by a column: numbers from the highest, words from A; a "-"
// before the name reverses the order. Rows without the metric come last either
// way; equal rows keep their order. An unknown column is an error.
func SortRows(rows []CompareRow, by string) error {
	name, ascending := strings.CutPrefix(by, "-")
	if all := CompareColumns(); !slices.Contains(all, name) {
		return fmt.Errorf("there is no column %q (there are %s)", name, strings.Join(all, ", "))
	}
	word := map[string]func(*CompareRow) string{
		"dir": (*CompareRow).folder, "arm": func(r *CompareRow) string { return r.Row.Name() },
		"status": func(r *CompareRow) string { return r.Row.Status },
	}[name]
	number := func(r *CompareRow) float64 {
		if name == "seeds" {
			return float64(r.Row.Of(analysis.FinalMetric).N)
		}
		return r.Row.Of(analysis.MetricOf(name)).Mean
	}
	slices.SortStableFunc(rows, func(x, y CompareRow) int {
		order := 0
		if word != nil {
			order = cmp.Compare(word(&x), word(&y))
		} else {
			v, w := number(&x), number(&y)
			switch {
			case stats.IsFinite(v) && stats.IsFinite(w):
				order = cmp.Compare(w, v)
			case stats.IsFinite(v):
				return -1
			case stats.IsFinite(w):
				return 1
			}
		}
		if ascending {
			return -order
		}
		return order
	})
	return nil
}

// comparePrinted are the columns for people, after the folder.
var comparePrinted = []armColumn{
	armName, armSeeds,
	metricColumn("final\n[95% interval]", analysis.FinalMetric, interval),
	metricColumn("best", analysis.BestMetric, mean(3)),
	metricColumn("greedy", analysis.GreedyMetric, mean(3)),
	metricColumn("test", analysis.TestMetric, mean(3)),
	metricColumn("`correct_num`", analysis.CorrectMetric, mean(1)),
	metricColumn("`error_num`", analysis.ErrorMetric, mean(1)),
	metricColumn("steps\nto 90%", analysis.StepsTo90Metric, mean(0)),
	metricColumn("length", analysis.LengthMetric, mean(1)),
	metricColumn("entropy", analysis.EntropyMetric, threeDigits),
	metricColumn("gradient\nnorm", analysis.GradNormMetric, threeDigits),
	metricColumn("seconds", analysis.WallMetric, mean(1)),
	armStatus,
}

// CompareTable is the table of rows for people, with its notes.
func CompareTable(rows []CompareRow) Table {
	arms := make([]analysis.ArmResult, len(rows))
	for i, r := range rows {
		arms[i] = r.Row
	}
	t := armTable("", comparePrinted, arms)
	t.Columns = slices.Insert(t.Columns, 0, Column{Head: "folder", Text: true})
	for i := range rows {
		t.Rows[i].Cells = slices.Insert(t.Rows[i].Cells, 0, Cell{Text: rows[i].folder()})
	}
	t.Notes = []string{compareNotes(rows)}
	return t
}

// compareNote describes what the numbers are.
const compareNote = "Means over the finished seeds; interval: 95%, Student's t over seeds (a single run has none). " +
	"Rows of different folders may differ in anything: only arms of one sweep are compared fairly."

// compareNotes adds to the note what keeps these rows from being compared.
func compareNotes(rows []CompareRow) string {
	var runs []*rundir.Run
	for _, r := range rows {
		runs = append(runs, analysis.RunsOf(r.Row.Runs)...)
	}
	if all := analysis.Unique(runs, analysis.RunSettings); len(all) > 1 {
		return compareNote + " These were evaluated with different settings (" + strings.Join(all, "; ") +
			"), so their rewards are not comparable."
	}
	return compareNote
}

// CompareCSV is a CSV file of every column of [CompareColumns], metrics as their
// mean and the ends of the interval (NAME_lo, NAME_hi), with all their digits; an
// empty cell is a metric that does not exist.
func CompareCSV(rows []CompareRow) []byte {
	var t Table
	t.head("dir", "arm", "status", "seeds")
	for _, m := range analysis.Metrics {
		t.head(m.Name, m.Name+"_lo", m.Name+"_hi")
	}
	for i := range rows {
		r := &rows[i].Row
		cells := []string{rows[i].folder(), r.Name(), r.Status, fmt.Sprint(r.Of(analysis.FinalMetric).N)}
		for _, m := range analysis.Metrics {
			s := r.Of(m)
			cells = append(cells, exact(s.Mean), exact(s.Lo), exact(s.Hi))
		}
		t.add(cells...)
	}
	return t.CSV()
}
