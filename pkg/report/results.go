package report

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// resultsFormat is the version of results.json.
const resultsFormat = 1

// Results is results.json: the content of a report, with the sweep it is of. Nothing in
// it depends on when, where or how fast the runs were made, so that the same runs
// give the same bytes.
type Results struct {
	Format  int    `json:"format"`
	Command string `json:"command"`
	Name    string `json:"name"`
	Title   string `json:"title"`
	Hash    string `json:"hash"` // of the sweep

	Seeds    []uint64 `json:"seeds"`
	Level    float64  `json:"level"`    // of the intervals
	Interval string   `json:"interval"` // how they were made: "student_t"

	Runs     int    `json:"runs"`
	Finished int    `json:"finished"` // runs with a result
	Best     string `json:"best"`     // name of the best arm; empty if there is none

	Base           float64 `json:"base"`
	Majority       float64 `json:"majority"`
	MajorityAnswer string  `json:"majority_answer"`

	Arms        []analysis.ArmResult  `json:"arms"`
	Comparisons []analysis.Comparison `json:"comparisons"`
	Findings    []analysis.Finding    `json:"findings"`
	Verdict     Verdict               `json:"verdict"`

	Checks []Check `json:"checks,omitempty"` // of a command with --fail-below and the like, not in the file
}

// Results puts the report into the form of results.json.
func (a *Report) Results() Results {
	m := &a.Sweep.Manifest
	r := Results{
		Format: resultsFormat, Command: m.Command, Name: m.Name, Title: m.Title, Hash: m.Hash,
		Seeds: m.Seeds, Level: stats.Level, Interval: "student_t",
		Runs: a.Runs(), Finished: a.Finished(),
		Base: a.Base, Majority: a.Majority, MajorityAnswer: a.MajorityAnswer,
		Arms: a.Arms, Comparisons: a.Comparisons, Findings: a.Findings, Verdict: a.Verdict,
	}
	if a.Best >= 0 {
		r.Best = a.Arms[a.Best].Arm.Name
	}
	return r
}

// WriteResults writes results.csv, results.json, results.md, results.tex and curves.csv into dir,
// each in one atomic move, and returns their paths. The first four hold the same numbers:
// results.json and results.csv exactly, the others rounded.
func WriteResults(dir string, a *Report) ([]string, error) {
	table := a.resultsTable()
	return writeFiles("write results", dir, []outputFile{
		{sweepdir.ResultsCSV, func(path string) error { return rundir.WriteFileAtomic(path, table.CSV()) }},
		{sweepdir.ResultsJSON, func(path string) error { return rundir.WriteJSON(path, a.Results()) }},
		{sweepdir.ResultsMD, func(path string) error { return rundir.WriteFileAtomic(path, []byte(a.Markdown())) }},
		{sweepdir.ResultsTeX, func(path string) error {
			return rundir.WriteFileAtomic(path, latexFile(a.latexTables(a.Sweep.Manifest.Name)...))
		}},
		{sweepdir.CurvesCSV, func(path string) error { return writeCurves(path, a) }},
	})
}

// outputFile is a file of a report.
type outputFile struct {
	name  string
	write func(path string) error
}

