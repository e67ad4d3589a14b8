package plots

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// built builds a figure of a sweep.
func built(t *testing.T, a *analysis.Analysis, file string) *figure {
	t.Helper()
	v := newView(a)
	for _, f := range v.figures() {
		if f.file != file {
			continue
		}
		fig := v.draw(f)
		if fig == nil {
			t.Fatalf("%s is not drawn", file)
		}
		return fig
	}
	t.Fatalf("there is no %s", file)
	return nil
}

func TestCaptionsSayWhatIsShown(t *testing.T) {
	axes := reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
	rates := mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...))
	arms := reporttest.RateArms()
	arms[1].Left, arms[4].Absent = 1, 4
	half := mustAnalyse(t, reporttest.DrawnSweep(4, axes, arms...))
	single := mustAnalyse(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(2)...))
	zeros := reporttest.RateArms()
	for i := range zeros {
		zeros[i].Norm = math.Pow(10, float64(-2*i))
	}
	wide := mustAnalyse(t, reporttest.DrawnSweep(2, axes, zeros...))
	arms = reporttest.RateArms()
	arms[1].Left = 2
	mixed := mustAnalyse(t, reporttest.DrawnSweep(4, axes, arms...))
	looks := reporttest.DrawnSweep(4, axes, reporttest.RateArms()...)
	looks.Manifest.Looks = []sweepdir.Look{{Seeds: 2, Level: .025}, {Seeds: 4, Level: .025}}
	looked := mustAnalyse(t, looks)
	tests := []struct {
		name  string
		a     *analysis.Analysis
		file  string
		has   []string
		hasNo []string
		notes []string
	}{
		{"statistic, level, n and what a point is", rates, "validation_reward.png",
			[]string{"Mean over n = 4 seeds with its 95% interval (Student's t)", "1024 held-out problems", "thin lines: each seed"},
			[]string{"finished", "bootstrap"},
			[]string{"Seeds 1, 2, 3, 4.", "Diverged: learning rate 1e-2 (4 of 4 runs, step 20)."}},
		{"intervals of the final reward", rates, "final_vs_lr.png", []string{"95% interval (Student's t)", "n = 4 seeds"}, []string{"finished"}, nil},
		{"a difference", rates, "paired_difference.png", []string{"n = 4 seeds", "95% interval (Student's t)", "adjustment", "5% level", "1% of 1024 held-out problems"}, nil, nil},
		{"planned looks", looked, "paired_difference.png", []string{"seeds with its interval (Student's t) at 100% less the level of its last planned look"}, []string{"95%"}, nil},
		{"half a sweep", half, "validation_reward.png", []string{"Mean over n = 3 to 4 seeds", "Not finished: 5 of 20 runs."}, []string{"Diverged"},
			[]string{"Not finished: learning rate 3e-4 (1 of 4 runs), learning rate 1e-2 (4 of 4 runs).", "Means are over the runs that have ended"}},
		{"half a sweep, by rate", half, "final_vs_lr.png", []string{"Mean over n = 3 to 4 seeds", "Not finished: 5 of 20 runs."}, nil, []string{"learning rate 3e-4 (1 of 4 runs)"}},
		{"half a sweep, entropy", half, "entropy.png", []string{"Not finished: 5 of 20 runs.", "mean over the rollout batches of 3 steps"}, nil, nil},
		{"one seed claims nothing", single, "validation_reward.png", []string{"One seed an arm: no interval."}, []string{"Mean", "95%"}, nil},
		{"one seed claims nothing, final", single, "final_by_arm.png", []string{"One seed an arm: no interval."}, []string{"Mean", "95%"}, nil},
		{"a wide range", wide, "grad_norm.png", []string{"Logarithmic axis."}, nil, nil},
		{"two seeds have no band", wide, "validation_reward.png", []string{"Mean over n = 2 seeds; no interval is drawn below 3 seeds; thin lines"}, []string{"95%"}, nil},
		{"nor one of a metric", wide, "entropy.png", []string{"Mean over n = 2 seeds; no interval is drawn below 3 seeds; thin lines"}, []string{"95%"}, nil},
		{"nor a bar", wide, "final_vs_lr.png", []string{"n = 2 seeds; no interval is drawn below 3 seeds"}, []string{"95%"}, nil},
		{"but numbers", wide, "paired_difference.png", []string{"n = 2 seeds with its 95% interval (Student's t), drawn from 3 seeds on"}, nil, nil},
		{"some arms have a band", mixed, "validation_reward.png", []string{"n = 2 to 4 seeds with its 95% interval (Student's t), drawn from 3 seeds on; thin lines"}, nil, nil},
		{"a narrow range", single, "grad_norm.png", nil, []string{"Logarithmic"}, nil},
		{"tokens", rates, "validation_reward_vs_tokens.png", []string{"95% interval (Student's t)"}, nil, []string{"dynamic sampling"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fig := built(t, tt.a, tt.file)
			got := strings.Join(fig.caption, " ")
			for _, s := range tt.has {
				if !strings.Contains(got, s) {
					t.Errorf("no %q in %q", s, got)
				}
			}
			for _, s := range tt.notes {
				if notes := strings.Join(fig.notes, " "); !strings.Contains(notes, s) {
					t.Errorf("no %q in the notes %q", s, notes)
				}
			}
			for _, s := range tt.hasNo {
				if strings.Contains(got, s) {
					t.Errorf("%q in %q", s, got)
				}
			}
		})
	}
}

