package plots

import (
	"math"

	"gonum.org/v1/plot/vg"

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
		one := arm{ArmResult: row, style: armStyles[i%overlayMax], label: label}
		for _, s := range row.Runs {
			if s.Run != nil && (len(s.Run.Evals) > 0 || len(s.Run.Metrics) > 0) {
				one.runs = append(one.runs, s.Run)
			}
		}
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

// ownBase is the base level of an arm where the arms differ in it, else NaN.
func (v *view) ownBase(a *analysis.ArmResult) float64 {
	if stats.IsFinite(v.Base) {
		return math.NaN()
	}
	return a.Of(analysis.InitialMetric).Mean
}
