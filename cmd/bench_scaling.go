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
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// Files of `grpo bench scaling`.
const (
	scalingTable = "scaling.md"
	scalingPlot  = "scaling.png"
)

func newBenchScaling(s *State) *cobra.Command {
	var o train.BenchOptions
	var out string
	var asJSON bool
	c := &cobra.Command{
		Use:   "scaling",
		Short: "Measure how the time of a step grows with each size and with threads",
		Long: `Scaling measures the step that the flags describe, varying one size at a time, and
prints a table. --out also writes the table and a figure (` + scalingTable + `, ` + scalingPlot + `).
It takes a minute or two.`,
		Example: `  grpo bench scaling --threads 1
  grpo bench scaling --threads 1 --out docs/performance`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Now = s.Now
			return runBenchScaling(cmd.Context(), s, o, out, asJSON)
		},
	}
	addBenchFlags(c.Flags(), &o)
	c.Flags().StringVar(&out, "out", "", "`folder` to write table and figure to")
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}

func runBenchScaling(ctx context.Context, s *State, o train.BenchOptions, out string, asJSON bool) error {
	if out != "" { // before a minute of measuring
		if err := makePlain(out, rundir.KindOther); err != nil {
			return fmt.Errorf("write the figures: %w", err)
		}
	}
	o.Memory = s.checkMemory
	series, err := bench.Scaling(ctx, o, func(name string, value int) {
		textutil.Fprintf(s.Err, "measuring %s %d\n", name, value)
	})
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := writeScaling(&table, series); err != nil {
		return err
	}
	if out != "" {
		if err := rundir.WriteFileAtomic(filepath.Join(out, scalingTable), table.Bytes()); err != nil {
			return err
		}
		path := filepath.Join(out, scalingPlot)
		figure := scalingFigure(series, o)
		if err := plots.WriteFigure(path, func(w io.Writer) error { return plots.ExplainPlot(w, figure) }); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
	}
	if asJSON {
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
			textutil.Fprintf(w, "; fitted to the last %d: rollout to the power of %.2f, update %.2f", len(s.Points)-len(s.Points)/2, s.FitRollout, s.FitUpdate)
		}
		textutil.Fprintf(w, ")\n\n| %s | tokens | rollout, ms | update, ms | step, ms | tokens/s | update, GFLOP/s executed |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", s.Unit)
		for _, p := range s.Points {
			if _, err := textutil.Fprintf(w, "| %d | %d | %.2f | %.2f | %.2f | %.0f | %.1f |\n",
				p.Value, p.Tokens, 1000*p.RolloutS, 1000*p.UpdateS, 1000*p.StepS(), float64(p.Tokens)/p.StepS(), p.GFLOPS); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// scalingFigure has a panel for each series, on logarithmic axes, with a line of
// the expected slope through a point of the update.
func scalingFigure(series []bench.Series, o train.BenchOptions) plots.ExplainFigure {
	f := plots.ExplainFigure{
		Title: "Time of a training step", PerRow: 3,
		Setting: fmt.Sprintf("%d prompts of %d tokens, %d completions of %d tokens each, hidden size %d, %d layers, where not varied",
			o.Prompts, o.PromptLen, o.Group, o.ResponseLen, o.Hidden, o.Layers),
		Caption: []string{fmt.Sprintf("Median of %d steps at fixed lengths, %s.", o.Steps, count(o.Threads, "thread")), "Dotted: the expected slope through the last update (threads: through the first)."},
	}
	if o.Threads == 0 {
		f.Caption[0] = fmt.Sprintf("Median of %d steps at fixed lengths, all cores.", o.Steps)
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
		f.Panels = append(f.Panels, plots.ExplainPanel{
			Title: s.Name, XLabel: s.Unit, YLabel: "milliseconds", LogX: true, LogY: true,
			XMin: x[0] / 1.1, XMax: x[len(x)-1] * 1.1, YMin: low / 1.3, YMax: high * 1.3, XTicks: x,
			Curves: []plots.ExplainCurve{
				{Name: "expected", X: x, Y: expected, Reference: true},
				{Name: "update", X: x, Y: update, Style: 0},
				{Name: "rollout", X: x, Y: rollout, Style: 1},
			},
		})
	}
	return f
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
