package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
)

// reportOptions are the inputs of `grpo report`.
type reportOptions struct {
	state *State
	dirs  []string
	out   string
	title string
}

func newReport(s *State) *cobra.Command {
	o := reportOptions{state: s}
	c := &cobra.Command{
		Use:   "report RUN...",
		Short: "Draw figures and a table from the folders of runs",
		Long: `Report reads the folders of one run, or of several seeds of one setting, and
writes validation_reward.png, training.png and results.md. It reads files only,
so it works on unfinished runs too, and says what is missing.`,
		Example: `  grpo report results/train-1a2b3c4d
  grpo report runs/seed=1 runs/seed=2 runs/seed=3 --out runs`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.dirs = args
			if o.out == "" {
				if len(args) > 1 {
					return fmt.Errorf("%w: several runs need --out, the folder of their common report", config.ErrConfig)
				}
				o.out = args[0]
			}
			return runReport(&o)
		},
	}
	c.Flags().StringVar(&o.out, "out", "", "folder to write to (default: the run's own)")
	c.Flags().StringVar(&o.title, "title", "", "title of the validation figure")
	return c
}

func runReport(o *reportOptions) error {
	var runs []*rundir.Run
	for _, dir := range o.dirs {
		r, err := rundir.Open(dir)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
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
	for _, p := range append(figures, path) {
		if _, err := fmt.Fprintf(o.state.Err, "wrote %s\n", p); err != nil {
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
		name string
		draw func(io.Writer, []*rundir.Run, report.PlotOptions) error
		opt  report.PlotOptions
		has  bool
	}{
		{rundir.ValidationPlot, report.ValidationPlot, report.PlotOptions{Title: title}, has(func(r *rundir.Run) int { return len(r.Evals) })},
		{rundir.TrainingPlot, report.TrainingPanels, report.PlotOptions{}, has(func(r *rundir.Run) int { return len(r.Metrics) })},
	} {
		if !f.has {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := report.WriteFigure(path, func(w io.Writer) error { return f.draw(w, runs, f.opt) }); err != nil {
			return nil, fmt.Errorf("draw %s: %w", path, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
