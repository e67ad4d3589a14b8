package plots

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// files draws at a small size and returns the names of what was drawn.
func files(t testing.TB, a *analysis.Analysis) []string {
	t.Helper()
	all, err := Sweep(a, SweepOptions{DPI: 36})
	expect.OK(t, err)
	var names []string
	for _, d := range all {
		if len(d.PNG) == 0 || d.Width < 200 || d.Height < 60 || d.Alt == "" || d.Title == "" {
			t.Errorf("%s: %d bytes, %d x %d, title %q, alt %q", d.File, len(d.PNG), d.Width, d.Height, d.Title, d.Alt)
		}
		names = append(names, d.File)
	}
	return names
}

const curveFiles = "validation_reward_vs_tokens.png reward_train_vs_validation.png response_length.png entropy.png grad_norm.png"

// defaultDPI is that of the package; in tests, figures have few pixels.
var defaultDPI = DPI

func TestMain(m *testing.M) {
	DPI = 36
	os.Exit(m.Run())
}

// inFull draws the figures of a test with the pixels that users get.
func inFull(t *testing.T) {
	small := DPI
	DPI = defaultDPI
	t.Cleanup(func() { DPI = small })
}

func TestSweepFiles(t *testing.T) {
	grid, gridded := reporttest.GridArms([]string{"1e-4", "1e-3"}, []string{"true", "false"})
	wide, widened := reporttest.GridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	odd := []sweepdir.Axis{{Key: "reward.functions", Short: "../reward functions", Values: []string{"[answer]", "[format]"}}}
	untrusted := strings.Repeat("</text>\u202e\n\t漢字 🙂 ", 40)
	tests := []struct {
		name  string
		seeds int
		axes  []sweepdir.Axis
		arms  []reporttest.DrawnArm
		want  string
	}{
		{"rates", 4, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms(),
			"validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"off-policy", 2, nil, []reporttest.DrawnArm{{Name: "a", Final: 0.5, Clip: true}, {Name: "b", Final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles + " clip_fraction.png"},
		{"one seed", 1, nil, []reporttest.DrawnArm{{Name: "a", Final: 0.5}, {Name: "b", Final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"one arm", 3, nil, []reporttest.DrawnArm{{Name: "a", Final: 0.5}}, "validation_reward.png final_by_arm.png " + curveFiles},
		{"grid", 2, grid, gridded, "validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"map", 2, wide, widened, "validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"an axis without numbers", 2, odd,
			[]reporttest.DrawnArm{{Name: "a", Final: 0.5, Point: []string{"[answer]"}}, {Name: "b", Final: 0.6, Point: []string{"[format]"}}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"nothing has run", 2, nil, []reporttest.DrawnArm{{Name: "a", Absent: 2}, {Name: "b", Absent: 2}}, ""},
		{"nothing has ended", 2, nil, []reporttest.DrawnArm{{Name: "a", Final: 0.5, Left: 2}, {Name: "b", Absent: 2}}, "validation_reward.png " + curveFiles},
		{"all diverged at once", 2, nil, []reporttest.DrawnArm{{Name: "a", Final: 0.5, Diverged: 1, Stops: true}, {Name: "b", Diverged: 1, Stops: true}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"twelve arms", 2, nil, reporttest.ManyArms(12), "validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"untrusted names", 2, nil, []reporttest.DrawnArm{{Name: "a", Label: untrusted, Final: 0.5}, {Name: "b", Label: " \n", Final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"untrusted names in panels", 2, nil, append(reporttest.ManyArms(7), reporttest.DrawnArm{Name: "a", Label: untrusted, Final: 0.5}),
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := files(t, mustAnalyse(t, reporttest.DrawnSweep(tt.seeds, tt.axes, tt.arms...)))
			if want := strings.Fields(tt.want); !slices.Equal(got, want) {
				t.Errorf("drew %v, want %v", got, want)
			}
		})
	}
}

// A sweep over the errors of the verifier has a figure against their rate, with a line for each kind.
func TestFinalAgainstNoise(t *testing.T) {
	var arms []reporttest.DrawnArm
	for _, name := range []string{"exact", "both", "positives"} {
		arms = append(arms, reporttest.DrawnArm{Name: name, Final: 0.8})
	}
	sw := reporttest.DrawnSweep(2, nil, arms...)
	m := &sw.Manifest
	m.Reference, m.Varied = "exact", []string{"reward.noise.false_negative", "reward.noise.false_positive"}
	for i, rates := range [][2]string{{"0", "0"}, {"0.2", "0.2"}, {"0.1", "0"}} {
		m.Arms[i].Set = []sweepdir.Override{{Key: m.Varied[1], Value: rates[0]}, {Key: m.Varied[0], Value: rates[1]}}
	}
	a := mustAnalyse(t, sw)
	if got := files(t, a); !slices.Equal(got[:3], []string{"validation_reward.png", "final_by_arm.png", "final_vs_noise.png"}) {
		t.Errorf("drew %v", got)
	}
	fig := built(t, a, "final_vs_noise.png")
	for _, line := range []string{"wrong verdicts", "false positives"} {
		if !strings.Contains(fig.altText(), line) {
			t.Errorf("no line %q in %s", line, fig.altText())
		}
	}
}

// Runs with figures that are not finite, or huge, or that lack a file, are
// drawn as far as they go.
func TestSweepOfBrokenRuns(t *testing.T) {
	tests := []struct {
		name   string
		damage func(r *rundir.Run)
	}{
		{"not finite", func(r *rundir.Run) {
			for i := range r.Metrics {
				r.Metrics[i].GradNorm, r.Metrics[i].Entropy, r.Metrics[i].AnswerReward = math.NaN(), math.Inf(1), math.NaN()
				r.Metrics[i].LengthRight, r.Metrics[i].LengthWrong = reporttest.Ptr(math.NaN()), nil
			}
		}},
		{"exploded", func(r *rundir.Run) { r.Metrics[10].GradNorm, r.Metrics[11].Entropy = math.MaxFloat64, 1e300 }},
		{"all zero", func(r *rundir.Run) {
			for i := range r.Metrics {
				r.Metrics[i].GradNorm, r.Metrics[i].Entropy = 0, 0
			}
		}},
		{"no metrics", func(r *rundir.Run) { r.Metrics = nil }},
		{"no evaluations", func(r *rundir.Run) { r.Evals = nil }},
		{"no clock", func(r *rundir.Run) {
			for i := range r.Metrics {
				r.Metrics[i].Time.ElapsedS = 0
			}
		}},
		{"a configuration that can't be read", func(r *rundir.Run) { r.Config = []byte("]: {") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Final: 0.5}, reporttest.DrawnArm{Name: "b", Final: 0.6}))
			for _, s := range a.Sweep.Runs {
				tt.damage(s.Run)
			}
			if got := files(t, a); !slices.Contains(got, "final_by_arm.png") {
				t.Errorf("drew %v", got)
			}
		})
	}
}

func TestSweepFiguresAgainstGolden(t *testing.T) {
	axes := reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
	half := reporttest.RateArms()
	half[2].Left, half[3].Left, half[4].Absent = 1, 3, 3
	grid, gridded := reporttest.GridArms([]string{"3e-4", "1e-3", "3e-3"}, []string{"true", "false"})
	gridded[5].Diverged = 30
	wide, widened := reporttest.GridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	widened[3].Diverged, widened[9].Absent = 50, 3
	tests := []struct {
		name string
		file string
		a    *analysis.Analysis
	}{
		{"sweep-rates", "validation_reward.png", mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...))},
		{"sweep-rates-final", "final_vs_lr.png", mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...))},
		{"sweep-rates-norm", "grad_norm.png", mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...))},
		{"sweep-rates-length", "response_length.png", mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...))},
		{"sweep-half", "validation_reward.png", mustAnalyse(t, reporttest.DrawnSweep(3, axes, half...))},
		{"sweep-grid", "final_vs_lr.png", mustAnalyse(t, reporttest.DrawnSweep(3, grid, gridded...))},
		{"sweep-map", "final_vs_lr.png", mustAnalyse(t, reporttest.DrawnSweep(3, wide, widened...))},
		{"sweep-panels", "validation_reward.png", mustAnalyse(t, reporttest.DrawnSweep(3, nil, reporttest.ManyArms(8)...))},
		{"sweep-arms", "final_by_arm.png", mustAnalyse(t, reporttest.DrawnSweep(4, nil, reporttest.ManyArms(3)...))},
		{"sweep-paired", "paired_difference.png", mustAnalyse(t, reporttest.DrawnSweep(4, nil, reporttest.ManyArms(3)...))},
		{"sweep-train", "reward_train_vs_validation.png", mustAnalyse(t, reporttest.DrawnSweep(4, nil, reporttest.ManyArms(2)...))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := drawSweep(tt.a, SweepOptions{DPI: goldenDPI}, func(f sweepFigure) bool { return f.file == tt.file })
			expect.OK(t, err)
			if len(all) != 1 {
				t.Fatalf("%d figures of that name", len(all))
			}
			reporttest.Golden(t, tt.name+".png", all[0].PNG)
		})
	}
}