// writeFiles writes files into dir in their order and returns the paths written.
func writeFiles(what, dir string, files []outputFile) ([]string, error) {
	var paths []string
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := f.write(path); err != nil {
			return paths, fmt.Errorf("%s: %w", what, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// resultsTable is results.csv. It has a row for each arm, in the manifest's order,
// and these columns:
//
//	arm, label, control                 the arm
//	KEY ...                             its value on each axis of the sweep, by the full key
//	status                              in words
//	done, diverged, failed, left        numbers of runs
//	diverged_at_seedS ...               the step at which the run of seed S diverged
//	METRIC_mean, _sd, _lo, _hi, _n      each metric over the seeds: mean, sample standard deviation,
//	                                    95% interval of the mean (Student's t), number of values
//	METRIC_seedS ...                    the metric of each seed S
//
// for every metric in the order of results.json (initial, final, best, greedy,
// test, ...), then for every set of problems except validation, whose columns begin
// with set_NAME_ (set_unseen_before_mean), and last pass@k and maj@k of the validation problems (pass_at_4,
// initial_majority_at_4), where an arm has them. Numbers have as many digits as they need to be read back exactly;
// an empty cell is a metric that does not exist.
func (a *Report) resultsTable() Table {
	m := &a.Sweep.Manifest
	var columns []armColumn
	type arm = *analysis.ArmResult
	add := func(head string, cell func(arm) string) { columns = append(columns, plain(head, cell)) }
	seeds := func(name string, cell func(r arm, i int) string) {
		for i, s := range m.Seeds {
			add(fmt.Sprintf("%s_seed%d", name, s), func(r arm) string { return cell(r, i) })
		}
	}
	summary := func(name string, of func(arm) analysis.Summary) {
		add(name+"_mean", func(r arm) string { return exact(of(r).Mean) })
		add(name+"_sd", func(r arm) string { return exact(of(r).SD) })
		add(name+"_lo", func(r arm) string { return exact(of(r).Lo) })
		add(name+"_hi", func(r arm) string { return exact(of(r).Hi) })
		add(name+"_n", func(r arm) string { return strconv.Itoa(of(r).N) })
		seeds(name, func(r arm, i int) string { return exact(of(r).Values[i]) })
	}

	add("arm", func(r arm) string { return r.Arm.Name })
	add("label", func(r arm) string { return r.Arm.Label })
	add("control", func(r arm) string { return strconv.FormatBool(r.Arm.Control) })
	for k, x := range m.Axes {
		add(x.Key, func(r arm) string {
			if k < len(r.Arm.Point) {
				return r.Arm.Point[k]
			}
			return ""
		})
	}
	add("status", func(r arm) string { return r.Status })
	add("done", func(r arm) string { return strconv.Itoa(r.Done) })
	add("diverged", func(r arm) string { return strconv.Itoa(r.Diverged) })
	add("failed", func(r arm) string { return strconv.Itoa(r.Failed) })
	add("left", func(r arm) string { return strconv.Itoa(r.Left) })
	seeds("diverged_at", func(r arm, i int) string {
		if at := r.DivergedAt[i]; at != nil {
			return strconv.Itoa(*at)
		}
		return ""
	})
	for _, metric := range analysis.Metrics {
		if !metric.Timed {
			summary(metric.Name, func(r arm) analysis.Summary { return r.Of(metric) })
		}
	}
	none := analysis.NewSummary(slices.Repeat([]float64{math.NaN()}, len(m.Seeds)), 0, 0, 1)
	for _, set := range a.setNames() {
		for _, metric := range analysis.SetMetrics {
			summary("set_"+set+"_"+metric.Name, func(r arm) analysis.Summary {
				i := slices.IndexFunc(r.Sets, func(s analysis.SetResult) bool { return s.Set == set })
				if i < 0 {
					return none
				}
				return r.Sets[i].Of(metric)
			})
		}
	}
	for _, name := range a.atKNames() {
		summary(name, func(r arm) analysis.Summary {
			if s, ok := r.AtK[name]; ok {
				return s
			}
			return none
		})
	}
	rows := make([]arm, len(a.Arms))
	for i := range rows {
		rows[i] = &a.Arms[i]
	}
	return tableOf("", columns, rows)
}

// setNames are the sets of all arms, except validation.
func (a *Report) setNames() []string {
	var out []string
	for i := range a.Arms {
		for _, s := range a.Arms[i].Sets {
			if s.Set != rundir.SplitVal && !slices.Contains(out, s.Set) {
				out = append(out, s.Set)
			}
		}
	}
	return out
}

// Markdown is results.md: question, headline, the main figures, the table of arms, and then
// everything else that was found. Like the other tables it does
// not say when, where or by which command line it was made; report.html does.
func (a *Report) Markdown() string {
	var b strings.Builder
	m := &a.Sweep.Manifest
	fmt.Fprintf(&b, "# %s\n\n", escapeMarkdown(cmp.Or(m.Title, m.Name)))
	if q := a.Verdict.Question; q != "" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(q))
	}
	a.markdownBody(&b, "##", "")
	return b.String()
}

// markdownBody is results.md below the question, with headings of the given level; the figures are in
// folder.
func (a *Report) markdownBody(b *strings.Builder, level, folder string) {
	fmt.Fprintf(b, "**%s**\n", escapeMarkdown(a.Verdict.Headline))
	figures := plots.MainFiles(a.Analysis)
	image := func(f string) { fmt.Fprintf(b, "\n![%s](%s)\n", f, link(folder, f)) }
	for _, f := range figures {
		if f != plots.PairedFile {
			image(f)
		}
	}
	table := func(head string, t Table) {
		if len(t.Rows) > 0 {
			fmt.Fprintf(b, "\n%s %s\n\n%s", level, head, t.Markdown())
		}
	}
	arms, gains, atK, differences := a.armsTable(), a.gainsTable(), a.atKTable(), a.comparisonsTable(true)
	fmt.Fprintf(b, "\n%s Arms\n\n%s", level, arms.Markdown())
	table(gains.Label, gains)
	markdownList(b, level+" What is missing", a.Verdict.Missing)
	markdownList(b, level+" Findings", a.otherLines())
	markdownList(b, level+" What this does not say", a.Verdict.Caveats)
	table("Sets of problems", a.setsTable())
	table(atK.Label, atK)
	table("Differences in the final validation reward", differences)
	if len(differences.Rows) > 0 && slices.Contains(figures, plots.PairedFile) {
		image(plots.PairedFile)
	}
}

// markdownList is a list below a heading.
func markdownList(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n\n", head)
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(line))
	}
}
