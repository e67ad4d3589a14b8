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

// WriteVerdict writes the question, the verdict and what is missing as plain
// text.
func WriteVerdict(w io.Writer, a *Report) error {
	var b strings.Builder
	v := a.Verdict
	if v.Question != "" {
		b.WriteString(v.Question + "\n")
	}
	b.WriteString(v.Headline + "\n")
	for _, part := range []struct {
		head  string
		lines []string
	}{{"", v.Lines}, {"missing:", v.Missing}, {"what this does not say:", v.Caveats}} {
		if len(part.lines) == 0 {
			continue
		}
		b.WriteString("\n")
		if part.head != "" {
			b.WriteString(part.head + "\n")
		}
		for _, line := range part.lines {
			b.WriteString("- " + line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSweepSummary writes the results of a sweep for a terminal: a table with a
// row per arm, the base level and the majority baseline, and the verdict.
func WriteSweepSummary(w io.Writer, a *Report) error {
	table := armTable(terminalColumns, a.Arms)
	var b strings.Builder
	b.WriteString(table.String())
	if levels := a.levelsText("base level"); len(levels) > 0 {
		separator := ", "
		if !stats.IsFinite(a.Base) || !stats.IsFinite(a.Majority) {
			separator = "; " // a level by arm has commas of its own
		}
		interval := "; interval: 95%, Student's t over seeds"
		if len(a.Sweep.Manifest.Seeds) < 2 {
			interval = ""
		}
		fmt.Fprintf(&b, "%s; means over the finished seeds (%s)%s\n", strings.Join(levels, separator), a.seedCounts(), interval)
	}
	b.WriteString("\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := WriteVerdict(w, a); err != nil {
		return err
	}
	if command := a.SeedsCommand(); command != "" {
		_, err := fmt.Fprintf(w, "\nto add the seeds: %s\n", command)
		return err
	}
	return nil
}

// seedCounts is the number of finished seeds of an arm: "n = 4", or "n = 2 to 4".
func (a *Report) seedCounts() string {
	var counts []int
	for _, r := range a.Arms {
		counts = append(counts, r.Of(analysis.FinalMetric).N)
	}
	return "n = " + textutil.Span(counts)
}

// WriteStudySummary writes the results of a study for a terminal: for each part
// its question and its summary. parts are the reports in the order of the study's
// parts, nil for one that has not started.
func WriteStudySummary(w io.Writer, st sweepdir.Study, parts []*Report) error {
	st = analysis.PrintableStudy(st)
	shared, parts := sharedCaveats(parts)
	for i, part := range st.Parts {
		head := fmt.Sprintf("%d. %s", i+1, cmp.Or(part.Question, part.Name))
		if i > 0 {
			head = "\n" + head
		}
		if part.Chosen != "" {
			head += "\n" + strings.TrimSuffix(part.Chosen, ".") + "."
		}
		if _, err := io.WriteString(w, head+"\n\n"); err != nil {
			return err
		}
		if i >= len(parts) || parts[i] == nil {
			if _, err := io.WriteString(w, "not started\n"); err != nil {
				return err
			}
			continue
		}
		inner := *parts[i]
		inner.Verdict.Question = "" // the heading has it
		if err := WriteSweepSummary(w, &inner); err != nil {
			return err
		}
	}
	if len(shared) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s:\n- %s\n", strings.ToLower(sharedHead[:1])+sharedHead[1:], strings.Join(shared, "\n- "))
	return err
}
