package plots

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// validationReward is the validation answer reward of each arm of a sweep against
// the step.
func validationReward(v *view) *figure {
	return v.validationChart(chart{title: "Validation answer reward", xLabel: stepLabel(v.infos), xMax: v.xMax})
}

// validationChart draws the validation answer reward on the x axis of c.
func (v *view) validationChart(c chart) *figure {
	c.reward, c.yLabel, c.y = true, rewardLabel(onCurve(v.runs)), validationOf
	c.band = shareOf(v.leastProblems())
	fig := c.draw(v)
	if fig != nil {
		fig.caption = []string{v.meanCaption(true), "Each point: share of " + heldOut(onCurve(v.runs)) + " answered right, " +
			analysis.SampledAt(v.runs) + "; in brackets: last value."}
		if note := analysis.CurveNote(v.runs); note != "" {
			fig.notes = append(fig.notes, "In tables, "+note+".")
		}
	}
	return fig
}

// leastProblems is the smallest number of validation problems of the curve of any arm, 0 while
// unknown: one problem of it is the coarsest unit in which rewards are counted.
func (v *view) leastProblems() int {
	least := 0
	for _, e := range evaluations(v.runs, rundir.SplitVal) {
		if n := e.Problems(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// runsValidation is the validation answer reward against the step of one run, or of
// several seeds of one arm: sampled and greedy; the base level (sampled, before
// training) and the majority-answer baseline as horizontal lines; and, where they were
// evaluated, the problems of the last evaluation (eval.final_size) and the split of unseen
// facts, with a majority answer of its own. One run is
// drawn with the Wilson interval of each evaluation, several as a thin line for each
// seed, a thick mean and, from [leastSeeds] on, its Student's t interval. Crosses mark where runs diverged.
// The caption names the statistic, the level and n.
//
// It is an error when no run has a validation.
func runsValidation(runs []*rundir.Run) (*figure, error) {
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return nil, err
	}
	if len(evaluations(runs, rundir.SplitVal)) == 0 {
		return nil, errors.New("draw validation reward: no run has a validation yet")
	}
	p := newPanel(stepLabel(infos), rewardLabel(onCurve(runs)))
	p.X.Min, p.X.Max = 0, lastStep(runs)
	p.Y.Tick.Marker = niceTicks{want: 5}
	p.drawValidation(runs)
	return &figure{
		width: pageWidth, panelHeight: pageHeight,
		title: "Validation answer reward under " + algorithm(infos), setting: analysis.SettingLine(infos),
		rows: [][]*panel{{p}}, caption: validationCaption(runs, infos),
	}, nil
}

// drawValidation adds everything to the plot, from the back to the front.
func (p *panel) drawValidation(runs []*rundir.Run) {
	lastSampled, lastGreedy := "", ""
	if last := evaluations(runs, rundir.SplitFinal); len(last) > 0 {
		e := last[len(last)-1]
		lastSampled, lastGreedy = e.OutOf("problem")+", sampled", textutil.Count(e.Problems(), "problem")+", greedy"
	}
	all := []struct {
		name, split, decoding string
		style                 style
	}{
		{analysis.SampledTemperature(runs), rundir.SplitVal, rundir.DecodingSampled, sampledStyle},
		{"greedy", rundir.SplitVal, rundir.DecodingGreedy, greedyStyle},
		{lastSampled, rundir.SplitFinal, rundir.DecodingSampled, lastSampledStyle},
		{lastGreedy, rundir.SplitFinal, rundir.DecodingGreedy, lastGreedyStyle},
		{"unseen facts, sampled", rundir.SplitUnseen, rundir.DecodingSampled, unseenSampledStyle},
		{"unseen facts, greedy", rundir.SplitUnseen, rundir.DecodingGreedy, unseenGreedyStyle},
	}
	curves, levels := make([]curve, len(all)), runLevels(runs)
	for i, c := range all {
		n, _ := strconv.Atoi(problems(runs, c.split)) // 0 where they differ
		curves[i] = newCurve(runs, runs, func(r *rundir.Run) analysis.Series {
			return analysis.EvalSeries(r, c.split, c.decoding)
		}, shareOf(n))
	}
	p.setY(shareAxis(levels, curves...))
	for i, c := range all {
		k := curves[i]
		name := c.name + k.lastValue(p.X.Max, len(runs))
		if c.split != rundir.SplitVal {
			p.addBeside(name, k, c.style)
			continue
		}
		if len(runs) == 1 {
			k.lo, k.hi = wilson(runs[0], c.decoding)
		}
		p.addCurve(name, k, c.style, eachEvaluation)
	}
	p.addLevels(levels...)
	p.addDiverged(runs, nil, validationOf, style{color: black})
}

// runLevels are the means over runs of the sampled reward before training and of
// the majority-answer baseline: that of validation and, where it was evaluated,
// that of the unseen facts.
func runLevels(runs []*rundir.Run) []level {
	majority := func(name, split string, s style) level {
		evals := evaluations(runs, split)
		var shares []float64
		for _, e := range evals {
			if e.MajorityAnswer != "" {
				shares = append(shares, e.MajorityBaseline)
			}
		}
		if answer := analysis.Common(evals, func(e rundir.Eval) string { return e.MajorityAnswer }); answer != "" {
			name += ` "` + shorten(legendText, answer, vg.Points(50)) + `"`
		}
		return level{name, stats.Mean(shares), s}
	}
	out := []level{{"base level, sampled", curveStart(runs), baseStyle}}
	if len(evaluations(runs, rundir.SplitUnseen)) == 0 {
		return append(out, majority("majority answer", rundir.SplitVal, majorityStyle))
	}
	return append(out, majority("validation: majority answer", rundir.SplitVal, majorityStyle),
		majority("unseen facts: majority answer", rundir.SplitUnseen, unseenMajorityStyle))
}

// curveStart is the mean over runs of the sampled reward before training on the problems of the curve; those of the
// last evaluation can be others (eval.final_size).
func curveStart(runs []*rundir.Run) float64 {
	var starts []float64
	for _, e := range evaluations(runs, rundir.SplitVal) {
		if e.Step == 0 {
			starts = append(starts, e.Sampled.AnswerReward)
		}
	}
	return stats.Mean(starts)
}

// wilson is the Wilson interval of each validation of a run.
func wilson(r *rundir.Run, decoding string) (lo, hi analysis.Series) {
	for _, e := range analysis.EvalsOf(r, rundir.SplitVal) {
		if c := analysis.DecodedCounts(&e, decoding); c != nil && c.N > 0 {
			l, h := analysis.ProblemInterval(&e, c)
			lo = append(lo, analysis.Point{X: float64(e.Step), Y: l})
			hi = append(hi, analysis.Point{X: float64(e.Step), Y: h})
		}
	}
	return lo, hi
}

// addBeside draws another split: thin curves where it is evaluated during training, and
// markers alone where it is evaluated once or twice, because nothing is known of
// the steps between.
func (p *panel) addBeside(name string, k curve, s style) {
	k.lo, k.hi = nil, nil
	if slices.ContainsFunc(k.seeds, func(one analysis.Series) bool { return len(one) > 2 }) {
		p.addCurve(name, k, s, curveOptions{width: thin, seedOpacity: 0.55, markers: allMarkers})
		return
	}
	for _, one := range k.seeds {
		p.addMarkers(one, s.glyph(markerRadius))
		p.addEntry(legendEntry{name: name, glyph: s.glyph(markerRadius)})
	}
}

func validationCaption(runs []*rundir.Run, infos []analysis.RunInfo) []string {
	size := heldOut(onCurve(runs))
	if n := problems(runs, rundir.SplitUnseen); n != "" {
		size += " (unseen facts: " + n + ")"
	}
	if n := problems(runs, rundir.SplitFinal); n != "" {
		size += " (hollow markers: " + n + ")"
	}
	point := " Each point: share of " + size + " answered right"
	interval := " with its 95% interval (Student's t)"
	if len(runs) < leastSeeds {
		interval = fmt.Sprintf("; no interval is drawn below %d runs", leastSeeds)
	}
	mean := fmt.Sprintf("Mean over n = %d runs%s; thin lines: each run.", len(runs), interval)
	out := []string{mean + point + "; in brackets: last value."}
	if len(runs) == 1 {
		name := "Wilson"
		if evals := analysis.EvalsOf(runs[0], rundir.SplitVal); len(evals) > 0 && analysis.HasPassInterval(&evals[0]) {
			name = "pass@1"
		}
		out = []string{infos[0].OneRun() + point + ", with its 95% " + name +
			" interval over the problems, not over seeds; in brackets: last value."}
	}
	if s := analysis.SampledAt(runs); strings.Contains(s, ", ") { // the legend has the temperature
		out = append(out, sentence(s))
	}
	return append(out, unfinished(runs, infos)...)
}

// unfinished states which runs did not simply end: for one run why, for several how
// many of each kind.
func unfinished(runs []*rundir.Run, infos []analysis.RunInfo) []string {
	if len(runs) == 1 {
		o := analysis.Outcome(runs[0], infos[0])
		if o == rundir.StateDone {
			return nil
		}
		short := shorten(captionText, sentence(o), vg.Points(180))
		if at, _, ok := strings.Cut(o, ": "); ok && short != sentence(o) && runs[0].Result != nil {
			short = sentence(at) // of a diverged run the step alone, not half of the reason
		}
		return []string{short}
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
	return tally(len(runs), []string{"diverged", "not finished"}, diverged, left)
}

// validationVsTokens is the validation answer reward against the tokens that were
// trained on.
func validationVsTokens(v *view) *figure {
	return v.validationVsCost("tokens", "completion tokens trained on (thousands)", tokensOf, 0,
		"Tokens of completions that dynamic sampling discarded are not counted. "+
			"A mean is at the mean of the runs' tokens at that step.")
}

// validationVsTime is about long runs only: the seconds of short ones are those of starting and of
// whatever else the machine did.
func validationVsTime(v *view) *figure {
	const shortest = 1 // minutes
	return v.validationVsCost("time", "minutes since the start, evaluations included", minutesOf, shortest,
		"Times depend on the machine, and on the runs that it trained at the same time. "+
			"A mean is at the mean of the runs' times at that step.")
}

// validationVsCost is the validation reward against a cost, nil unless a run costs more than least.
func (v *view) validationVsCost(what, label string, cost quantity, least float64, note string) *figure {
	most := 0.0
	for _, r := range v.runs {
		if s := cost(r); len(s) > 0 {
			most = max(most, s[len(s)-1].Y)
		}
	}
	if most <= least {
		return nil
	}
	fig := v.validationChart(chart{title: "Validation answer reward against " + what, xLabel: label, xMax: most, x: cost})
	if fig != nil {
		fig.notes = []string{note}
	}
	return fig
}

// minutesOf is the time of a run up to each step, in minutes.
func minutesOf(r *rundir.Run) analysis.Series {
	s := analysis.Series{{X: 0, Y: 0}}
	for _, m := range r.Metrics {
		s.Add(m.Step, m.Time.ElapsedS/60)
	}
	return s
}

// tokensOf is the number of completion tokens trained on up to each step, in
// thousands: a cost that is the same on every machine. It has no points where
// the configuration does not say the size of a batch.
func tokensOf(r *rundir.Run) analysis.Series {
	info, _ := analysis.ReadInfo(r)
	if info.Rollout.Size <= 0 {
		return nil
	}
	s := analysis.Series{{X: 0, Y: 0}}
	total := 0.0
	for _, m := range r.Metrics {
		total += float64(info.Rollout.Size) * m.Length / 1000
		s.Add(m.Step, total)
	}
	return s
}
