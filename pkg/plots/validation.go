package plots

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// PlotOptions changes what is around the curves of a figure.
type PlotOptions struct {
	// Title replaces the figure's own title.
	Title string
}

// ValidationPlot writes, as PNG, the validation answer reward against the step
// of one run, or of several seeds of one arm: sampled and
// greedy; the base level (sampled, before training) and the majority-answer
// baseline as horizontal lines; and the split of unseen facts, with a majority
// answer of its own, where it was evaluated. One run is drawn with the Wilson
// interval of each evaluation, several as a thin line for each seed, a thick mean
// and its Student's t interval. A run that diverged is marked where it did. The
// caption names the statistic, the level and n.
//
// It is an error when no run has a validation.
func ValidationPlot(w io.Writer, runs []*rundir.Run, opt PlotOptions) error {
	fig, err := ValidationFigure(runs, opt)
	if err != nil {
		return err
	}
	return fig.render(w)
}

func ValidationFigure(runs []*rundir.Run, opt PlotOptions) (figure, error) {
	all, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return figure{}, err
	}
	evals := validations(runs)
	if len(evals) == 0 {
		return figure{}, errors.New("draw validation reward: no run has a validation yet")
	}
	yLabel := "validation answer reward (fraction correct)"
	if n := problems(evals); n != "" {
		yLabel = fmt.Sprintf("validation answer reward (fraction correct of %s)", n)
	}
	p := newPlot("GRPO step (rollout batches)", yLabel)
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max, p.Y.Max = lastX(runs), 1
	p.Y.Tick.Marker = niceTicks{want: 5}
	fig := figure{
		width: 7.2, panelHeight: 4,
		title: "Validation answer reward under GRPO", setting: analysis.SettingLine(all),
		Rows:    [][]*panel{{{plot: p}}},
		Caption: validationCaption(runs, all, evals),
	}
	fig.Rows[0][0].Legend = drawValidation(p, runs)
	opt.apply(&fig)
	return fig, nil
}

func (o PlotOptions) apply(f *figure) {
	if o.Title != "" {
		f.title = o.Title
	}
}

// validations are the evaluations of all runs on the validation problems.
func validations(runs []*rundir.Run) []rundir.Eval { return allEvals(runs, rundir.SplitVal) }

func allEvals(runs []*rundir.Run, split string) []rundir.Eval {
	var out []rundir.Eval
	for _, r := range runs {
		out = append(out, analysis.EvalsOf(r, split)...)
	}
	return out
}

// problems is the number of problems of every evaluation, empty when they
// differ.
func problems(evals []rundir.Eval) string {
	return analysis.Common(evals, func(e rundir.Eval) string { return fmt.Sprint(e.Sampled.N) })
}

// lastX is the end of the x axis.
func lastX(runs []*rundir.Run) float64 {
	x := 1
	for _, r := range runs {
		x = max(x, analysis.LastStep(r))
	}
	return float64(x)
}

// drawValidation adds everything to the plot, from the back to the front, and
// returns the legend in the order of reading.
func drawValidation(p *plot.Plot, runs []*rundir.Run) []legendEntry {
	var legend []legendEntry
	reference := referenceLevels(runs)
	for _, l := range reference {
		addLevel(p, l.at, p.X.Max, l.style)
	}
	for _, c := range []struct {
		name, split, decoding string
		look                  look
	}{
		{analysis.SampledTemperature(runs), rundir.SplitVal, rundir.DecodingSampled, lookSampled},
		{"greedy", rundir.SplitVal, rundir.DecodingGreedy, lookGreedy},
		{"unseen facts, sampled", rundir.SplitUnseen, rundir.DecodingSampled, lookUnseenSampled},
		{"unseen facts, greedy", rundir.SplitUnseen, rundir.DecodingGreedy, lookUnseenGreedy},
	} {
		all := analysis.ForEach(runs, func(r *rundir.Run) analysis.Series { return analysis.EvalSeries(r, c.split, c.decoding) })
		var entry legendEntry
		var ok bool
		if c.split == rundir.SplitVal {
			lo, hi := bandOf(runs, all, c.decoding)
			banded := addBand(p, lo, hi, c.look)
			entry, ok = addCurves(p, all, c.look, thick)
			if banded {
				entry.shaded = c.look
			}
		} else {
			entry, ok = addUnseen(p, all, c.look)
		}
		if ok {
			entry.Name = c.name + final(all, p.X.Max)
			legend = append(legend, entry)
		}
	}
	for _, l := range reference {
		legend = append(legend, l.entry())
	}
	if entry, ok := addDiverged(p, runs); ok {
		legend = append(legend, entry)
	}
	return legend
}

// referenceLevels are the means over runs of the sampled reward before training
// and of the majority-answer baseline, that of validation and, where it was
// evaluated, that of the unseen facts.
func referenceLevels(runs []*rundir.Run) []level {
	var bases []float64
	for _, r := range runs {
		if e := analysis.Evaluation(r, rundir.SplitVal, analysis.AtStart); e != nil {
			bases = append(bases, e.Sampled.AnswerReward)
		}
	}
	var out []level
	if base, _, n := stats.MeanSD(bases); n > 0 {
		out = append(out, level{"base level, sampled", base, lookBase.line(medium)})
	}
	ofSplit := func(name, split string, l look) {
		evals := allEvals(runs, split)
		var shares []float64
		for _, e := range evals {
			shares = append(shares, e.MajorityBaseline)
		}
		if share, _, n := stats.MeanSD(shares); n > 0 {
			if answer := analysis.Common(evals, func(e rundir.Eval) string { return e.MajorityAnswer }); answer != "" {
				name += ` "` + shorten(legendText, answer, vg.Points(50)) + `"`
			}
			out = append(out, level{name, share, l.line(medium + 0.2)})
		}
	}
	if len(allEvals(runs, rundir.SplitUnseen)) == 0 {
		ofSplit("majority answer", rundir.SplitVal, lookMajority)
		return out
	}
	ofSplit("validation: majority answer", rundir.SplitVal, lookMajority)
	ofSplit("unseen facts: majority answer", rundir.SplitUnseen, lookUnseenMajority)
	return out
}