// The mean is that of the runs that have ended, at the steps that all of these
// have; seeds are drawn as far as they go.
func TestCurveOfAnArm(t *testing.T) {
	whole := reporttest.DrawnArm{Name: "a", Final: 0.8}
	short := reporttest.DrawnArm{Name: "a", Final: 0.8, Diverged: 50, Stops: true}
	of := func(runs ...*rundir.Run) arm { return arm{runs: runs} }
	tests := []struct {
		name  string
		arm   arm
		seeds int
		last  float64 // step of the mean
		band  int
	}{
		{"all ended", of(whole.Run(1, false), whole.Run(2, false), whole.Run(3, false)), 3, 120, 13},
		{"two ended", of(whole.Run(1, false), whole.Run(2, false)), 2, 120, 0},
		{"one still runs", of(whole.Run(1, false), whole.Run(2, false), whole.Run(3, false), whole.Run(4, true)), 4, 120, 13},
		{"two have ended", of(whole.Run(1, false), whole.Run(2, false), whole.Run(3, true)), 3, 120, 0},
		{"none has ended", of(whole.Run(1, true), whole.Run(2, true), whole.Run(3, true)), 3, 30, 4},
		{"one stopped early", of(whole.Run(1, false), whole.Run(2, false), short.Run(3, false)), 3, 50, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.arm.curveOf(nil, validationOf, shareOf(1024))
			last := c.mean[len(c.mean)-1]
			if last.X != tt.last || len(c.seeds) != tt.seeds || len(c.lo) != tt.band || len(c.hi) != tt.band {
				t.Errorf("%d seeds, mean to %v, band of %d and %d points", len(c.seeds), last.X, len(c.lo), len(c.hi))
			}
			for i, m := range c.mean {
				if i < len(c.lo) && !(c.lo[i].Y <= m.Y && m.Y <= c.hi[i].Y) {
					t.Errorf("the mean %v is outside its band [%v, %v]", m.Y, c.lo[i].Y, c.hi[i].Y)
				}
			}
		})
	}
}

// The band around a mean is the interval that verdicts and tables have: at the
// last step it is that of the final reward.
func TestBandIsTheIntervalOfTheVerdict(t *testing.T) {
	for _, seeds := range []int{3, 4} {
		a := mustAnalyse(t, reporttest.DrawnSweep(seeds, nil, reporttest.DrawnArm{Name: "a", Final: 0.8}, reporttest.DrawnArm{Name: "b", Final: 0.99}))
		v := newView(a)
		c := chart{xMax: v.xMax, y: validationOf, band: shareOf(v.leastProblems())}
		for i, k := range c.curves(v) {
			last := len(k.lo) - 1
			if f := a.Arms[i].Of(analysis.FinalMetric); k.lo[last].Y != f.Lo || k.hi[last].Y != f.Hi {
				t.Errorf("%d seeds: the band ends with [%v, %v], the interval is [%v, %v]", seeds, k.lo[last].Y, k.hi[last].Y, f.Lo, f.Hi)
			}
		}
	}
}

