package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/train"
)

// Series varies one size of a step and keeps the others.
type Series struct {
	Name   string `json:"name"`  // "hidden size"
	Unit   string `json:"unit"`  // of the values, for axes
	Expect string `json:"cost"`  // how the cost should grow, in words
	Slope  int    `json:"slope"` // the same as a power of the value; 0 = constant
	// Threads marks the series over threads, whose values are not sizes.
	Threads bool    `json:"threads"`
	Points  []Point `json:"points"`
	// Fit is the power that fits the seconds of the last half of the points, for
	// rollout and update, by least squares of the logarithms.
	FitRollout float64 `json:"fit_rollout"`
	FitUpdate  float64 `json:"fit_update"`
}

// Point is a measured step.
type Point struct {
	Value    int     `json:"value"`
	Tokens   int     `json:"tokens"` // prompt and completion tokens of the step
	RolloutS float64 `json:"rollout_s"`
	UpdateS  float64 `json:"update_s"`
	GFLOPS   float64 `json:"gflops"` // executed, of the update
}

// StepS is rollout and update.
func (p Point) StepS() float64 { return p.RolloutS + p.UpdateS }

// Scaling measures how the time of a step grows with each of its sizes, from
// the step that base describes. report is called before each measurement.
func Scaling(
	ctx context.Context, base train.BenchOptions, report func(series string, value int),
) ([]Series, error) {
	type vary struct {
		series Series
		values []int
		set    func(o *train.BenchOptions, v int)
	}
	var threads []int
	for n := range runtime.GOMAXPROCS(0) {
		threads = append(threads, n+1)
	}
	const linear = "linear, above a constant for the prompts"
	var out []Series
	for _, v := range []vary{
		{Series{Name: "completion length", Unit: "tokens", Expect: linear, Slope: 1}, []int{12, 24, 48, 96, 192},
			func(o *train.BenchOptions, v int) { o.ResponseLen = v }},
		{Series{Name: "prompts", Unit: "prompts of a step", Expect: "linear", Slope: 1}, []int{8, 16, 32, 64, 128},
			func(o *train.BenchOptions, v int) { o.Prompts = v }},
		{Series{Name: "group size", Unit: "completions of a prompt", Expect: linear, Slope: 1}, []int{2, 4, 8, 16, 32},
			func(o *train.BenchOptions, v int) { o.Group = v }},
		{Series{Name: "hidden size", Unit: "units", Expect: "quadratic", Slope: 2}, []int{32, 64, 128, 256, 512},
			func(o *train.BenchOptions, v int) { o.Hidden = v }},
		{Series{Name: "threads", Unit: "threads", Expect: "1 / threads", Slope: -1, Threads: true}, threads,
			func(o *train.BenchOptions, v int) { o.Threads = v }},
	} {
		s := v.series
		for _, value := range v.values {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			o := base
			v.set(&o, value)
			report(s.Name, value)
			r, err := train.Bench(ctx, o)
			if err != nil {
				return nil, err
			}
			s.Points = append(s.Points, Point{
				Value: value, Tokens: o.Prompts * (o.PromptLen + o.Group*o.ResponseLen),
				RolloutS: r.MedianS.Rollout, UpdateS: r.MedianS.Update, GFLOPS: r.UpdateExecuted,
			})
		}
		last := s.Points[len(s.Points)/2:]
		s.FitRollout = power(last, func(p Point) float64 { return p.RolloutS })
		s.FitUpdate = power(last, func(p Point) float64 { return p.UpdateS })
		out = append(out, s)
	}
	return out, nil
}

// power is the slope of log y over log value; NaN for fewer than two points.
func power(points []Point, y func(Point) float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		lx, ly := math.Log(float64(p.Value)), math.Log(y(p))
		n++
		sx, sy, sxx, sxy = sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	d := n*sxx - sx*sx
	if n < 2 || d == 0 {
		return math.NaN()
	}
	return (n*sxy - sx*sy) / d
}

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
