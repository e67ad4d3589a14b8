package report

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// WriteSweep analyses a sweep and writes into dir, which must exist, its tables
// ([WriteResults]), its figures ([plots.Sweep]) and report.html ([WriteHTML]). It
// returns the analysis and the paths written. It reads and writes files only:
// called again on the same runs it writes the same bytes.
func WriteSweep(dir string, sw *sweepdir.Sweep, out Output) (*Report, []string, error) {
	analysed, err := analysis.Analyse(sw)
	if err != nil {
		return nil, nil, err
	}
	a := New(analysed)
	paths, err := WriteResults(dir, a)
	if err != nil {
		return a, paths, err
	}
	out = out.and(&rundir.Run{Config: []byte(sw.Manifest.Base)})
	figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{Formats: out.Formats})
	if err != nil {
		return a, paths, err
	}
	written, err := plots.WriteDrawings(dir, figures)
	paths = append(paths, written...)
	if err == nil && out.TensorBoard {
		var path string
		path, err = writeSweepEvents(dir, a.allRuns(), figures)
		paths = append(paths, path)
	}
	if err != nil {
		return a, paths, err
	}
	page := filepath.Join(dir, sweepdir.ReportHTML)
	if err := WriteHTML(page, a, figures); err != nil {
		return a, paths, err
	}
	return a, append(paths, page), nil
}

// WriteSweepSummary writes the results of a sweep for a terminal: question and headline, a table with
// a row per arm, the base level and the majority baseline, what is missing, and where everything
// else is: folder has the files of [WriteSweep].
func WriteSweepSummary(w io.Writer, a *Report, folder string) error {
	var b strings.Builder
	a.summary(&b)
	b.WriteString("\n")
	writeWhere(&b, folder)
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is the part of [WriteSweepSummary] on the sweep.
func (a *Report) summary(b *strings.Builder) {
	table, v := armTable("", terminalColumns, a.Arms), a.Verdict
	if v.Question != "" {
		b.WriteString(v.Question + "\n")
	}
	b.WriteString(v.Headline + "\n\n" + table.String())
	if levels := a.levelsText("base level"); len(levels) > 0 {
		separator := ", "
		if !stats.IsFinite(a.Base) || !stats.IsFinite(a.Majority) {
			separator = "; " // a level by arm has commas of its own
		}
		interval := "; interval: 95%, Student's t over seeds"
		if len(a.Sweep.Manifest.Seeds) < 2 {
			interval = ""
		}
		fmt.Fprintf(b, "%s; means over the finished seeds (%s)%s\n", strings.Join(levels, separator),
			a.seedCounts(), interval)
	}
	for _, line := range v.Missing {
		b.WriteString("missing: " + line + "\n")
	}
}

// writeWhere says where a summary goes on.
func writeWhere(b *strings.Builder, folder string) {
	page := filepath.ToSlash(filepath.Join(folder, sweepdir.ReportHTML))
	fmt.Fprintf(b, "figures, all findings and what they do not say: %s (as text: %s)\n",
		textutil.Printable(page, 0), sweepdir.ResultsMD)
}

// seedCounts is the number of finished seeds of an arm: "n = 4", or "n = 2 to 4".
func (a *Report) seedCounts() string {
	var counts []int
	for _, r := range a.Arms {
		counts = append(counts, r.Of(analysis.FinalMetric).N)
	}
	return "n = " + textutil.Span(counts)
}

// WriteStudySummary writes the results of a study for a terminal: for each part its question and its
// summary, then where everything else is. parts are the reports in the order of the study's parts, nil
// for one that has not started.
func WriteStudySummary(w io.Writer, st sweepdir.Study, parts []*Report, folder string) error {
	st = analysis.PrintableStudy(st)
	var b strings.Builder
	for i, part := range st.Parts {
		fmt.Fprintf(&b, "%d. %s\n", i+1, cmp.Or(part.Question, part.Name))
		if part.Chosen != "" {
			b.WriteString(strings.TrimSuffix(part.Chosen, ".") + ".\n")
		}
		if i >= len(parts) || parts[i] == nil {
			b.WriteString("not started\n\n")
			continue
		}
		inner := *parts[i]
		inner.Verdict.Question = "" // the heading has it
		inner.summary(&b)
		b.WriteString("\n")
	}
	writeWhere(&b, folder)
	_, err := io.WriteString(w, b.String())
	return err
}