// Whatever the order of the arms, no band lies over a line, and no seed over a mean.
func TestBandsAreBehindAllLines(t *testing.T) {
	a := mustAnalyse(t, reporttest.DrawnSweep(3, nil, reporttest.ManyArms(4)...))
	p := built(t, a, rundir.ValidationPlot).rows[0][0]
	if len(p.bands) != 4 || len(p.behind) != 12 {
		t.Errorf("%d bands and %d lines of seeds behind the means, want 4 and 12", len(p.bands), len(p.behind))
	}
}

// Two seeds have neither a band nor an error bar, in any figure, and the axis is that of the seeds.
func TestNoIntervalOfTwoSeeds(t *testing.T) {
	a := mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(3)...))
	for _, f := range newView(a).figures() {
		if fig := newView(a).draw(f); fig != nil {
			for _, p := range slices.Concat(fig.rows...) {
				if len(p.bands) > 0 {
					t.Errorf("%s has a band", f.file)
				}
			}
		}
	}
	widest := 0.0
	for _, c := range a.Comparisons {
		if c.Metric == analysis.FinalMetric.Name {
			widest = max(widest, 100*(c.Hi-c.Lo))
		}
	}
	paired := built(t, a, "paired_difference.png").rows[0][0]
	if width := paired.X.Max - paired.X.Min; width >= widest {
		t.Errorf("the axis of the differences is %v points wide, an interval %v", width, widest)
	}
}

// Shares and levels are on the axis, and not all in its lowest fifth unless they are below 0.04.
func TestShareAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 5).Draw(t, "y")
		base := rapid.Float64Range(0, 1).Draw(t, "level")
		k := curve{seeds: make([]analysis.Series, len(y))}
		for i, v := range y {
			k.seeds[i] = analysis.Series{{X: 1, Y: v}}
		}
		most := max(slices.Max(y), base)
		axis := shareAxis([]level{{at: base}, {at: math.NaN()}}, k)
		if axis.lo != 0 || most > axis.hi || axis.hi > 1 || most > 0.04 && most < axis.hi/5 || axis.hi < 1 && most > 0.96*axis.hi {
			t.Fatalf("%v on an axis from %v to %v", most, axis.lo, axis.hi)
		}
	})
}

// A band wider than the axis is cut off at its ends, so that no figure's scale is
// that of an interval of two seeds.
func TestBandStaysOnTheAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := yAxis{lo: 0, hi: rapid.Float64Range(0.1, 1e6).Draw(t, "hi"), log: rapid.Bool().Draw(t, "log")}
		if s.log {
			s.lo = s.hi / 1000
		}
		y := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 2, 8).Draw(t, "y")
		var k curve
		for i, v := range y {
			k.lo, k.hi = append(k.lo, analysis.Point{X: float64(i), Y: v}), append(k.hi, analysis.Point{X: float64(i), Y: v + 1})
		}
		before := slices.Clone(k.hi)
		got := curve{lo: s.place(k.lo), hi: s.place(k.hi)}
		lo, hi := s.lo, s.hi
		if s.log {
			lo, hi = math.Log10(s.lo), math.Log10(s.hi)
		}
		for i := range got.lo {
			if got.lo[i].Y < lo || got.hi[i].Y > hi || got.hi[i].Y < got.lo[i].Y {
				t.Fatalf("[%v, %v] on an axis from %v to %v", got.lo[i].Y, got.hi[i].Y, lo, hi)
			}
		}
		if !slices.Equal(k.hi, before) {
			t.Fatal("the curve itself was changed")
		}
	})
}

