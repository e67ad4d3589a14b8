package plots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// view is an analysis prepared for drawing.
type view struct {
	*analysis.Analysis
	arms  []arm // those of which something has run
	runs  []*rundir.Run
	infos []analysis.RunInfo // of runs
	xMax  float64            // the last step of any run
	phone bool               // figures are drawn for narrow screens
}

// arm is an arm of a sweep with its style.
type arm struct {
	*analysis.ArmResult
	label string
	style style
	runs  []*rundir.Run // those with a folder, in the order of the seeds
}

// labelWidth is the room of an arm's name in a legend: most of a row of the
// narrower kind of figure.
const labelWidth = vg.Length(360)

// forPhone is the view for figures on narrow screens.
func (v *view) forPhone() *view {
	p := *v
	p.phone = true
	return &p
}

// legendName is a name with a value in a legend. On a phone a long name loses its middle.
func (v *view) legendName(name, value string) string {
	if v.phone {
		room := vg.Length(phoneWidth)*vg.Inch - vg.Points(2*margin+sampleWidth+sampleGap)
		name = shortenMiddle(legendText, name, room-legendText.Width(value))
	}
	return name + value
}

// sideBySide is the number of columns of a figure with two panels.
func (v *view) sideBySide() int {
	if v.phone {
		return 1
	}
	return 2
}

// width is the width of a figure, in inches, that would have the given one on a page.
func (v *view) width(inches float64) float64 {
	if v.phone {
		return phoneWidth
	}
	return inches
}

func newView(a *analysis.Analysis) *view {
	v := &view{Analysis: a}
	for i := range a.Arms {
		row := &a.Arms[i]
		label := shorten(legendText, row.Name(), labelWidth)
		begun := slices.DeleteFunc(analysis.RunsOf(row.Runs), func(r *rundir.Run) bool {
			return len(r.Evals)+len(r.Metrics) == 0
		})
		one := arm{ArmResult: row, style: armStyles[i%overlayMax], label: label, runs: begun}
		if len(one.runs) > 0 {
			v.arms = append(v.arms, one)
			v.runs = append(v.runs, one.runs...)
		}
	}
	for _, r := range v.runs {
		// Tables report a configuration that can't be read.
		if info, err := analysis.ReadInfo(r); err == nil {
			v.infos = append(v.infos, info)
		}
	}
	v.xMax = lastStep(v.runs)
	return v
}

func (v *view) manifest() *sweepdir.Manifest { return &v.Sweep.Manifest }

// panels reports whether the arms get a panel each.
func (v *view) panels() bool { return len(v.arms) > overlayMax }

// columns is the number of panels side by side. The panels of a grid of two keys
// are arranged as the grid, where that fits.
func (v *view) columns() int {
	if v.phone {
		return min(1+len(v.arms)/5, 2)
	}
	if axes := v.manifest().Axes; len(axes) == 2 && len(v.arms) == len(v.Arms) {
		if n := len(axes[1].Values); n >= 2 && n <= 4 && len(v.arms)%n == 0 {
			return n
		}
	}
	switch n := len(v.arms); {
	case n <= 3:
		return n
	case n == 4:
		return 2
	case n <= 6 || n == 9:
		return 3
	}
	return 4
}

// levels are the base level and the majority-answer baseline, NaN where the arms
// differ in them.
func (v *view) levels() []level {
	return []level{{"base level", v.Base, baseStyle}, {"majority answer", v.Majority, majorityStyle}}
}

// curveLevels are the levels of figures with the curve.
func (v *view) curveLevels() []level {
	levels := v.levels()
	levels[0].at = onCurveBase(levels[0].at, v.runs)
	return levels
}

// onCurveBase is the base level of runs on the problems of the curve, where it is another than that of the last
// evaluation's problems.
func onCurveBase(base float64, runs []*rundir.Run) float64 {
	if stats.IsFinite(base) && len(evaluations(runs, rundir.SplitFinal)) > 0 {
		return curveStart(runs)
	}
	return base
}

// ownBase is the base level of an arm where the arms differ in it, else NaN.
func (v *view) ownBase(a *analysis.ArmResult) float64 {
	if stats.IsFinite(v.Base) {
		return math.NaN()
	}
	return a.Of(analysis.InitialMetric).Mean
}

// Sentences of captions, which have at most two lines, and of the notes that the
// page has below a figure of a sweep.

const oneSeed = "One seed an arm: no interval."

