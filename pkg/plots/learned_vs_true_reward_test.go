package plots

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// learn gives a run a reward model, whose reward falls below 0 and rises.
func learn(r *rundir.Run) *rundir.Run {
	r.Config = append(r.Config, "\nreward:\n  custom:\n    - name: judge\n      model: models/judge\n"...)
	for i := range r.Metrics {
		r.Metrics[i].Rewards = map[string]rundir.Stat{"judge": {Mean: -0.5 + 3*float64(i)/200}}
	}
	return r
}

func TestLearnedFigureOfRuns(t *testing.T) {
	plain := reporttest.SynthRun(t, 3, 40)
	if drawn, err := Runs([]*rundir.Run{plain}, "", nil); err != nil || len(drawn) != 2 {
		t.Errorf("%d figures of a run without a reward model, %v", len(drawn), err)
	}
	for name, runs := range map[string][]*rundir.Run{
		"one":     {learn(reporttest.SynthRun(t, 1, 200))},
		"several": {learn(reporttest.SynthRun(t, 1, 200)), learn(reporttest.SynthRun(t, 2, 70))},
	} {
		fig, err := runsLearned(runs)
		expect.OK(t, err)
		if n := captionLines(fig); n > 2 {
			t.Errorf("%s: %d lines: %q", name, n, fig.caption)
		}
		left := fig.rows[0][0]
		if got := names(fig); got != "training batch; training batch; validation, sampled" || !(left.Y.Min < -0.5 && left.Y.Max > 2.4) {
			t.Errorf("%s: %q, axis from %v to %v", name, got, left.Y.Min, left.Y.Max)
		}
		drawn, err := Runs(runs, "", nil)
		if err != nil || len(drawn) != 3 || drawn[2].File != rundir.LearnedPlot {
			t.Errorf("%s: %d figures, %v", name, len(drawn), err)
		}
	}
	// A step whose completions have no reward is a gap.
	gap := learn(reporttest.SynthRun(t, 1, 10))
	gap.Metrics[3].Rewards["judge"] = rundir.Stat{Mean: math.NaN()}
	if got := learnedReward(gap); len(got) != 9 {
		t.Errorf("%d points of 9 steps", len(got))
	}
}

// A run on other functions than the answer reward has panels of them, with their own range.
func TestRewardPanels(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards map[string]rundir.Stat
		panels  int
		curves  string
	}{
		{"none", nil, 4, ""},
		{"the answer reward alone", map[string]rundir.Stat{"answer": {Mean: 0.5}}, 4, ""},
		{"two", map[string]rundir.Stat{"answer": {Mean: 0.5}, "brevity": {Mean: -2}}, 6, "; answer; brevity"},
		{"one, not scored in any step", map[string]rundir.Stat{"brevity": {Mean: math.NaN()}}, 6, ""},
	} {
		r := reporttest.SynthRun(t, 1, 20)
		for i := range r.Metrics {
			r.Metrics[i].Rewards = c.rewards
			r.Metrics[i].Reward = rundir.Stat{Mean: float64(i) - 3}
		}
		fig, err := runsTraining([]*rundir.Run{r})
		expect.OK(t, err)
		if got := len(slices.Concat(fig.rows...)); got != c.panels {
			t.Errorf("%s: %d panels, want %d", c.name, got, c.panels)
		}
		if c.panels == 4 {
			continue
		}
		left, right := fig.rows[2][0], fig.rows[2][1]
		if !(left.Y.Min < -3 && left.Y.Max > 16) || c.curves != "" && !(right.Y.Min < -2 && right.Y.Max >= 0.5) {
			t.Errorf("%s: axes from %v to %v and from %v to %v", c.name, left.Y.Min, left.Y.Max, right.Y.Min, right.Y.Max)
		}
		if got := names(fig); !strings.HasSuffix(got, c.curves) {
			t.Errorf("%s: %q, want the end %q", c.name, got, c.curves)
		}
	}
}

func TestLearnedFigureOfSweeps(t *testing.T) {
	for _, n := range []int{2, 9} { // in one plot, and in a panel each
		sw := reporttest.DrawnSweep(2, nil, reporttest.ManyArms(n)...)
		for i := range sw.Runs {
			if sw.Runs[i].Arm > 0 { // the first arm trains with the true reward
				learn(sw.Runs[i].Run)
			}
		}
		a := mustAnalyse(t, sw)
		fig := built(t, a, rundir.LearnedPlot)
		if c := captionLines(fig); c == 0 || c > 2 {
			t.Errorf("%d arms: %d lines: %q", n, c, fig.caption)
		}
		if phone := learnedVsTrue(newView(a).forPhone()); n == 2 && (len(phone.rows) != 2 || phone.width != phoneWidth) {
			t.Errorf("on a phone %d rows, %v wide", len(phone.rows), phone.width)
		}
		if n == 2 && (len(fig.rows[0]) != 2 || len(fig.rows[0][0].legend) != 1 || len(fig.rows[0][1].legend) < 2) {
			t.Errorf("legends %q", names(fig))
		}
		if !strings.Contains(strings.Join(fig.notes, " "), "over-optimization") {
			t.Errorf("notes %q", fig.notes)
		}
	}
	v := newView(mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))
	if learnedVsTrue(v) != nil {
		t.Error("a sweep without reward models has the figure")
	}
}