// bandOf is the Wilson interval of each evaluation of one run, or Student's t
// interval of the mean over several.
func bandOf(runs []*rundir.Run, all []analysis.Series, decoding string) (lo, hi analysis.Series) {
	if len(runs) > 1 {
		drawn := analysis.NonEmpty(all)
		n, _ := strconv.Atoi(problems(validations(runs))) // 0 where they differ
		return intervals(drawn, analysis.MeanSeries(drawn), *shareOf(n))
	}
	for _, e := range analysis.EvalsOf(runs[0], rundir.SplitVal) {
		if c := analysis.DecodedCounts(e, decoding); c != nil && c.N > 0 {
			l, h := stats.Wilson(c.CorrectNum, c.N, stats.Level)
			lo, hi = append(lo, analysis.Point{X: float64(e.Step), Y: l}), append(hi, analysis.Point{X: float64(e.Step), Y: h})
		}
	}
	return lo, hi
}

// addUnseen draws a split beside validation: thin curves where it is evaluated
// along the way, and markers alone where it is evaluated once or twice, because
// what is between those is not known.
func addUnseen(p *plot.Plot, all []analysis.Series, l look) (legendEntry, bool) {
	all = analysis.NonEmpty(all)
	for _, s := range all {
		if len(s) > 2 {
			return addCurves(p, all, l, thin)
		}
	}
	entry := legendEntry{glyph: l.glyph(markerRadius)}
	for _, s := range all {
		p.Add(&plotter.Scatter{XYs: xys(s), GlyphStyle: entry.glyph})
	}
	return entry, len(all) > 0
}

// addDiverged marks the last evaluation of each run that diverged.
func addDiverged(p *plot.Plot, runs []*rundir.Run) (legendEntry, bool) {
	entry := legendEntry{Name: "diverged", glyph: draw.GlyphStyle{Color: black, Radius: 4.2, Shape: cross{}}}
	var marks analysis.Series
	for _, r := range runs {
		if r.Result == nil || r.Result.Status != rundir.StateDiverged {
			continue
		}
		if s := analysis.EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled); len(s) > 0 {
			last := s[len(s)-1]
			if r.Result.DivergedAt != nil {
				last.X = min(p.X.Max, float64(*r.Result.DivergedAt))
			}
			marks = append(marks, last)
		}
	}
	if len(marks) == 0 {
		return entry, false
	}
	p.Add(&plotter.Scatter{XYs: xys(marks), GlyphStyle: entry.glyph})
	return entry, true
}

// final is the last value of a curve (the mean's, for several), for the
// legend. It says of what it is where that is not the end of the axis or not
// all runs.
func final(all []analysis.Series, xMax float64) string {
	drawn := analysis.NonEmpty(all)
	s := analysis.MeanSeries(drawn)
	if len(s) == 0 {
		return ""
	}
	last := s[len(s)-1]
	out := analysis.Decimals(last.Y, 3)
	if last.X < xMax {
		out += fmt.Sprintf(" at step %.0f", last.X)
	}
	if len(drawn) < len(all) {
		out += fmt.Sprintf(", %d of %d runs", len(drawn), len(all))
	}
	return " (" + out + ")"
}

func validationCaption(runs []*rundir.Run, all []analysis.RunInfo, evals []rundir.Eval) []string {
	size := strings.TrimSpace(problems(evals) + " held-out problems")
	if n := problems(allEvals(runs, rundir.SplitUnseen)); n != "" {
		size += " (unseen facts: " + n + ")"
	}
	point := "share of " + size + " answered right"
	var out []string
	if len(runs) == 1 {
		out = append(out, all[0].OneRun()+" Each point: "+point+", with its 95% Wilson interval over the problems, not over seeds; in brackets: last value.")
	} else {
		out = append(out, fmt.Sprintf("Mean over n = %d runs with its 95%% interval (Student's t); thin lines: each run. Each point: %s; in brackets: last value.", len(runs), point))
	}
	if s := analysis.SampledAt(runs); strings.Contains(s, ", ") { // the legend has the temperature
		out = append(out, strings.ToUpper(s[:1])+s[1:]+".")
	}
	return append(out, unfinished(runs, all)...)
}

// unfinished says which runs did not simply end: for one run why, for several how
// many of each kind.
func unfinished(runs []*rundir.Run, all []analysis.RunInfo) []string {
	if len(runs) == 1 {
		o := analysis.Outcome(runs[0], all[0])
		if o == rundir.StateDone {
			return nil
		}
		return []string{shorten(captionText, strings.ToUpper(o[:1])+o[1:]+".", vg.Points(180))}
	}
	diverged, left := 0, 0
	for _, r := range runs {
		switch {
		case r.Result == nil:
			left++
		case r.Result.Status != rundir.StateDone:
			diverged++
		}
	}
	var out []string
	if diverged > 0 {
		out = append(out, fmt.Sprintf("Diverged: %s.", runsOf(diverged, len(runs))))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("Not finished: %s.", runsOf(left, len(runs))))
	}
	return out
}
