package report

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// drawnArm is an arm of a made-up sweep whose curves have noise and shape.
type drawnArm struct {
	name, label string
	point       []string
	final       float64 // validation reward at the end
	gain        float64 // step scale at which it rises; 0 = 40
	norm        float64 // gradient norm; 0 = 0.15
	length      float64 // 0 = 24.6
	clip        bool
	diverged    int // step; 0 = it did not
	stops       bool
	left        int // seeds, from the last one, that have only begun
	absent      int // seeds, from the last one, without a folder
}

const drawnSteps = 120

func (a drawnArm) run(seed uint64, left bool) *rundir.Run {
	scale, norm, length := a.gain, a.norm, a.length
	if scale == 0 {
		scale = 40
	}
	if norm == 0 {
		norm = 0.15
	}
	if length == 0 {
		length = 24.6
	}
	last := drawnSteps
	switch {
	case left:
		last = 35
	case a.stops && a.diverged > 0:
		last = a.diverged
	}
	salt := uint64(len(a.name)) + uint64(1000*a.final)
	reward := func(step int, purpose uint64, wide float64) float64 {
		if step == 0 { // arms start together: from the same model with the same random numbers
			return 0.19 + wide*noise(seed, 0, purpose)
		}
		x := 1 - math.Exp(-float64(step)/scale)
		if a.diverged > 0 && step >= a.diverged {
			return 0.01 * (1 + noise(seed, uint64(step), purpose))
		}
		return clamp(0.19 + (a.final-0.19)*x + wide*noise(seed, uint64(step)+salt, purpose))
	}
	r := &rundir.Run{
		Dir:    fmt.Sprintf("runs/%s,seed=%d", a.name, seed),
		Config: []byte("name: drawn\nrollout: {rollout_batch_size: 256, group_size: 8, sampling_temperature: 1}\ntrain: {n_grpo_steps: 120}\n"),
		Status: &rundir.Status{State: rundir.StateRunning, Step: last, Steps: drawnSteps},
	}
	for step := 0; step <= last; step += 10 {
		r.Evals = append(r.Evals, rundir.Eval{
			Step: step, Split: rundir.SplitVal, Sampled: synthCounts(1024, reward(step, 1, 0.03), 0.98, length),
			MajorityAnswer: "0", MajorityBaseline: 0.0615,
		})
	}
	for step := 1; step <= last; step++ {
		u := uint64(step) + salt
		m := rundir.Metrics{
			Step: step, Updates: step, AnswerReward: reward(step, 3, 0.06), Entropy: (0.06 + 0.3*math.Exp(-float64(step)/9)) * (1 + 0.15*noise(seed, u, 5)),
			GradNorm: norm * (1 + 0.3*noise(seed, u, 4)), Length: length, LearningRate: 1e-3,
			LengthRight: ptr(length - 0.4 + 0.4*noise(seed, u, 6)), LengthWrong: ptr(length + 1 + 2*noise(seed, u, 7)),
		}
		m.Time.ElapsedS = 0.1 * float64(step) * (1 + 0.1*noise(seed, salt, 9))
		if a.clip {
			m.ClipFraction = ptr(0.02 * (1 + 0.4*noise(seed, u, 8)))
		}
		r.Metrics = append(r.Metrics, m)
	}
	if left {
		return r
	}
	end := r.Evals[len(r.Evals)-1]
	r.Status.State = rundir.StateDone
	r.Result = &rundir.Result{
		Status: rundir.StateDone, Name: "drawn", Seed: seed, LearningRate: 1e-3, Steps: drawnSteps, Updates: last,
		Initial: r.Evals[0], Final: end, Best: end, BestStep: end.Step, WallS: 12,
	}
	if a.diverged > 0 {
		r.Result.Status, r.Result.DivergedAt, r.Result.DivergedReason = rundir.StateDiverged, ptr(a.diverged), "validation reward fell"
	}
	return r
}

