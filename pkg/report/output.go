package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/tensorboard"
)

// Output selects files that a report writes besides the usual ones.
type Output struct {
	Formats     []string // of figures: "svg" and "pdf"; PNG is always written
	TensorBoard bool     // an event file with the figures, and of one run with its scalars
}

// and adds what a run's configuration selects. A run that is still training writes its event file
// itself.
func (o Output) and(r *rundir.Run) Output {
	info, err := analysis.ReadInfo(r)
	if err != nil {
		return o // the tables report it
	}
	for _, format := range info.Output.Formats {
		if (format == "svg" || format == "pdf") && !slices.Contains(o.Formats, format) {
			o.Formats = append(slices.Clip(o.Formats), format)
		}
	}
	o.TensorBoard = o.TensorBoard || info.Output.TensorBoard && (r.Dir == "" || r.Finished())
	return o
}

// writeEvents writes the event file of a run into dir: its scalars by step and its figures.
func writeEvents(dir string, r *rundir.Run, figures []plots.Drawing) (string, error) {
	path := filepath.Join(dir, rundir.EventsFile)
	if owner, held, _ := rundir.Holder(r.Dir); held && sameFolder(dir, r.Dir) {
		return path, fmt.Errorf("write %s: %s is training in this folder; wait until it ends, or give --out", path, owner)
	}
	data, timeline := tensorboard.Run(r)
	data = append(data, images(timeline.Now(), analysis.LastStep(r), figures)...)
	return path, rundir.WriteFileAtomic(path, data)
}

// writeSweepEvents writes the event file of a sweep into dir: its figures.
func writeSweepEvents(dir string, runs []*rundir.Run, figures []plots.Drawing) (string, error) {
	wall, step := 0.0, 0
	for _, r := range runs {
		wall, step = max(wall, tensorboard.End(r)), max(step, analysis.LastStep(r))
	}
	path := filepath.Join(dir, rundir.EventsFile)
	return path, rundir.WriteFileAtomic(path, append(tensorboard.Header(wall), images(wall, step, figures)...))
}

func images(wall float64, step int, figures []plots.Drawing) []byte {
	var out []byte
	for _, d := range figures {
		tag := "figures/" + d.File[:len(d.File)-len(filepath.Ext(d.File))]
		out = append(out, tensorboard.Image(wall, step, tag, d.PNG, d.Width, d.Height)...)
	}
	return out
}

// Export selects files for other programs, of each run.
type Export struct{ CSV, TensorBoard bool }

// ExportRuns writes files of each run: into dir if it is the only one, else into folders below dir
// that are named like the runs' own, at the same place as below root, the folder of their sweep. A
// run's own folder may be among them. It returns the paths.
func ExportRuns(dir, root string, runs []*rundir.Run, e Export) ([]string, error) {
	var paths, used []string
	if e == (Export{}) {
		return nil, nil
	}
	arms := sweepdir.Arms{}
	for _, r := range runs {
		to := dir
		if len(runs) > 1 || root != "" {
			name := filepath.Base(filepath.Clean(r.Dir))
			if below, err := filepath.Rel(root, r.Dir); root != "" && err == nil && filepath.IsLocal(below) {
				name = below
			}
			if slices.Contains(used, name) {
				return paths, fmt.Errorf("export %s: another run's folder has the name %s too (report on them one by one)",
					r.Dir, name)
			}
			used, to = append(used, name), filepath.Join(dir, name)
			if err := MakeFolder(to, r.Dir); err != nil {
				return paths, err
			}
		}
		if e.CSV {
			path := filepath.Join(to, rundir.TableFile)
			if err := rundir.WriteFileAtomic(path, r.CSV(arms.Of(r.Dir), seedOf(r))); err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
		if e.TensorBoard {
			path, err := writeEvents(to, r, nil)
			if err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// seedOf is the run's seed in digits; empty if it is unknown.
func seedOf(r *rundir.Run) string {
	info, err := analysis.ReadInfo(r)
	if err != nil || info.Seed == nil {
		return ""
	}
	return strconv.FormatUint(*info.Seed, 10)
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

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
