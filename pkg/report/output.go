package report

import (
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
				return paths, fmt.Errorf("export %s: another run's folder has the name %s too (report on them one by one)", r.Dir, name)
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