// drawnSweep analyses a made-up sweep with seeds 1 to n.
func drawnSweep(n int, axes []sweepdir.Axis, arms ...drawnArm) *sweepdir.Sweep {
	sw := &sweepdir.Sweep{Dir: "results/drawn"}
	m := &sw.Manifest
	m.Format, m.Hash, m.Command, m.Name, m.Title, m.Axes = 1, "0badcafe", "sweep", "drawn", "Drawn", axes
	m.Question, m.Argv, m.Base = "Which arm is better?", []string{"grpo", "sweep", "drawn"}, "seed: 1\n"
	for i := range n {
		m.Seeds = append(m.Seeds, uint64(i+1))
	}
	for _, a := range arms {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: a.name, Label: a.label, Point: a.point})
	}
	for k, seed := range m.Seeds {
		for i, a := range arms {
			e := sweepdir.Entry{Index: len(m.Runs), Arm: i, Seed: seed, Dir: fmt.Sprintf("runs/%s,seed=%d-0badcafe", a.name, seed), Config: "seed: 1\n"}
			m.Runs = append(m.Runs, e)
			s := sweepdir.RunState{Entry: e, State: sweepdir.Missing}
			if k < n-a.absent {
				s.Run = a.run(seed, k >= n-a.left)
				s.State = s.Run.Status.State
				if s.Run.Result != nil {
					s.State = s.Run.Result.Status
				}
			}
			sw.Runs = append(sw.Runs, s)
		}
	}
	return sw
}

func rateAxis(values ...string) []sweepdir.Axis {
	return []sweepdir.Axis{{Key: "train.learning_rate", Label: "learning rate", Short: "lr", Values: values, Log: true}}
}

// ratesArms is a sweep of learning rates as the default task gives it.
func rateArms() []drawnArm {
	return []drawnArm{
		{name: "lr=1e-4", label: "learning rate 1e-4", point: []string{"1e-4"}, final: 0.6, gain: 80},
		{name: "lr=3e-4", label: "learning rate 3e-4", point: []string{"3e-4"}, final: 0.8, gain: 50},
		{name: "lr=1e-3", label: "learning rate 1e-3", point: []string{"1e-3"}, final: 0.93, gain: 30},
		{name: "lr=3e-3", label: "learning rate 3e-3", point: []string{"3e-3"}, final: 0.75, gain: 20},
		{name: "lr=1e-2", label: "learning rate 1e-2", point: []string{"1e-2"}, final: 0.3, norm: 9, diverged: 20},
	}
}

func gridArms(rates, stds []string) (axes []sweepdir.Axis, arms []drawnArm) {
	axes = append(rateAxis(rates...), sweepdir.Axis{Key: "algorithm.use_std_normalization", Label: "std", Short: "std", Values: stds})
	for i, rate := range rates {
		for k, std := range stds {
			arms = append(arms, drawnArm{
				name: "lr=" + rate + ",std=" + std, label: "lr " + rate + ", std " + std, point: []string{rate, std},
				final: 0.4 + 0.12*float64(i) + 0.04*float64(k),
			})
		}
	}
	return axes, arms
}

func manyArms(n int) []drawnArm {
	var arms []drawnArm
	for i := range n {
		arms = append(arms, drawnArm{name: fmt.Sprintf("arm%d", i), label: fmt.Sprintf("arm number %d", i), final: 0.4 + 0.04*float64(i)})
	}
	return arms
}

