package report

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/rundir"
)

// PlotOptions changes what stands around the curves of a figure.
type PlotOptions struct {
	// Title replaces the figure's own title.
	Title string
	// Note is added to the end of the caption, for example the command.
	Note string
}

// ValidationPlot writes, as PNG, the validation answer reward against the step
// of one run, or of several seeds of one arm: sampled at temperature 1 and
// greedy; the base level (sampled, before training) and the majority-answer
// baseline as horizontal lines; and the split of unseen facts where it was
// evaluated. One run is drawn with the Wilson interval of each evaluation,
// several as a thin line for each seed and a thick mean. A run that diverged
// is marked where it did. The caption names the statistic, n and the seeds.
//
// It is an error when no run has a validation.
func ValidationPlot(w io.Writer, runs []*rundir.Run, opt PlotOptions) error {
	fig, err := validationFigure(runs, opt)
	if err != nil {
		return err
	}
	return fig.render(w)
}

func validationFigure(runs []*rundir.Run, opt PlotOptions) (figure, error) {
	all, err := aboutAll(runs)
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
		title: "Validation answer reward under GRPO", setting: setting(all),
		rows:    [][]*panel{{{plot: p}}},
		caption: validationCaption(runs, all, evals),
	}
	fig.rows[0][0].legend = drawValidation(p, runs)
	opt.apply(&fig)
	return fig, nil
}

func (o PlotOptions) apply(f *figure) {
	if o.Title != "" {
		f.title = o.Title
	}
	if o.Note != "" {
		f.caption = append(f.caption, o.Note)
	}
}

// validations are the lines of all runs that the figure draws.
func validations(runs []*rundir.Run) []rundir.Eval {
	var out []rundir.Eval
	for _, r := range runs {
		out = append(out, evalsOf(r, rundir.SplitVal)...)
	}
	return out
}

// problems is the number of problems of every evaluation, empty when they
// differ.
func problems(evals []rundir.Eval) string {
	return common(evals, func(e rundir.Eval) string { return fmt.Sprint(e.Sampled.N) })
}

// lastX is the end of the x axis.
func lastX(runs []*rundir.Run) float64 {
	x := 1
	for _, r := range runs {
		x = max(x, lastStep(r))
	}
	return float64(x)
}

// drawValidation adds everything to the plot, from the back to the front, and
// returns the legend in the order of reading.
func drawValidation(p *plot.Plot, runs []*rundir.Run) []legendEntry {
	var legend []legendEntry
	base, majority := levels(runs)
	if isFinite(base) {
		addLevel(p, base, p.X.Max, lookBase.line(medium))
	}
	if isFinite(majority) {
		addLevel(p, majority, p.X.Max, lookMajority.line(medium+0.2))
	}
	for _, c := range []struct {
		name, split, decoding string
		look                  look
	}{
		{"sampled, temperature 1", rundir.SplitVal, rundir.DecodingSampled, lookSampled},
		{"greedy", rundir.SplitVal, rundir.DecodingGreedy, lookGreedy},
		{"unseen facts, sampled", rundir.SplitUnseen, rundir.DecodingSampled, lookUnseenSampled},
		{"unseen facts, greedy", rundir.SplitUnseen, rundir.DecodingGreedy, lookUnseenGreedy},
	} {
		all := forEach(runs, func(r *rundir.Run) series { return evalSeries(r, c.split, c.decoding) })
		var entry legendEntry
		var ok bool
		if c.split == rundir.SplitVal {
			banded := len(runs) == 1 && addBand(p, runs[0], c.decoding, c.look)
			entry, ok = addCurves(p, all, c.look, thick)
			if banded {
				entry.shaded = c.look
			}
		} else {
			entry, ok = addUnseen(p, all, c.look)
		}
		if ok {
			entry.name = c.name + final(all, p.X.Max)
			legend = append(legend, entry)
		}
	}
	if isFinite(base) {
		legend = append(legend, legendEntry{
			name: fmt.Sprintf("base level, sampled (%s)", decimals(base, 3)), line: lookBase.line(medium)})
	}
	if isFinite(majority) {
		legend = append(legend, legendEntry{
			name: fmt.Sprintf("majority answer (%s)", decimals(majority, 3)), line: lookMajority.line(medium + 0.2)})
	}
	if entry, ok := addDiverged(p, runs); ok {
		legend = append(legend, entry)
	}
	return legend
}

// levels are the means over runs of the sampled reward before training and of
// the majority-answer baseline.
func levels(runs []*rundir.Run) (base, majority float64) {
	var bases, majorities []float64
	for _, r := range runs {
		if e := evaluation(r, rundir.SplitVal, before); e != nil {
			bases = append(bases, e.Sampled.AnswerReward)
		}
		if e := anyValidation(r); e != nil {
			majorities = append(majorities, e.MajorityBaseline)
		}
	}
	base, _, _ = MeanSD(bases)
	majority, _, _ = MeanSD(majorities)
	return base, majority
}