func TestSweepFiguresAreTheSameBytes(t *testing.T) {
	draw := func() []Drawing {
		all, err := Sweep(mustAnalyse(t, reporttest.DrawnSweep(3, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms()...)), SweepOptions{DPI: goldenDPI})
		expect.OK(t, err)
		return all
	}
	first := draw()
	old := runtime.GOMAXPROCS(1)
	second := draw()
	runtime.GOMAXPROCS(old)
	for i := range first {
		if !bytes.Equal(first[i].PNG, second[i].PNG) {
			t.Errorf("%s: the second drawing differs", first[i].File)
		}
	}
}

func TestDrawingsAreWritten(t *testing.T) {
	dir := t.TempDir()
	a := mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
	all, err := drawSweep(a, SweepOptions{DPI: 36}, func(f sweepFigure) bool { return strings.HasPrefix(f.file, "validation") })
	expect.OK(t, err)
	paths, err := WriteDrawings(dir, all)
	if err != nil || len(paths) != 2 {
		t.Fatalf("%v, %v", paths, err)
	}
	expect.Error(t, expect.Err(WriteDrawings(dir+"/nowhere", all)), "write figure")
}

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *analysis.Analysis {
	t.Helper()
	a, err := analysis.Analyse(sw)
	expect.OK(t, err)
	return a
}
