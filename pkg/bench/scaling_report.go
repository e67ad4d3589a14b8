package bench

import (
	"bytes"
	"fmt"
	"math"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/train"
)

// ScalingTable is the Markdown table of all series.
func ScalingTable(series []Series) []byte {
	w := &bytes.Buffer{}
	for _, s := range series {
		textutil.Fprintf(w, "**%s** (expected: %s", s.Name, s.Expect)
		if !math.IsNaN(s.FitUpdate) && !s.Threads {
			textutil.Fprintf(w, "; fitted to the last %d: rollout to the power of %.2f, update %.2f",
				len(s.Points)-len(s.Points)/2, s.FitRollout, s.FitUpdate)
		}
		textutil.Fprintf(w, ")\n\n| %s | tokens | rollout, ms | update, ms | step, ms | tokens/s | "+
			"update, GFLOP/s executed |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", s.Unit)
		for _, p := range s.Points {
			textutil.Fprintf(w, "| %d | %d | %.2f | %.2f | %.2f | %.0f | %.1f |\n",
				p.Value, p.Tokens, 1000*p.RolloutS, 1000*p.UpdateS, 1000*p.StepS(),
				float64(p.Tokens)/p.StepS(), p.GFLOPS)
		}
		fmt.Fprintln(w)
	}
	return w.Bytes()
}

// ScalingFigure has a panel for each series, on logarithmic axes, with a line of
// the expected slope through a point of the update.
func ScalingFigure(series []Series, o train.BenchOptions) plots.ExplainFigure {
	threads := textutil.Count(o.Threads, "thread")
	if o.Threads == 0 {
		threads = "all cores"
	}
	f := plots.ExplainFigure{
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
