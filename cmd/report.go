package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/plots"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// reportOptions are the inputs of `grpo report`.
type reportOptions struct {
	state *State
	dirs  []string
	out   string
	title string
	json  bool
}

func newReport(s *State) *cobra.Command {
	o := reportOptions{state: s}
	c := &cobra.Command{
		Use:   "report DIR...",
		Short: "Regenerate figures and tables of runs, a sweep or a study",
		Long: `Report regenerates the tables (results.csv, results.json, results.md), figures and
report.html of a sweep and prints its table and verdict. For a study it does so
for every part. For one run, or runs that differ only in their seed, it writes
validation_reward.png, training.png and results.md. Runs that differ in anything
else (a setting, the problems, the version, the kernel or the device) are not
averaged: they become the arms of a sweep's report.

It only reads the files of runs, so it also works on unfinished sweeps and says
what is missing. --out can't be the folder of another run, sweep or study.`,
		Example: `  grpo report results/sweep-1a2b3c4d
  grpo report results/train-1a2b3c4d
  grpo report runs/seed=1 runs/seed=2 runs/seed=3 --out runs
  grpo report results/train-* --out all`,
		Args: takes("the folders of runs, or of one sweep or study", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args = analysis.Distinct(args)
			o.dirs = args
			for _, dir := range args {
				if !sweepdir.IsStudy(dir) && !sweepdir.IsSweep(dir) {
					continue
				}
				if len(args) > 1 {
					return &usageError{cmd, fmt.Errorf("%s is the folder of a sweep: report on it by itself (\"grpo compare\" puts several side by side)", dir)}
				}
				if o.out == "" {
					o.out = dir
				}
				if sweepdir.IsStudy(dir) {
					return reportStudy(&o)
				}
				return reportOnSweep(&o)
			}
			if o.json && len(args) == 1 {
				return &usageError{cmd, errors.New("--json needs a sweep or a study; the result of a run is result.json in its folder")}
			}
			if o.out == "" {
				if len(args) > 1 {
					return fmt.Errorf("%w: several runs need --out, the folder of their common report", config.ErrConfig)
				}
				o.out = args[0]
			}
			return runReport(&o)
		},
	}
	c.Flags().StringVar(&o.out, "out", "", "`folder` to write to (default: the folder that is read)")
	c.Flags().StringVar(&o.title, "title", "", "title `text` of the report or the validation figure (for runs)")
	c.Flags().BoolVar(&o.json, "json", false, "print the results as JSON (for a sweep or a study)")
	return c
}

func runReport(o *reportOptions) error {
	var runs []*rundir.Run
	for _, dir := range o.dirs {
		r, err := rundir.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return missingInput(fmt.Errorf("%w (report takes the folders of runs, or of one sweep or study)", err))
		}
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	sw, err := analysis.ArmsOf(runs, o.title)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if len(sw.Manifest.Arms) > 1 {
		textutil.Fprintf(o.state.Err, "note: the runs differ in more than their seeds and are reported as %d arms (%s)\n", len(sw.Manifest.Arms), strings.Join(sw.Manifest.Varied, ", "))
		return writeSweepReport(o, sw)
	}
	if o.json {
		return fmt.Errorf("%w: --json needs a sweep or a study, and these runs are seeds of one configuration", config.ErrConfig)
	}
	if err := makeReportFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	figures, err := drawRuns(o.out, runs, o.title)
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := report.WriteMarkdown(&table, runs); err != nil {
		return err
	}
	path := filepath.Join(o.out, "results.md")
	if err := rundir.WriteFileAtomic(path, table.Bytes()); err != nil {
		return err
	}
	if _, err := table.WriteTo(o.state.Out); err != nil {
		return err
	}
	return o.wrote(append(figures, path))
}

// reportOnSweep writes the files of a sweep's report and prints table and
// verdict.
func reportOnSweep(o *reportOptions) error {
	sw, err := sweepdir.Open(o.dirs[0])
	if err != nil {
		return err
	}
	return writeSweepReport(o, sw)
}

