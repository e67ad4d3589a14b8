package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	dirs  []string
	kind  rundir.Kind // of the folders: runs, or one sweep or study
	out   string
	title string
	json  bool
}

func newReport(s *State) *cobra.Command {
	o := &reportOptions{}
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
			o.dirs, o.kind = analysis.Distinct(args), rundir.KindRun
			for _, dir := range o.dirs {
				switch {
				case sweepdir.IsStudy(dir):
					o.kind = rundir.KindStudy
				case sweepdir.IsSweep(dir):
					o.kind = rundir.KindSweep
				default:
					continue
				}
				if len(o.dirs) > 1 {
					return usagef(cmd, "%s is the folder of a sweep: report on it by itself "+
						"(\"grpo compare\" puts several side by side)", dir)
				}
			}
			switch {
			case o.kind == rundir.KindRun && o.json && len(o.dirs) == 1:
				return usagef(cmd, "--json needs a sweep or a study; the result of a run is result.json in its folder")
			case o.out == "" && len(o.dirs) > 1:
				return usagef(cmd, "several runs need --out, the folder of their common report")
			case o.out == "":
				o.out = o.dirs[0]
			}
			return run(cmd, s, o, runReport)
		},
	}
	c.Flags().StringVar(&o.out, "out", "", "`folder` to write to (default: the folder that is read)")
	c.Flags().StringVar(&o.title, "title", "", "title `text` of the report or the validation figure (for runs)")
	c.Flags().BoolVar(&o.json, "json", false, "print the results as JSON (for a sweep or a study)")
	return c
}

func runReport(_ context.Context, s *State, o *reportOptions) error {
	switch o.kind {
	case rundir.KindStudy:
		return reportStudy(s, o)
	case rundir.KindSweep:
		sw, err := sweepdir.Open(o.dirs[0])
		if err != nil {
			return err
		}
		return reportSweep(s, o, sw)
	}
	return reportRuns(s, o)
}

// reportRuns writes the report of one run, of seeds of one setting, or of runs that
// differ in more, which become the arms of a sweep's report.
func reportRuns(s *State, o *reportOptions) error {
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
		textutil.Fprintf(s.Err, "note: the runs differ in more than their seeds and are reported as %d arms (%s)\n",
			len(sw.Manifest.Arms), strings.Join(sw.Manifest.Varied, ", "))
		return reportSweep(s, o, sw)
	}
	if o.json {
		return fmt.Errorf("%w: --json needs a sweep or a study, and these runs are seeds of one configuration",
			config.ErrConfig)
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
	if _, err := table.WriteTo(s.Out); err != nil {
		return err
	}
	wrote(s, append(figures, path)...)
	return nil
}

// reportSweep writes the files of a sweep's report and prints table and verdict.
func reportSweep(s *State, o *reportOptions, sw *sweepdir.Sweep) error {
	if err := makeReportFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	a, paths, err := report.WriteSweep(o.out, sw, report.SweepOptions{})
	if err != nil {
		return err
	}
	wrote(s, paths...)
	return showSweep(s, o.json, a, a.Results())
}

// showSweep prints the summary of a sweep, or what as JSON.
func showSweep(s *State, json bool, a *report.Report, what any) error {
	if json {
		return printJSON(s.Out, what)
	}
	return report.WriteSweepSummary(s.Out, a)
}

// reportStudy writes the report of every part of a study that has started, in
// its own folder, and the study's over them.
func reportStudy(s *State, o *reportOptions) error {
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
	paths, results, err := writeStudy(o.out, study, parts)
	if err != nil {
		return err
	}
	wrote(s, append(all, paths...)...)
	return showStudy(s, o.json, study, parts, results)
}

// writeStudy writes a study's report over those of its parts.
func writeStudy(dir string, st sweepdir.Study, parts []*report.Report) ([]string, report.StudyResults, error) {
	paths, err := report.WriteStudy(dir, st, parts)
	if err != nil {
		return nil, report.StudyResults{}, err
	}
	results, err := report.ReadStudyResults(dir)
	return paths, results, err
}

// showStudy prints the summary of a study, or what as JSON.
func showStudy(s *State, json bool, st sweepdir.Study, parts []*report.Report, what any) error {
	if json {
		return printJSON(s.Out, what)
	}
	return report.WriteStudySummary(s.Out, st, parts)
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

// drawRuns draws the figures of one run, or of several seeds of one setting,
// into dir and returns their paths.
func drawRuns(dir string, runs []*rundir.Run, title string) ([]string, error) {
	evaluated := slices.ContainsFunc(runs, func(r *rundir.Run) bool { return len(r.Evals) > 0 })
	stepped := slices.ContainsFunc(runs, func(r *rundir.Run) bool { return len(r.Metrics) > 0 })
	var paths []string
	for _, f := range []struct {
		name  string
		draw  func(io.Writer, []*rundir.Run, string) error
		title string
		has   bool
	}{
		{rundir.ValidationPlot, plots.ValidationPlot, title, evaluated},
		{rundir.TrainingPlot, plots.TrainingPanels, "", stepped},
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