// addBand shades the Wilson interval of each evaluation of one run.
func addBand(p *plot.Plot, r *rundir.Run, decoding string, l look) bool {
	var upper, lower plotter.XYs
	for _, e := range evalsOf(r, rundir.SplitVal) {
		c := decoded(e, decoding)
		if c == nil || c.N == 0 {
			continue
		}
		lo, hi := Wilson(c.CorrectNum, c.N, Level)
		upper = append(upper, plotter.XY{X: float64(e.Step), Y: hi})
		lower = append(lower, plotter.XY{X: float64(e.Step), Y: lo})
	}
	if len(upper) < 2 {
		return false
	}
	outline := upper
	for i := len(lower) - 1; i >= 0; i-- {
		outline = append(outline, lower[i])
	}
	p.Add(&plotter.Polygon{XYs: []plotter.XYs{outline}, Color: alpha(l.color, bandOpacity)})
	return true
}

// addUnseen draws a split beside validation: thin curves where it is evaluated
// along the way, and markers alone where it is evaluated once or twice, because
// what is between those is not known.
func addUnseen(p *plot.Plot, all []series, l look) (legendEntry, bool) {
	all = nonEmpty(all)
	for _, s := range all {
		if len(s) > 2 {
			return addCurves(p, all, l, thin)
		}
	}
	entry := legendEntry{glyph: l.glyph(markerRadius)}
	for _, s := range all {
		p.Add(&plotter.Scatter{XYs: plotter.XYs(s), GlyphStyle: entry.glyph})
	}
	return entry, len(all) > 0
}

// addDiverged marks the last evaluation of each run that diverged.
func addDiverged(p *plot.Plot, runs []*rundir.Run) (legendEntry, bool) {
	entry := legendEntry{name: "diverged", glyph: draw.GlyphStyle{Color: black, Radius: 4.2, Shape: cross{}}}
	var marks series
	for _, r := range runs {
		if r.Result == nil || r.Result.Status != rundir.StateDiverged {
			continue
		}
		if s := evalSeries(r, rundir.SplitVal, rundir.DecodingSampled); len(s) > 0 {
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
	p.Add(&plotter.Scatter{XYs: plotter.XYs(marks), GlyphStyle: entry.glyph})
	return entry, true
}

// final is the last value of a curve (the mean's, for several), for the
// legend. It says of what it is where that is not the end of the axis or not
// all runs.
func final(all []series, xMax float64) string {
	drawn := nonEmpty(all)
	s := mean(drawn)
	if len(s) == 0 {
		return ""
	}
	last := s[len(s)-1]
	out := decimals(last.Y, 3)
	if last.X < xMax {
		out += fmt.Sprintf(" at step %.0f", last.X)
	}
	if len(drawn) < len(all) {
		out += fmt.Sprintf(", %d of %d runs", len(drawn), len(all))
	}
	return " (" + out + ")"
}

func validationCaption(runs []*rundir.Run, all []about, evals []rundir.Eval) []string {
	out := []string{seeds(all)}
	size := "held-out problems"
	if n := problems(evals); n != "" {
		size = "n = " + n + " " + size
	}
	out = append(out, fmt.Sprintf("Each point: fraction of %s answered right; no smoothing.", size))
	if len(runs) == 1 {
		out = append(out, "Shaded: 95% Wilson interval of one evaluation over its problems (the spread over seeds is not in it).")
	} else {
		out = append(out, "Thin: each seed. Thick: mean over the seeds at the steps that all of them have.")
	}
	out = append(out, "In brackets: last value.")
	if answer := common(evals, func(e rundir.Eval) string { return printable(e.MajorityAnswer) }); answer != "" {
		out = append(out, fmt.Sprintf("Majority answer: always %q.", answer))
	}
	var unseen []rundir.Eval
	for _, r := range runs {
		unseen = append(unseen, evalsOf(r, rundir.SplitUnseen)...)
	}
	if n := problems(unseen); n != "" {
		out = append(out, fmt.Sprintf("Unseen facts: n = %s problems whose facts no stage of training saw.", n))
	}
	return append(out, unfinished(runs, all)...)
}

// unfinished has a sentence on each run that did not simply end.
func unfinished(runs []*rundir.Run, all []about) []string {
	var out []string
	for i, r := range runs {
		if o := outcome(r, all[i]); o != rundir.StateDone {
			s := all[i].seed() + " " + o
			out = append(out, strings.ToUpper(s[:1])+s[1:]+".")
		}
	}
	return out
}