// files draws at a small size and returns the names of what was drawn.
func files(t testing.TB, a *Analysis) []string {
	t.Helper()
	all, err := drawSweep(a, 36, nil)
	if err != nil {
		t.Fatal(err)
	}
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

func TestSweepFiles(t *testing.T) {
	grid, gridded := gridArms([]string{"1e-4", "1e-3"}, []string{"true", "false"})
	wide, widened := gridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	odd := []sweepdir.Axis{{Key: "reward.functions", Short: "../reward functions", Values: []string{"[answer]", "[format]"}}}
	hostile := strings.Repeat("</text>\u202e\n\t漢字 🙂 ", 40)
	tests := []struct {
		name  string
		seeds int
		axes  []sweepdir.Axis
		arms  []drawnArm
		want  string
	}{
		{"rates", 4, rateAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), rateArms(),
			"validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"off-policy", 2, nil, []drawnArm{{name: "a", final: 0.5, clip: true}, {name: "b", final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles + " clip_fraction.png"},
		{"one seed", 1, nil, []drawnArm{{name: "a", final: 0.5}, {name: "b", final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"one arm", 3, nil, []drawnArm{{name: "a", final: 0.5}}, "validation_reward.png final_by_arm.png " + curveFiles},
		{"grid", 2, grid, gridded, "validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"map", 2, wide, widened, "validation_reward.png final_vs_lr.png paired_difference.png " + curveFiles},
		{"an axis without numbers", 2, odd,
			[]drawnArm{{name: "a", final: 0.5, point: []string{"[answer]"}}, {name: "b", final: 0.6, point: []string{"[format]"}}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"nothing has run", 2, nil, []drawnArm{{name: "a", absent: 2}, {name: "b", absent: 2}}, ""},
		{"nothing has ended", 2, nil, []drawnArm{{name: "a", final: 0.5, left: 2}, {name: "b", absent: 2}}, "validation_reward.png " + curveFiles},
		{"all diverged at once", 2, nil, []drawnArm{{name: "a", final: 0.5, diverged: 1, stops: true}, {name: "b", diverged: 1, stops: true}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"twelve arms", 2, nil, manyArms(12), "validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"hostile names", 2, nil, []drawnArm{{name: "a", label: hostile, final: 0.5}, {name: "b", label: " \n", final: 0.6}},
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
		{"hostile names in panels", 2, nil, append(manyArms(7), drawnArm{name: "a", label: hostile, final: 0.5}),
			"validation_reward.png final_by_arm.png paired_difference.png " + curveFiles},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := files(t, mustAnalyse(t, drawnSweep(tt.seeds, tt.axes, tt.arms...)))
			if want := strings.Fields(tt.want); !slices.Equal(got, want) {
				t.Errorf("drew %v, want %v", got, want)
			}
		})
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
				r.Metrics[i].LengthRight, r.Metrics[i].LengthWrong = ptr(math.NaN()), nil
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
			a := mustAnalyse(t, drawnSweep(2, nil, drawnArm{name: "a", final: 0.5}, drawnArm{name: "b", final: 0.6}))
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
	axes := rateAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
	half := rateArms()
	half[2].left, half[3].left, half[4].absent = 1, 3, 3
	grid, gridded := gridArms([]string{"3e-4", "1e-3", "3e-3"}, []string{"true", "false"})
	gridded[5].diverged = 30
	wide, widened := gridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	widened[3].diverged, widened[9].absent = 50, 3
	tests := []struct {
		name string
		file string
		a    *Analysis
	}{
		{"sweep-rates", "validation_reward.png", mustAnalyse(t, drawnSweep(4, axes, rateArms()...))},
		{"sweep-rates-final", "final_vs_lr.png", mustAnalyse(t, drawnSweep(4, axes, rateArms()...))},
		{"sweep-rates-norm", "grad_norm.png", mustAnalyse(t, drawnSweep(4, axes, rateArms()...))},
		{"sweep-rates-length", "response_length.png", mustAnalyse(t, drawnSweep(4, axes, rateArms()...))},
		{"sweep-half", "validation_reward.png", mustAnalyse(t, drawnSweep(3, axes, half...))},
		{"sweep-grid", "final_vs_lr.png", mustAnalyse(t, drawnSweep(3, grid, gridded...))},
		{"sweep-map", "final_vs_lr.png", mustAnalyse(t, drawnSweep(3, wide, widened...))},
		{"sweep-panels", "validation_reward.png", mustAnalyse(t, drawnSweep(3, nil, manyArms(8)...))},
		{"sweep-arms", "final_by_arm.png", mustAnalyse(t, drawnSweep(4, nil, manyArms(3)...))},
		{"sweep-paired", "paired_difference.png", mustAnalyse(t, drawnSweep(4, nil, manyArms(3)...))},
		{"sweep-train", "reward_train_vs_validation.png", mustAnalyse(t, drawnSweep(4, nil, manyArms(2)...))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := drawSweep(tt.a, goldenDPI, func(file string) bool { return file == tt.file })
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != 1 {
				t.Fatalf("%d figures of that name", len(all))
			}
			golden(t, tt.name+".png", all[0].PNG)
		})
	}
}

func TestSweepFiguresAreTheSameBytes(t *testing.T) {
	draw := func() []Drawing {
		all, err := drawSweep(mustAnalyse(t, drawnSweep(3, rateAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), rateArms()...)), goldenDPI, nil)
		if err != nil {
			t.Fatal(err)
		}
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
	a := mustAnalyse(t, drawnSweep(2, nil, manyArms(2)...))
	all, err := drawSweep(a, 36, func(file string) bool { return strings.HasPrefix(file, "validation") })
	if err != nil {
		t.Fatal(err)
	}
	paths, err := WriteDrawings(dir, all)
	if err != nil || len(paths) != 2 {
		t.Fatalf("%v, %v", paths, err)
	}
	if _, err := WriteDrawings(dir+"/nowhere", all); err == nil || !strings.Contains(err.Error(), "write figure") {
		t.Errorf("into a folder that is not there: %v", err)
	}
}