func TestCurveAgainstTokens(t *testing.T) {
	run := reporttest.DrawnArm{Name: "a", Final: 0.8, Length: 10}.Run(1, false)
	long := reporttest.DrawnArm{Name: "a", Final: 0.8, Length: 30}.Run(1, false)
	c := arm{runs: []*rundir.Run{run, long, run}}.curveOf(tokensOf, validationOf, shareOf(1024))
	// 256 completions a step of 10 or 30 tokens.
	mean := (2*25.6 + 76.8) / 3
	want := []float64{0, mean, mean, 25.6, 76.8}
	for i, got := range []float64{c.mean[0].X, c.mean[1].X, c.lo[1].X, c.seeds[0][1].X, c.seeds[1][1].X} {
		if math.Abs(got-want[i]) > 1e-9 {
			t.Errorf("thousand tokens %d: %v, want %v", i, got, want[i])
		}
	}
	if c.mean[1].Y != validationOf(run)[1].Y {
		t.Errorf("the reward at step 10 became %v", c.mean[1].Y)
	}
	run.Config = []byte("name: a\n")
	if s := tokensOf(run); len(s) > 0 {
		t.Errorf("without the size of a batch: %v", s)
	}
}

// Machine time is in one figure only, which runs of less than a minute do not have: the others of the
// same runs on a slower machine have the same bytes.
func TestFiguresDoNotDependOnTime(t *testing.T) {
	draw := func(slower float64) []Drawing {
		a := mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
		for _, s := range a.Sweep.Runs {
			for i := range s.Run.Metrics {
				s.Run.Metrics[i].Time.ElapsedS *= slower
			}
		}
		all, err := Sweep(a, SweepOptions{DPI: 36})
		expect.OK(t, err)
		return all
	}
	const vsTime = "validation_reward_vs_time.png"
	isVsTime := func(d Drawing) bool { return d.File == vsTime }
	fast := draw(1)
	for _, slower := range []float64{3, 30} {
		slow := draw(slower)
		if has := slices.ContainsFunc(slow, isVsTime); has != (slower == 30) {
			t.Errorf("%g times slower: %s drawn %v", slower, vsTime, has)
		}
		slow = slices.DeleteFunc(slow, isVsTime)
		for i := range fast {
			if !bytes.Equal(fast[i].PNG, slow[i].PNG) {
				t.Errorf("%s depends on the clock", fast[i].File)
			}
		}
	}
}

// A long run's metrics are averaged over the same few steps in every run.
func TestPerStepAverages(t *testing.T) {
	v := &view{xMax: 120}
	run := &rundir.Run{}
	for step := 1; step <= 119; step++ {
		run.Metrics = append(run.Metrics, rundir.Metrics{Step: step, Entropy: float64(step)})
	}
	run.Metrics[4].Entropy = math.NaN() // step 5 has no value
	got := v.averaged(entropy)(run)
	if want := (analysis.Series{{X: 2, Y: 2}, {X: 5, Y: 5}}); len(got) != 40 || !slices.Equal(got[:2], want) || got[39] != (analysis.Point{X: 119, Y: 118.5}) {
		t.Errorf("%d points: %v", len(got), got)
	}
	v.xMax = 50
	if got := v.averaged(entropy)(run); len(got) != 118 {
		t.Errorf("%d points of a short run", len(got))
	}
}

func TestDivergedMarks(t *testing.T) {
	at := reporttest.DrawnArm{Name: "a", Final: 0.8, Diverged: 35}.Run(1, false)
	stopped := reporttest.DrawnArm{Name: "a", Final: 0.8, Diverged: 47, Stops: true}.Run(2, false)
	unsaid := reporttest.DrawnArm{Name: "a", Final: 0.8, Diverged: 47}.Run(3, false)
	unsaid.Result.DivergedAt = nil
	first := reporttest.DrawnArm{Name: "a", Final: 0.8, Diverged: 1, Stops: true}.Run(4, false)
	fine := reporttest.DrawnArm{Name: "a", Final: 0.8}.Run(5, false)
	runs := []*rundir.Run{at, stopped, unsaid, first, fine}
	want := analysis.Series{ // points of the curves, which have one every ten steps
		validationOf(at)[3], validationOf(stopped)[4], validationOf(unsaid)[12], validationOf(first)[0],
	}
	if got := divergedMarks(runs, nil, validationOf); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := divergedMarks(runs, tokensOf, gradNorm); len(got) != 4 || got[0].X != tokensOf(at)[35].Y || got[0].Y != at.Metrics[34].GradNorm {
		t.Errorf("against tokens: %v", got)
	}
}

