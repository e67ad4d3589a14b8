package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/bench"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// Files of `grpo bench scaling`.
const (
	scalingTable = "scaling.md"
	scalingPlot  = "scaling.png"
)

// benchScalingOptions are the inputs of `grpo bench scaling`.
type benchScalingOptions struct {
	train.BenchOptions
	out  string
	json bool
}

func newBenchScaling(s *State) *cobra.Command {
	o := &benchScalingOptions{}
	c := &cobra.Command{
		Use:   "scaling",
		Short: "Measure how the time of a step grows with each size and with threads",
		Long: `Scaling measures the step that the flags describe, varying one size at a time, and
prints a table. --out also writes the table and a figure (` + scalingTable + `, ` + scalingPlot + `).
It takes a minute or two.`,
		Example: `  grpo bench scaling --threads 1
  grpo bench scaling --threads 1 --out docs/performance`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, runBenchScaling) },
	}
	addBenchFlags(c.Flags(), &o.BenchOptions)
	c.Flags().StringVar(&o.out, "out", "", "`folder` to write table and figure to")
	addJSON(c, &o.json)
	return c
}

func runBenchScaling(ctx context.Context, s *State, o *benchScalingOptions) error {
	if o.out != "" { // before a minute of measuring
		if err := makePlain(o.out, rundir.KindOther); err != nil {
			return fmt.Errorf("write the figures: %w", err)
		}
	}
	o.Now, o.Memory = s.Now, s.checkMemory
	series, err := bench.Scaling(ctx, o.BenchOptions, func(name string, value int) {
		textutil.Fprintf(s.Err, "measuring %s %d\n", name, value)
	})
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := writeScaling(&table, series); err != nil {
		return err
	}
	if o.out != "" {
		if err := rundir.WriteFileAtomic(filepath.Join(o.out, scalingTable), table.Bytes()); err != nil {
			return err
		}
		path := filepath.Join(o.out, scalingPlot)
		figure := scalingFigure(series, o.BenchOptions)
		if err := report.WriteFigure(path, func(w io.Writer) error { return report.ExplainPlot(w, figure) }); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
	}
	if o.json {
		return printJSON(s.Out, series)
	}
	_, err = table.WriteTo(s.Out)
	return err
}

func writeScaling(w io.Writer, series []bench.Series) error {
	for _, s := range series {
		if _, err := textutil.Fprintf(w, "**%s** (expected: %s", s.Name, s.Expect); err != nil {
			return err
		}
		if !math.IsNaN(s.FitUpdate) && !s.Threads {
			textutil.Fprintf(w, "; fitted to the last %d: rollout to the power of %.2f, update %.2f",
				len(s.Points)-len(s.Points)/2, s.FitRollout, s.FitUpdate)
		}
		textutil.Fprintf(w, ")\n\n| %s | tokens | rollout, ms | update, ms | step, ms | tokens/s | "+
			"update, GFLOP/s executed |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", s.Unit)
		for _, p := range s.Points {
			if _, err := textutil.Fprintf(w, "| %d | %d | %.2f | %.2f | %.2f | %.0f | %.1f |\n",
				p.Value, p.Tokens, 1000*p.RolloutS, 1000*p.UpdateS, 1000*p.StepS(),
				float64(p.Tokens)/p.StepS(), p.GFLOPS); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// scalingFigure has a panel for each series, on logarithmic axes, with a line of
// the expected slope through a point of the update.
func scalingFigure(series []bench.Series, o train.BenchOptions) report.ExplainFigure {
	threads := textutil.Count(o.Threads, "thread")
	if o.Threads == 0 {
		threads = "all cores"
	}
	f := report.ExplainFigure{
		Title: "Time of a training step", PerRow: 3,
		Setting: fmt.Sprintf("%d prompts of %d tokens, %d completions of %d tokens each, hidden size %d, %d layers, "+
			"where not varied", o.Prompts, o.PromptLen, o.Group, o.ResponseLen, o.Hidden, o.Layers),
		Caption: []string{
			fmt.Sprintf("Median of %d steps at fixed lengths, %s.", o.Steps, threads),
			"Dotted: the expected slope through the last update (threads: through the first).",
		},
	}
	for _, s := range series {
		if len(s.Points) < 2 {
			continue
		}
		var x, rollout, update, expected []float64
		at := s.Points[len(s.Points)-1]
		if s.Threads {
			at = s.Points[0]
		}
		low, high := math.Inf(1), 0.0
		for _, p := range s.Points {
			x = append(x, float64(p.Value))
			rollout, update = append(rollout, 1000*p.RolloutS), append(update, 1000*p.UpdateS)
			expected = append(expected, 1000*at.UpdateS*math.Pow(float64(p.Value)/float64(at.Value), float64(s.Slope)))
			low, high = min(low, 1000*p.RolloutS, 1000*p.UpdateS), max(high, 1000*p.RolloutS, 1000*p.UpdateS)
		}
		f.Panels = append(f.Panels, report.ExplainPanel{
			Title: s.Name, XLabel: s.Unit, YLabel: "milliseconds", LogX: true, LogY: true,
			XMin: x[0] / 1.1, XMax: x[len(x)-1] * 1.1, YMin: low / 1.3, YMax: high * 1.3, XTicks: x,
			Curves: []report.ExplainCurve{
				{Name: "expected", X: x, Y: expected, Reference: true},
				{Name: "update", X: x, Y: update, Style: 0},
				{Name: "rollout", X: x, Y: rollout, Style: 1},
			},
		})
	}
	return f
}
