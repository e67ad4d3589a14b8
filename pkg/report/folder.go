package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// MakeFolder makes the folder out for the report on the folder read, or for other
// files if read is empty. It may be the folder read itself, or any that holds no
// other run, sweep or study, whose own report would be replaced.
func MakeFolder(out, read string) error {
	kind := rundir.KindOther
	if sameFolder(out, read) {
		var err error
		if kind, err = rundir.KindOf(out); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if err := rundir.Allow(out, kind, nil); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("%w (choose another with --out)", err)
	}
	return nil
}

// DrawRuns draws the figures of one run, or of several seeds of one setting, into dir. Of one run it
// also writes report.html, the first of the others, and the event file if out or its configuration asks
// for one. It returns the paths of the figures and of the others.
func DrawRuns(dir string, runs []*rundir.Run, title string, out Output) (drawn, others []string, err error) {
	for _, r := range runs {
		out = out.and(r)
	}
	figures, err := plots.Runs(runs, title, out.Formats)
	if err != nil {
		return nil, nil, err
	}
	drawn, err = plots.WriteDrawings(dir, figures)
	if err == nil && len(runs) == 1 {
		others = append(others, filepath.Join(dir, sweepdir.ReportHTML))
		err = WriteRunHTML(others[0], runs[0], figures)
	}
	if err == nil && out.TensorBoard && len(runs) == 1 {
		var path string
		path, err = writeEvents(dir, runs[0], figures)
		others = append(others, path)
	}
	return drawn, others, err
}

// WriteRuns writes the report of one run, or of several seeds of one setting, into
// dir. It returns the paths written and the content of results.md.
func WriteRuns(dir string, runs []*rundir.Run, title string, out Output) (paths []string, table []byte, err error) {
	paths, others, err := DrawRuns(dir, runs, title, out)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	if err := WriteMarkdown(&b, runs); err != nil {
		return nil, nil, err
	}
	seeds, err := seedTable(runs)
	if err != nil {
		return nil, nil, err
	}
	tables, err := writeFiles("write results", dir, []outputFile{
		{sweepdir.ResultsMD, func(path string) error { return rundir.WriteFileAtomic(path, b.Bytes()) }},
		{sweepdir.ResultsTeX, func(path string) error { return rundir.WriteFileAtomic(path, latexFile(seeds)) }},
	})
	return slices.Concat(paths, tables, others), b.Bytes(), err
}

// WriteStudyFolder writes into out the report of every part of the study in dir
// that has started, each in a folder of its own, and the study's report over them.
// files are the paths written in those folders.
func WriteStudyFolder(dir, out string, output Output) (r *StudyReport, files []string, err error) {
	st, sweeps, err := sweepdir.OpenStudy(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := MakeFolder(out, dir); err != nil {
		return nil, nil, err
	}
	parts := make([]*Report, len(sweeps))
	for i, sw := range sweeps {
		if sw == nil {
			continue
		}
		to, err := st.Parts[i].Path(out)
		if err == nil {
			err = MakeFolder(to, sw.Dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("write report: %w", err)
		}
		a, written, err := WriteSweep(to, sw, output)
		if err != nil {
			return nil, nil, err
		}
		parts[i], files = a, append(files, written...)
	}
	r, err = WriteStudyReport(out, st, parts)
	return r, files, err
}
