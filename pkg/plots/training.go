package plots

import (
	"errors"
	"fmt"
	"io"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// TrainingPanels writes, as PNG, four panels on how one run, or several seeds
// of one arm, trained: training against validation answer reward, the length
// of right and of wrong completions, the token entropy, and the gradient norm
// before clipping. Several seeds are drawn thin, with a thick mean.
//
// It is an error when no run has a line of metrics.
func TrainingPanels(w io.Writer, runs []*rundir.Run, opt PlotOptions) error {
	fig, err := trainingFigure(runs, opt)
	if err != nil {
		return err
	}
	return fig.render(w)
}

func trainingFigure(runs []*rundir.Run, opt PlotOptions) (figure, error) {
	all, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return figure{}, err
	}
	lines := 0
	for _, r := range runs {
		lines += len(r.Metrics)
	}
	if lines == 0 {
		return figure{}, errors.New("draw training panels: no run has a line of metrics yet")
	}
	xMax := lastX(runs)
	fig := figure{
		width: 9.6, panelHeight: 2.75,
		title: "Training under GRPO", setting: analysis.SettingLine(all),
		Rows: [][]*panel{
			{rewardPanel(runs, xMax), lengthPanel(runs, xMax)},
			{
				metricPanel(runs, xMax, "Token entropy", "entropy (nats, mean over tokens)",
					func(m rundir.Metrics) *float64 { return &m.Entropy }),
				metricPanel(runs, xMax, "Gradient norm", "global norm before clipping",
					func(m rundir.Metrics) *float64 { return &m.GradNorm }),
			},
		},
		Caption: trainingCaption(runs, all),
	}
	opt.apply(&fig)
	return fig, nil
}

// stepPlot is a plot over steps whose y axis starts at 0.
func stepPlot(xMax float64, yLabel string) *plot.Plot {
	p := newPlot("GRPO step (rollout batches)", yLabel)
	p.X.Min, p.X.Max = 0, xMax
	p.Y.Min = 0
	return p
}

func rewardPanel(runs []*rundir.Run, xMax float64) *panel {
	p := stepPlot(xMax, "answer reward")
	p.Y.Max = 1
	train := analysis.ForEach(runs, func(r *rundir.Run) analysis.Series {
		return analysis.MetricSeries(r, func(m rundir.Metrics) *float64 { return &m.AnswerReward })
	})
	val := analysis.ForEach(runs, func(r *rundir.Run) analysis.Series {
		return analysis.EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
	})
	out := &panel{title: "Answer reward, sampled", plot: p}
	out.add("training batch", train, lookTrain, medium)
	out.add("validation", val, lookSampled, thick)
	return out
}

func lengthPanel(runs []*rundir.Run, xMax float64) *panel {
	out := &panel{title: "Completion length", plot: stepPlot(xMax, "length (tokens, mean)")}
	out.add("right", analysis.ForEach(runs, func(r *rundir.Run) analysis.Series {
		return analysis.MetricSeries(r, func(m rundir.Metrics) *float64 { return m.LengthRight })
	}), lookRight, medium)
	out.add("wrong", analysis.ForEach(runs, func(r *rundir.Run) analysis.Series {
		return analysis.MetricSeries(r, func(m rundir.Metrics) *float64 { return m.LengthWrong })
	}), lookWrong, medium)
	out.headroom()
	return out
}

func metricPanel(runs []*rundir.Run, xMax float64, title, yLabel string, figure func(rundir.Metrics) *float64) *panel {
	out := &panel{title: title, plot: stepPlot(xMax, yLabel)}
	out.add("", analysis.ForEach(runs, func(r *rundir.Run) analysis.Series { return analysis.MetricSeries(r, figure) }), lookPlain, medium)
	out.headroom()
	return out
}

// add draws curves into the panel, with a legend entry unless name is empty.
func (p *panel) add(name string, all []analysis.Series, l look, width float64) {
	entry, ok := addCurves(p.plot, all, l, width)
	if ok && name != "" {
		entry.Name = name
		p.Legend = append(p.Legend, entry)
	}
}

// headroom keeps the highest point off the upper edge, and gives a panel
// without a positive value an axis all the same.
func (p *panel) headroom() {
	y := &p.plot.Y.Max
	switch higher := *y * 1.05; {
	case *y <= 0:
		*y = 1
	case stats.IsFinite(higher):
		*y = higher
	}
}

func trainingCaption(runs []*rundir.Run, all []analysis.RunInfo) []string {
	out := []string{all[0].OneRun()}
	if len(runs) > 1 {
		out[0] = fmt.Sprintf("Mean over n = %d runs at the steps that all of them have; thin lines: each run.", len(runs))
	}
	out = append(out, "Each point: one step's rollout batch, or one evaluation on the validation problems.")
	return append(out, unfinished(runs, all)...)
}
