package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// reportOptions are the inputs of `grpo report`.
type reportOptions struct {
	dirs    []string
	kind    rundir.Kind // of the folders: runs, or one sweep or study
	out     string
	title   string
	json    bool
	files   report.Output
	export  report.Export
	methods bool
	gate    gateFlags
}

func newReport(s *State) *cobra.Command {
	o := &reportOptions{}
	c := &cobra.Command{
		Use: "report DIR...", SuggestFor: []string{"plot", "show", "figures"},
		Short: "Regenerate figures and tables of runs, a sweep or a study",
		Long: `Report regenerates the tables (results.csv, results.json, results.md, results.tex,
curves.csv), figures and report.html of a sweep and prints its headline and table.
For a study it does so for every part. For one run, or runs that differ only in
their seed, it writes validation_reward.png, training.png, results.md and
results.tex, and for one run report.html. Runs that differ in anything else (a
setting, the problems, the kernel or the device) are not averaged: they become
the arms of a sweep's report. So do versions of grpo if a seed is there twice.

It only reads the files of runs, so it also works on unfinished sweeps and lists
what is missing. --out can't be the folder of another run, sweep or study.`,
		Example: `  grpo report results/sweep-1a2b3c4d
  grpo report results/train-1a2b3c4d
  grpo report runs/seed=1 runs/seed=2 runs/seed=3 --out runs
  grpo report results/train-* --out all
  grpo report results/sweep-1a2b3c4d --format svg,pdf --csv --tensorboard
  grpo report results/sweep-1a2b3c4d --methods
  grpo report results/sweep-1a2b3c4d --fail-below 0.8 --fail-on-diverged`,
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
			for _, format := range o.files.Formats {
				if !slices.Contains(config.FigureFormats, format) {
					return usagef(cmd, "--format %s: the formats are %s", format, strings.Join(config.FigureFormats, ", "))
				}
			}
			o.files.TensorBoard = o.export.TensorBoard
			switch {
			case o.gate.Weights != "" && (o.kind != rundir.KindRun || len(o.dirs) > 1):
				return usagef(cmd, "--expect-weights is about the weights of one run")
			case o.methods && (o.json || o.out != "" || o.export != report.Export{} || len(o.files.Formats) > 0):
				return usagef(cmd, "--methods only prints: leave out the flags that select files or --json")
			case o.methods:
				return run(cmd, s, o, runMethods)
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
	c.Flags().StringSliceVar(&o.files.Formats, "format", nil,
		"`formats` of the figures besides PNG, which is always written: svg, pdf")
	c.Flags().BoolVar(&o.export.CSV, "csv", false,
		"also write metrics.csv of each run, a table of its steps and evaluations")
	c.Flags().BoolVar(&o.export.TensorBoard, "tensorboard", false,
		"also write event files for TensorBoard: the scalars of each run, and the figures")
	c.Flags().BoolVar(&o.methods, "methods", false,
		"print the configuration as a paragraph for a paper's appendix, and write nothing")
	complete(c, "format", func() []string { return []string{"svg", "pdf"} }, cobra.ShellCompDirectiveNoFileComp)
	o.gate.add(c.Flags())
	o.gate.addWeights(c.Flags())
	return c
}

func runReport(_ context.Context, s *State, o *reportOptions) error {
	if err := o.gate.load(o.kind); err != nil {
		return err
	}
	switch o.kind {
	case rundir.KindStudy:
		r, files, err := report.WriteStudyFolder(o.dirs[0], o.out, o.files)
		if err != nil {
			return err
		}
		for _, part := range r.Parts {
			if part == nil {
				continue
			}
			paths, err := report.ExportRuns(o.out, o.dirs[0], runsOf(part.Sweep), o.export)
			if err != nil {
				return err
			}
			files = append(files, paths...)
		}
		wrote(s, append(files, r.Files...)...)
		results := r.Results
		results.Checks = o.gate.Study(r)
		return showStudy(s, o.json, r, results, o.out, results.Checks)
	case rundir.KindSweep:
		sw, err := sweepdir.Open(o.dirs[0])
		if err != nil {
			return err
		}
		return reportSweep(s, o, sw)
	}
	return reportRuns(s, o)
}

// runMethods prints the paragraph on how the runs were made.
func runMethods(_ context.Context, s *State, o *reportOptions) error {
	var text string
	var err error
	switch o.kind {
	case rundir.KindStudy:
		text, err = report.StudyMethods(o.dirs[0])
	case rundir.KindSweep:
		var sw *sweepdir.Sweep
		if sw, err = sweepdir.Open(o.dirs[0]); err == nil {
			text, err = report.SweepMethods(sw)
		}
	default:
		var runs []*rundir.Run
		if runs, err = openRuns(o.dirs); err == nil {
			text, err = report.RunMethods(runs)
		}
	}
	if err != nil {
		return err
	}
	_, err = textutil.Fprintf(s.Out, "%s\n", textutil.Lines(text))
	return err
}

// openRuns reads the folders of runs.
func openRuns(dirs []string) ([]*rundir.Run, error) {
	var runs []*rundir.Run
	for _, dir := range dirs {
		r, err := rundir.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, missingInput(fmt.Errorf("%w (report takes the folders of runs, or of one sweep or study)", err))
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// reportRuns writes the report of one run, of seeds of one setting, or of runs that
// differ in more, which become the arms of a sweep's report.
func reportRuns(s *State, o *reportOptions) error {
	runs, err := openRuns(o.dirs)
	if err != nil {
		return err
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
	if err := report.MakeFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	paths, table, err := report.WriteRuns(o.out, runs, o.title, o.files)
	if err != nil {
		return err
	}
	e := o.export
	e.TensorBoard = e.TensorBoard && len(runs) > 1 // of a single run it is written, with its figures
	exported, err := report.ExportRuns(o.out, "", runs, e)
	if err != nil {
		return err
	}
	paths = append(paths, exported...)
	if _, err := s.Out.Write(table); err != nil {
		return err
	}
	wrote(s, paths...)
	var errs []error
	for _, r := range runs {
		errs = append(errs, report.Failed(o.gate.Run(textutil.Printable(r.Dir, 0), r.Result)))
	}
	return errors.Join(errs...)
}

// reportSweep writes the files of a sweep's report and prints headline and table.
func reportSweep(s *State, o *reportOptions, sw *sweepdir.Sweep) error {
	if err := report.MakeFolder(o.out, o.dirs[0]); err != nil {
		return err
	}
	a, paths, err := report.WriteSweep(o.out, sw, o.files)
	if err != nil {
		return err
	}
	exported, err := report.ExportRuns(o.out, sw.Dir, runsOf(sw), o.export)
	if err != nil {
		return err
	}
	wrote(s, append(paths, exported...)...)
	results := a.Results()
	results.Checks = o.gate.Sweep("", a)
	return showSweep(s, o.json, a, results, o.out, results.Checks)
}

// runsOf are the runs of a sweep that have a readable folder.
func runsOf(sw *sweepdir.Sweep) []*rundir.Run {
	var out []*rundir.Run
	for _, s := range sw.Runs {
		if s.Run != nil {
			out = append(out, s.Run)
		}
	}
	return out
}

// showSweep prints the summary of a sweep whose report is in dir, or what as JSON, and returns failed checks.
func showSweep(s *State, json bool, a *report.Report, what any, dir string, checks []report.Check) error {
	show := func() error { return report.WriteSweepSummary(s.Out, a, dir) }
	if json {
		show = func() error { return printJSON(s.Out, what) }
	}
	return errors.Join(show(), report.Failed(checks))
}

// showStudy is showSweep of a study.
func showStudy(s *State, json bool, r *report.StudyReport, what any, dir string, checks []report.Check) error {
	show := func() error { return report.WriteStudySummary(s.Out, r.Study, r.Parts, dir) }
	if json {
		show = func() error { return printJSON(s.Out, what) }
	}
	return errors.Join(show(), report.Failed(checks))
}