// setting is the line below a title: the title of the sweep and what all runs have
// in common.
func (v *view) setting() string {
	parts := []string{oneLine(v.manifest().Title), analysis.SettingLine(v.infos)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ·  ")
}

// rewardLabel is the axis label of the validation reward on n problems; n is empty if they differ.
func rewardLabel(n string) string {
	if n != "" {
		return fmt.Sprintf("validation answer reward (fraction correct of %s)", n)
	}
	return "validation answer reward (fraction correct)"
}

// problems is the number of problems in the evaluations of a split, empty when they
// differ.
func problems(runs []*rundir.Run, split string) string {
	return analysis.Common(evaluations(runs, split), func(e rundir.Eval) string {
		return fmt.Sprint(e.Problems())
	})
}

// onCurve is the number of problems of the validations during training, and atEnd that of the last ones.
func onCurve(runs []*rundir.Run) string { return problems(runs, rundir.SplitVal) }

func atEnd(runs []*rundir.Run) string {
	var last []rundir.Eval
	for _, r := range runs {
		if e := analysis.AnyValidation(r); e != nil {
			last = append(last, *e)
		}
	}
	return analysis.Common(last, func(e rundir.Eval) string { return fmt.Sprint(e.Problems()) })
}

func evaluations(runs []*rundir.Run, split string) []rundir.Eval {
	var out []rundir.Eval
	for _, r := range runs {
		out = append(out, analysis.EvalsOf(r, split)...)
	}
	return out
}

// heldOut is "1024 held-out problems".
func heldOut(n string) string { return strings.TrimSpace(n + " held-out problems") }

func (v *view) severalSeeds() bool { return len(v.manifest().Seeds) > 1 }

// meanOver is "Mean over n = 4 seeds", or "n = 2 to 4" if the counts differ.
func meanOver(counts []int) string { return "Mean over n = " + textutil.Span(counts) + " seeds" }

// meanAndInterval is [meanOver] with the interval, if it is drawn or written next to the data.
func (v *view) meanAndInterval(counts []int, written bool) string {
	return meanWith(withInterval, counts, written)
}

const withInterval = " with its 95% interval (Student's t)"

// meanWith is [view.meanAndInterval] with the words for the interval.
func meanWith(interval string, counts []int, written bool) string {
	switch {
	case slices.Min(counts) >= leastSeeds:
	case slices.Max(counts) >= leastSeeds || written:
		interval += fmt.Sprintf(", drawn from %d seeds on", leastSeeds)
	default:
		interval = fmt.Sprintf("; no interval is drawn below %d seeds", leastSeeds)
	}
	return meanOver(counts) + interval
}

// seedCounts is the number of seeds of each arm that a mean is taken of: those of the runs with a
// result. If no run of an arm has one, a curve (not final) is the mean of all its runs.
func (v *view) seedCounts(final bool) []int {
	var counts []int
	for _, a := range v.arms {
		n := a.Of(analysis.FinalMetric).N
		if n == 0 && !final {
			n = len(a.runs)
		}
		if n > 0 {
			counts = append(counts, n)
		}
	}
	if len(counts) == 0 {
		counts = []int{len(v.manifest().Seeds)}
	}
	return counts
}

// meanCaption describes what the thick and the thin lines are.
func (v *view) meanCaption(band bool) string {
	switch {
	case !v.severalSeeds():
		return oneSeed
	case band:
		return v.meanAndInterval(v.seedCounts(false), false) + "; thin lines: each seed."
	}
	return meanOver(v.seedCounts(false)) + "; thin lines: each seed."
}

func runsOf(n, of int) string { return fmt.Sprintf("%d of %d runs", n, of) }

// tally is the number of runs in each of several states: "Not finished: 3 of 20 runs;
// failed: 1 of 20 runs." States without a run are left out.
func tally(total int, states []string, counts ...int) []string {
	var parts []string
	for i, n := range counts {
		if n > 0 {
			parts = append(parts, states[i]+": "+runsOf(n, total))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{sentence(strings.Join(parts, "; "))}
}

// missing states how many runs have no result.
func (v *view) missing() []string {
	left, failed, total := 0, 0, 0
	for _, a := range v.Arms {
		left, failed, total = left+a.Left, failed+a.Failed, total+a.Trained()
	}
	return tally(total, []string{"not finished", "failed"}, left, failed)
}

// armNotes name the arms that diverged, that are not finished and that failed.
func (v *view) armNotes() []string {
	var diverged, left, failed []string
	for i := range v.Arms {
		a := &v.Arms[i]
		add := func(to *[]string, n int, where string) {
			if n > 0 {
				name := shorten(captionText, a.Name(), vg.Points(150))
				*to = append(*to, fmt.Sprintf("%s (%s%s)", name, runsOf(n, a.Trained()), where))
			}
		}
		steps := analysis.StepRange(a.DivergedSteps())
		if steps != "" {
			steps = ", " + steps
		}
		add(&diverged, a.Diverged, steps)
		add(&left, a.Left, "")
		add(&failed, a.Failed, "")
	}
	var out []string
	if len(diverged) > 0 {
		out = append(out, "Diverged: "+firstSix(diverged)+".")
	}
	if len(left) > 0 {
		out = append(out, "Not finished: "+firstSix(left)+". Means are over the runs that have ended "+
			"(all of an arm while none has), up to the last step that all of these have.")
	}
	if len(failed) > 0 {
		out = append(out, "Failed: "+firstSix(failed)+".")
	}
	return out
}

// firstSix joins at most 6 parts.
func firstSix(parts []string) string {
	const most = 6
	if len(parts) > most {
		return strings.Join(parts[:most], ", ") + fmt.Sprintf(" and %d more", len(parts)-most)
	}
	return strings.Join(parts, ", ")
}
