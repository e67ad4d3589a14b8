package plots

import (
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

// TestFinalVsDifficulty: a sweep over difficulties, given in any order, shows how many seeds converged at each.
func TestFinalVsDifficulty(t *testing.T) {
	sw := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "difficulty-3", Point: []string{"3"}, Run: reporttest.Around(.6, .01, 1)},
		reporttest.FakeArm{Name: "difficulty-2", Point: []string{"2"}, Run: reporttest.Around(.96, .01, 2)})
	sw.Manifest.Axes = []sweepdir.Axis{{Key: analysis.DifficultyKey, Short: "difficulty", Values: []string{"3", "2"}}}
	a, err := analysis.Analyse(sw)
	expect.OK(t, err)
	v := newView(a)
	i := slices.IndexFunc(v.figures(), func(f sweepFigure) bool { return f.file == "final_vs_difficulty.png" })
	fig := v.draw(v.figures()[i])
	ticks := fig.rows[0][0].X.Tick.Marker.(plot.ConstantTicks)
	if ticks[0].Label != "2\n4 of 4" || ticks[1].Label != "3\n0 of 4" || len(ticks) != 2 {
		t.Errorf("the ticks are %v", ticks)
	}
	if text := strings.Join(fig.caption, " "); !strings.Contains(text, "most seeds converge: 2.") {
		t.Errorf("the caption is %s", text)
	}
}