// The ticks are exactly the swept values, in their places, whatever their order.
func TestPositionHasTheSweptValues(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		log    bool
		want   []string
		at     []float64
	}{
		{"logarithmic", []string{"1e-4", "1e-2", "1e-3"}, true, []string{"1e-4", "1e-3", "1e-2"}, []float64{-4, -3, -2}},
		{"linear", []string{"0.2", "0.1"}, false, []string{"0.1", "0.2"}, []float64{0.1, 0.2}},
		{"words", []string{"true", "false"}, false, []string{"true", "false"}, []float64{0, 1}},
		{"one value", []string{"8"}, false, []string{"8"}, []float64{8}},
		{"powers of two", []string{"4", "2", "16", "8"}, false, []string{"2", "4", "8", "16"}, []float64{math.Log10(2), math.Log10(4), math.Log10(8), math.Log10(16)}},
		{"crowded by numbers and by logarithms", []string{"1", "100", "101", "10000"}, false, []string{"1", "100", "101", "10000"}, []float64{0, 1, 2, 3}},
		{"crowded and with a zero", []string{"0", "1e-3", "1"}, false, []string{"0", "1e-3", "1"}, []float64{0, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPosition(sweepdir.Axis{Values: tt.values, Log: tt.log})
			for i, tick := range p.ticks {
				if tick.Label != tt.want[i] || math.Abs(tick.Value-tt.at[i]) > 1e-12 || p.at[tick.Label] != tick.Value {
					t.Errorf("tick %d is %q at %v, want %q at %v", i, tick.Label, tick.Value, tt.want[i], tt.at[i])
				}
				if tick.Value <= p.lo || tick.Value >= p.hi {
					t.Errorf("%q lies at the end of the axis", tick.Label)
				}
			}
		})
	}
}

// No two labels on the same line touch where staggering can prevent it, and no
// label is lost.
func TestStagger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.IntRange(1, 100000), 1, 9, rapid.ID).Draw(t, "values")
		values := make([]string, len(numbers))
		for i, n := range numbers {
			values[i] = strconv.Itoa(n)
		}
		p := newPosition(sweepdir.Axis{Values: values, Log: true})
		width := vg.Points(400)
		staggered := p.stagger(width)
		var rows [2]vg.Length // right end of the last label of each line
		rows[0], rows[1] = -1000, -1000
		for i, tick := range staggered {
			label := strings.TrimPrefix(tick.Label, "\n")
			if label != p.ticks[i].Label {
				t.Fatalf("%q became %q", p.ticks[i].Label, tick.Label)
			}
			row := len(tick.Label) - len(label)
			x := vg.Length((tick.Value-p.lo)/(p.hi-p.lo)) * width
			half := tickText.Width(label) / 2
			crowded := i > 1 && vg.Length((tick.Value-staggered[i-2].Value)/(p.hi-p.lo))*width < 2*half+vg.Points(6)
			if x-half < rows[row] && !crowded {
				t.Fatalf("%q touches the label before it: %v", label, staggered)
			}
			rows[row] = x + half
		}
	})
}

func TestShortenFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 60, -1).Draw(t, "text")
		width := vg.Points(rapid.Float64Range(20, 200).Draw(t, "width"))
		got := shorten(legendText, s, width)
		if legendText.Width(got) > width || strings.ContainsAny(got, "\n\t\u202e") {
			t.Fatalf("%q is %v wide of %v", got, legendText.Width(got), width)
		}
		if legendText.Width(oneLine(s)) <= width && got != oneLine(s) {
			t.Fatalf("%q fits and became %q", s, got)
		}
		value := " (0.123)"
		lines := strings.Split(twoLines(panelText, s, value, vg.Points(120)), "\n")
		for _, line := range lines {
			if panelText.Width(line) > vg.Points(120) {
				t.Fatalf("%q is wider than its panel", line)
			}
		}
		if len(lines) > 2 || !strings.HasSuffix(lines[len(lines)-1], "(0.123)") {
			t.Fatalf("title %q", lines)
		}
	})
}

