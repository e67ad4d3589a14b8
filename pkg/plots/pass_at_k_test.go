package plots

import (
	"math"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// sampledOften gives the validations of a run pass@k, which crosses between 4 and 16, and maj@k.
func sampledOften(r *rundir.Run) *rundir.Run {
	at := func(means ...float64) (out []rundir.AtK) {
		for i, m := range means {
			out = append(out, rundir.AtK{K: []int{1, 4, 16}[i], Mean: m, Lo: m - 0.05, Hi: m + 0.05})
		}
		return out
	}
	set := func(e *rundir.Eval) {
		if e.PassAt, e.MajorityAt = at(0.5, 0.6, 0.7), at(0.5, 0.55, 0.6); e.Step == 0 {
			e.PassAt, e.MajorityAt = at(0.2, 0.5, 0.9), at(0.2, 0.3, 0.4)
		}
	}
	for i := range r.Evals {
		set(&r.Evals[i])
	}
	if r.Result != nil {
		set(&r.Result.Initial)
		set(&r.Result.Final)
	}
	return r
}

func TestPassAtKOfRuns(t *testing.T) {
	run := func(seed uint64) *rundir.Run { return sampledOften(reporttest.SynthRun(t, seed, 200)) }
	for name, runs := range map[string][]*rundir.Run{
		"One run, seed 1. Bands: 95% intervals over the problems.":   {run(1)},
		"One run, seed 2. Bands: 95% intervals over the problems.":   {reporttest.SynthRun(t, 1, 200), run(2)},
		"Mean over n = 2 seeds; no interval is drawn below 3 seeds.": {run(1), run(2)},
		"Mean over n = 3 seeds with its 95% interval (Student's t).": {run(1), run(2), run(3)},
	} {
		fig, err := runsPassAtK(runs)
		expect.OK(t, err)
		if fig.caption[0] != name {
			t.Errorf("%q, want %q", fig.caption[0], name)
		}
		if n := captionLines(fig); n > 2 {
			t.Errorf("%s: %d lines: %q", name, n, fig.caption)
		}
		// Differences of +0.1 at 4 and -0.2 at 16: equal after a third of the way, on the logarithmic axis.
		if got := names(fig); got != "pass@k, before; maj@k, before; pass@k, after; maj@k, after; equal pass@k" ||
			fig.rows[0][0].title != "equal pass@k at k = 6.3" {
			t.Errorf("%s: %q, %q", name, got, fig.rows[0][0].title)
		}
		drawn, err := Runs(runs, "", nil)
		if err != nil || len(drawn) != 3 || drawn[2].File != rundir.PassAtKPlot {
			t.Errorf("%s: %d figures, %v", name, len(drawn), err)
		}
	}
}

func TestPassAtKOfSweeps(t *testing.T) {
	for _, n := range []int{1, 2, 9} {
		sw := reporttest.DrawnSweep(3, nil, reporttest.ManyArms(n)...)
		for i := range sw.Runs {
			sampledOften(sw.Runs[i].Run)
		}
		if n == 9 { // one arm has pass@k in one run, and another in two
			for i, s := range sw.Runs {
				if s.Arm == 0 && s.Seed > 1 || s.Arm == 1 && s.Seed > 2 {
					sw.Runs[i].Run = reporttest.ManyArms(n)[s.Arm].Run(s.Seed, false)
				}
			}
		}
		v := newView(mustAnalyse(t, sw))
		for _, v := range []*view{v, v.forPhone()} {
			fig := v.draw(sweepFigure{rundir.PassAtKPlot, false, passAtK})
			if c := captionLines(fig); !v.phone && (c == 0 || c > 2) {
				t.Errorf("%d arms: %d lines: %q", n, c, fig.caption)
			}
			want := "Mean over n = 3 seeds with its 95% interval (Student's t)."
			if n == 9 {
				want = "Mean over n = 1 to 3 seeds with its 95% interval (Student's t), drawn from 3 seeds on; of one run, the interval " +
					"over the problems."
			}
			if fig.caption[0] != want {
				t.Errorf("%d arms: %q, want %q", n, fig.caption[0], want)
			}
			panels := 0
			for _, row := range fig.rows {
				panels += len(row)
			}
			if panels != n {
				t.Errorf("%d arms: %d panels", n, panels)
			}
			if _, err := fig.encode("svg"); err != nil {
				t.Errorf("%d arms: %v", n, err)
			}
		}
	}
	if passAtK(newView(mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))) != nil {
		t.Error("a sweep with one sample of a problem has the figure")
	}
}

func TestCrossings(t *testing.T) {
	line := func(y ...float64) (out analysis.Series) {
		for i, v := range y {
			out = append(out, analysis.Point{X: float64(i), Y: v})
		}
		return out
	}
	for _, tt := range []struct {
		a, b analysis.Series
		want []float64
	}{
		{line(0, 1, 2), line(1, 2, 3), nil},
		{line(0, 1), line(1, 0), []float64{0.5}},
		{line(0, 1, 3), line(1, 1, 2), []float64{1}}, // equal at a point
		{line(1, 1, 1), line(1, 1, 1), nil},
		{line(0, 2, 0), line(1, 1, 1), []float64{0.5, 1.5}},
		{nil, line(1), nil},
	} {
		got := crossings(tt.a, tt.b)
		if len(got) != len(tt.want) {
			t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
			continue
		}
		for i, p := range got {
			if math.Abs(p.X-tt.want[i]) > 1e-12 || math.IsNaN(p.Y) {
				t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
			}
		}
	}
	if ticks := kTicks([]int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000}); ticks[1].Label != "" || !strings.HasPrefix(ticks[10].Label, "1000") {
		t.Errorf("%v", ticks)
	}
}
