package plots

import (
	"fmt"

	"gonum.org/v1/plot"

	"grpo/pkg/analysis"
)

// finalVsDifficulty draws the last validation against the difficulty of a task, with the number of seeds that converged
// below each.
func finalVsDifficulty(v *view) *figure {
	fig := v.finalVsAxis(0, -1)
	if fig == nil {
		return nil
	}
	p := fig.rows[0][0]
	p.addLevels(level{"converged, from here up", analysis.ConvergedReward, referenceStyle})
	ticks := p.X.Tick.Marker.(plot.ConstantTicks)
	for i, r := range v.Ladder() { // ticks have the same order
		ticks[i].Label = fmt.Sprintf("%d\n%d of %d", r.Difficulty, r.Converged, r.Of)
	}
	p.X.Label.Text += ", with the seeds that converged"
	text := "At none do most seeds converge."
	for _, f := range v.FindingsOf(analysis.LadderTop) {
		if len(f.Values) > 0 {
			text = "Highest at which most seeds converge: " + f.Values[0] + "."
		}
	}
	fig.caption = append(fig.caption, text)
	return fig
}