func TestLogTicks(t *testing.T) {
	tests := []struct {
		name   string
		lo, hi float64
		want   string
	}{
		{"two decades", 0.01, 1, "0.01 0.1 1"},
		{"short", 0.1, 5, "0.1 0.2 0.5 1 2 5"},
		{"long", 1e-6, 10, "1e-6 0.0001 0.01 1"},
		{"huge", 1e294, 1e300, "1e294 1e295 1e296 1e297 1e298 1e299 1e300"},
		{"lengths", 10, 1e4, "10 100 1000 10000"},
		{"wide", 1e-8, 10, "1e-8 1e-6 0.0001 0.01 1"},
		{"between decades", math.Sqrt(10), 100 * math.Sqrt(10), "10 100"},
		{"large", 1e4, 1e7, "10000 1e5 1e6 1e7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var labels []string
			for _, tick := range (logTicks{}).Ticks(math.Log10(tt.lo), math.Log10(tt.hi)) {
				if tick.Label != "" {
					labels = append(labels, tick.Label)
				}
			}
			if got := strings.Join(labels, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNiceEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Pow(10, rapid.Float64Range(-290, 290).Draw(t, "exponent"))
		lo, hi := niceBelow(v), niceAbove(v)
		if lo > v*(1+1e-9) || hi < v*(1-1e-9) || lo < v/2.6 || hi > v*2.6 {
			t.Fatalf("%v lies between %v and %v", v, lo, hi)
		}
	})
}

// A palette keeps a picture of few colors as it is, and changes little in one
// of many.
func TestPalette(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		colors := rapid.IntRange(1, 600).Draw(t, "colors")
		img := image.NewRGBA(image.Rect(3, 5, 43, 35))
		for y := 5; y < 35; y++ {
			for x := 3; x < 43; x++ {
				k := uint64((y*40 + x) % colors)
				img.SetRGBA(x, y, color.RGBA{uint8(k * 7), uint8(k / 3), uint8(k * 31), 255})
			}
		}
		got := paletted(img)
		if got.Bounds() != img.Bounds() || len(got.Palette) > maxColors {
			t.Fatalf("%v, %d colors", got.Bounds(), len(got.Palette))
		}
		for y := 5; y < 35; y++ {
			for x := 3; x < 43; x++ {
				d := squared(img.RGBAAt(x, y), color.RGBAModel.Convert(got.At(x, y)).(color.RGBA))
				if colors <= maxColors && d != 0 || d > 3*60*60 {
					t.Fatalf("pixel %d, %d is off by %v", x, y, math.Sqrt(float64(d)))
				}
			}
		}
	})
}

// Every arm of an overlay differs from every other without its color too.
func TestArmStylesDiffer(t *testing.T) {
	for i, a := range armStyles {
		for _, b := range armStyles[:i] {
			if a.color == b.color || slices.Equal(a.dashes, b.dashes) || a.marker == b.marker {
				t.Errorf("style %d is too much like another one", i)
			}
		}
	}
}

func TestJitterKeepsSeedsApart(t *testing.T) {
	for n := 2; n < 12; n++ {
		for i := 1; i < n; i++ {
			if a, b := jitter(i-1, n), jitter(i, n); b-a < 0.16/float64(n) || math.Abs(b) > 0.09 {
				t.Errorf("seeds %d and %d of %d are at %v and %v", i-1, i, n, a, b)
			}
		}
	}
	if jitter(0, 1) != 0 {
		t.Error("a single seed is moved")
	}
}

func TestFinalName(t *testing.T) {
	for short, want := range map[string]string{"lr": "final_vs_lr.png", "../a b": "final_vs____a_b.png", "ä": "final_vs__.png"} {
		if got := finalName(short); got != want {
			t.Errorf("%q gives %q, want %q", short, got, want)
		}
	}
}

func TestPairLabel(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"no clip", "clip", "no clip\n− clip"},
		{"lr 1, size 2", "lr 3, size 2", "lr 1\n− lr 3\n(size 2)"},
		{"lr 1, size 2", "lr 3, size 4", "lr 1, size 2\n− lr 3, size 4"},
		{"GRPO, lr 1", "DPO, offline, lr 1", "GRPO, lr 1\n− DPO, offline, lr 1"},
		{"lr: 2 - 1, at size 2", "lr: 2 - 1, at size 4", "at size 2\n− at size 4\n(lr: 2 - 1)"},
		{"same, name", "same, name", "same, name\n− same, name"},
	} {
		if got := new(view).pairLabel(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}
