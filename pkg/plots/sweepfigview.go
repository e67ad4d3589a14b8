package plots

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"

	"gonum.org/v1/plot/vg"
)

// IsMain says whether a figure of the sweep is about what it asks.
func (v *sweepView) IsMain(file string) bool {
	return slices.ContainsFunc(v.figures(), func(f sweepFigure) bool { return f.file == file && f.main })
}

// MainFiles are the names of the main figures that the sweep has data for.
func (v *sweepView) MainFiles() []string {
	var out []string
	for _, f := range v.figures() {
		if !f.main {
			continue
		}
		if _, ok := f.build(v); ok {
			out = append(out, f.file)
		}
	}
	return out
}

// sweepView is an analysis prepared for drawing.
type sweepView struct {
	*analysis.Analysis
	arms []armView // those of which something has run
	runs []*rundir.Run
	all  []analysis.RunInfo // of runs
	xMax float64            // the last step of any run
}

// labelWidth is the room of an arm's name in a legend, in points: most of a row
// of the narrower kind of figure.
const labelWidth = 360

func NewSweepView(a *analysis.Analysis) *sweepView {
	v := &sweepView{Analysis: a, xMax: 1}
	for i := range a.Arms {
		row := &a.Arms[i]
		arm := armView{ArmResult: row, look: armLooks[i%overlayMax], label: shorten(legendText, row.Name(), vg.Points(labelWidth))}
		for _, s := range row.Runs {
			if s.Run != nil && (len(s.Run.Evals) > 0 || len(s.Run.Metrics) > 0) {
				arm.runs = append(arm.runs, s.Run)
			}
		}
		if len(arm.runs) > 0 {
			v.arms = append(v.arms, arm)
			v.runs = append(v.runs, arm.runs...)
		}
	}
	for _, r := range v.runs {
		// What can't be read here is told by the tables; a figure only needs the
		// words that all runs share.
		if about, err := analysis.ReadInfo(r); err == nil {
			v.all = append(v.all, about)
		}
	}
	if len(v.runs) > 0 {
		v.xMax = lastX(v.runs)
	}
	return v
}

// panels says whether the arms get a panel each.
func (v *sweepView) panels() bool { return len(v.arms) > overlayMax }

// columns is the number of panels side by side. The arms of a grid of two keys
// stand as the grid does, where that fits.
func (v *sweepView) columns() int {
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

func (v *sweepView) manifest() sweepdir.Manifest {
	if v.Sweep == nil {
		return sweepdir.Manifest{}
	}
	return v.Sweep.Manifest
}

// setting is the line below a title: what is compared, and what all runs have
// in common.
func (v *sweepView) setting() string {
	m := v.manifest()
	parts := []string{oneLine(m.Title)}
	if s := analysis.SettingLine(v.all); s != "" {
		parts = append(parts, s)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ·  ")
}

// rewardLabel is the y label of every figure of the validation reward.
func (v *sweepView) rewardLabel() string {
	if n := v.problems(); n != "" {
		return fmt.Sprintf("validation answer reward (fraction correct of %s)", n)
	}
	return "validation answer reward (fraction correct)"
}

func (v *sweepView) problems() string { return problems(validations(v.runs)) }

// Sentences of captions, which have at most two lines, and of the notes that the
// page has below a figure.

// seedList is "Seeds 1, 2, 3, 4."
func (v *sweepView) seedList() string {
	seeds := v.manifest().Seeds
	list := make([]string, len(seeds))
	for i, s := range seeds {
		list[i] = fmt.Sprint(s)
	}
	if len(list) == 1 {
		return "Seed " + list[0] + "."
	}
	return "Seeds " + strings.Join(list, ", ") + "."
}

func (v *sweepView) severalSeeds() bool { return len(v.manifest().Seeds) > 1 }

// meanNote says what the thick and the thin lines are.
func (v *sweepView) meanNote(band bool) []string {
	n := len(v.manifest().Seeds)
	switch {
	case !v.severalSeeds():
		return []string{"One seed an arm: no interval."}
	case band:
		return []string{fmt.Sprintf("Mean over n = %d seeds with its 95%% interval (Student's t); thin lines: each seed.", n)}
	}
	return []string{fmt.Sprintf("Mean over n = %d seeds; thin lines: each seed.", n)}
}

// missingCount is "Not finished: 3 of 20 runs; failed: 1."
func (v *sweepView) missingCount() string {
	left, failed, total := 0, 0, 0
	for _, a := range v.Arms {
		left, failed, total = left+a.Left, failed+a.Failed, total+len(a.Runs)
	}
	var parts []string
	if left > 0 {
		parts = append(parts, "not finished: "+runsOf(left, total))
	}
	if failed > 0 {
		parts = append(parts, "failed: "+runsOf(failed, total))
	}
	if len(parts) == 0 {
		return ""
	}
	s := strings.Join(parts, "; ") + "."
	return strings.ToUpper(s[:1]) + s[1:]
}

// missing says which runs a figure lacks, or has only in part.
func (v *sweepView) missing() []string {
	var late, failed []string
	for _, a := range v.Arms {
		if a.Left > 0 {
			late = append(late, fmt.Sprintf("%s (%s)", short(a.Name()), runsOf(a.Left, len(a.Runs))))
		}
		if a.Failed > 0 {
			failed = append(failed, fmt.Sprintf("%s (%s)", short(a.Name()), runsOf(a.Failed, len(a.Runs))))
		}
	}
	var out []string
	if len(late) > 0 {
		out = append(out, "Not finished: "+list(late)+". Means are over the runs that have ended (all of an arm while none has), as far as all of these go.")
	}
	if len(failed) > 0 {
		out = append(out, "Failed: "+list(failed)+".")
	}
	return out
}

func runsOf(n, of int) string { return fmt.Sprintf("%d of %d runs", n, of) }

// list joins at most 6 parts.
func list(parts []string) string {
	const most = 6
	if len(parts) > most {
		return strings.Join(parts[:most], ", ") + fmt.Sprintf(" and %d more", len(parts)-most)
	}
	return strings.Join(parts, ", ")
}

// short is an arm's name within a sentence.
func short(name string) string { return shorten(captionText, name, vg.Points(150)) }

// divergedNote names the arms that diverged and where.
func (v *sweepView) divergedNote() []string {
	var parts []string
	for _, a := range v.arms {
		var steps []int
		for _, r := range a.runs {
			if step, ok := divergedAt(r); ok {
				steps = append(steps, step)
			}
		}
		if len(steps) == 0 {
			continue
		}
		lo, hi := slices.Min(steps), slices.Max(steps)
		at := fmt.Sprintf("step %d", lo)
		if hi > lo {
			at = fmt.Sprintf("steps %d to %d", lo, hi)
		}
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", short(a.label), runsOf(len(steps), len(a.runs)), at))
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"Diverged: " + list(parts) + "."}
}