func writeSweepReport(o *reportOptions, sw *sweepdir.Sweep) error {
	if err := makeReportFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	a, paths, err := report.WriteSweep(o.out, sw, report.SweepOptions{})
	if err != nil {
		return err
	}
	if o.json {
		if err := printJSON(o.state.Out, a.Results()); err != nil {
			return err
		}
	} else if err := report.WriteSweepSummary(o.state.Out, a); err != nil {
		return err
	}
	return o.wrote(paths)
}

// reportStudy writes the report of every part of a study that has started, in
// its own folder, and the study's over them.
func reportStudy(o *reportOptions) error {
	study, err := sweepdir.ReadStudy(o.dirs[0])
	if err != nil {
		return err
	}
	if err := makeReportFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	parts := make([]*report.Report, len(study.Parts))
	var all []string
	for i, part := range study.Parts {
		sw, err := sweepdir.OpenPart(o.dirs[0], part)
		if err != nil {
			return err
		}
		if sw == nil {
			continue // its turn has not come
		}
		out, err := part.Path(o.out)
		if err == nil {
			err = makeReportFolder(out, sw.Dir)
		}
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		a, paths, err := report.WriteSweep(out, sw, report.SweepOptions{})
		if err != nil {
			return err
		}
		parts[i], all = a, append(all, paths...)
	}
	paths, err := report.WriteStudy(o.out, study, parts)
	if err != nil {
		return err
	}
	if o.json {
		r, err := report.ReadStudyResults(o.out)
		if err != nil {
			return err
		}
		if err := printJSON(o.state.Out, r); err != nil {
			return err
		}
	} else if err := report.WriteStudySummary(o.state.Out, study, parts); err != nil {
		return err
	}
	return o.wrote(append(all, paths...))
}

// makeReportFolder makes the folder out for the report on the folder read. It
// may be that folder itself, or any that holds no other run, sweep or study,
// whose own report would be replaced.
func makeReportFolder(out, read string) error {
	kind := rundir.KindOther
	x, errX := os.Stat(out)
	y, errY := os.Stat(read)
	if errX == nil && errY == nil && os.SameFile(x, y) {
		var err error
		if kind, err = rundir.KindOf(out); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return makePlain(out, kind)
}

// makePlain makes a folder for files that belong to no request, such as figures,
// unless it holds something of another kind.
func makePlain(dir string, kind rundir.Kind) error {
	if err := rundir.Allow(dir, kind, nil); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%w (--out says where)", err)
	}
	return nil
}

// wrote names the files written.
func (o *reportOptions) wrote(paths []string) error {
	for _, p := range paths {
		if _, err := textutil.Fprintf(o.state.Err, "wrote %s\n", filepath.ToSlash(p)); err != nil {
			return err
		}
	}
	return nil
}

// drawRuns draws the figures of one run, or of several seeds of one setting,
// into dir and returns their paths.
func drawRuns(dir string, runs []*rundir.Run, title string) ([]string, error) {
	has := func(n func(*rundir.Run) int) bool {
		for _, r := range runs {
			if n(r) > 0 {
				return true
			}
		}
		return false
	}
	var paths []string
	for _, f := range []struct {
		name  string
		draw  func(io.Writer, []*rundir.Run, string) error
		title string
		has   bool
	}{
		{rundir.ValidationPlot, plots.ValidationPlot, title, has(func(r *rundir.Run) int { return len(r.Evals) })},
		{rundir.TrainingPlot, plots.TrainingPanels, "", has(func(r *rundir.Run) int { return len(r.Metrics) })},
	} {
		if !f.has {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := plots.WriteFigure(path, func(w io.Writer) error { return f.draw(w, runs, f.title) }); err != nil {
			return nil, fmt.Errorf("draw %s: %w", path, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
