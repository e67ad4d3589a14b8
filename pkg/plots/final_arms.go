package plots

import (
	"fmt"

	"grpo/pkg/analysis"
)

// finalByArm draws the last validation reward of each arm.
func finalByArm(v *view) *figure {
	var rows []*analysis.ArmResult
	var names []string
	var styles []style
	for i := range v.Arms {
		a, s := &v.Arms[i], armStyles[i%overlayMax]
		if v.panels() { // repeated colors would mean something
			s = armStyles[0]
		}
		if a.Of(analysis.FinalMetric).N > 0 {
			rows, names, styles = append(rows, a), append(names, v.rowLabel(a.Name())), append(styles, s)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	p := newRowsPanel(rewardLabel(v.runs), names)
	p.addLevels(v.levels()...)
	var all []estimate
	for i, a := range rows {
		e := v.finalEstimate(a, float64(len(rows)-i), styles[i])
		side := sideText{e.place, a.Name(), []string{analysis.WithInterval(e.mean, e.lo, e.hi)}}
		if e.diverged {
			side.lines = append(side.lines, fmt.Sprintf("diverged: %d of %d", a.Diverged, len(a.Runs)))
		}
		p.side = append(p.side, side)
		all = append(all, e)
	}
	p.addEstimates(all, rowSpread)
	p.X.Min, p.X.Max = 0, 1
	return v.fitRows(&figure{
		title: "Final validation answer reward by arm", width: v.width(pageWidth),
		rows: [][]*panel{{p}}, caption: v.finalCaption(true),
	}, rowInches*0.85)
}
