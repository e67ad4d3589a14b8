package reporttest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// DivergedRun stopped at step 37 with a gradient that is not finite.
func DivergedRun(t *testing.T) *rundir.Run {
	r := SynthRun(t, 3, 37)
	r.Metrics[36].GradNorm, r.Metrics[36].Loss, r.Metrics[36].Entropy = math.Inf(1), math.NaN(), math.NaN()
	r.Missing, r.Status = nil, nil
	last := r.Evals[len(r.Evals)-1]
	r.Result = &rundir.Result{
		Status: rundir.StateDiverged, DivergedAt: Ptr(37), DivergedReason: "the gradient is not finite",
		Warnings: []string{"the weights were not updated after step 36"},
		Name:     "default", Seed: 3, LearningRate: 1e-5, Steps: 200, Updates: 36, Parameters: 62820, WallS: math.NaN(),
		Initial: r.Evals[0], Final: last, BestStep: last.Step, Best: last,
	}
	return r
}

// OffPolicyRun has a clip fraction, no greedy decoding and no correct completion in its last step.
func OffPolicyRun(t *testing.T) *rundir.Run {
	r := SynthRun(t, 2, 200)
	for i := range r.Metrics {
		r.Metrics[i].ClipFraction = Ptr(0.125)
		r.Metrics[i].LengthRight = nil
	}
	for i := range r.Evals {
		r.Evals[i].Greedy = nil
	}
	for _, e := range []*rundir.Eval{&r.Result.Initial, &r.Result.Final, &r.Result.Best, r.Result.Unseen, r.Result.Test} {
		e.Greedy = nil
	}
	return r
}

// FreshRun has evaluated the base model and made no step.
func FreshRun(t *testing.T) *rundir.Run { return SynthRun(t, 5, 0) }

// BareRun has only a configuration, as if it had just started.
func BareRun(t *testing.T) *rundir.Run {
	dir := SynthFolder(t, 6, 0)
	for _, name := range []string{rundir.MetaFile, rundir.MetricsFile, rundir.EvalFile, rundir.StatusFile} {
		expect.OK(t, os.Remove(filepath.Join(dir, name)))
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *rundir.Run {
	t.Helper()
	r, err := rundir.Open(dir)
	expect.OK(t, err)
	return r
}

// HalfRun died while it wrote a line of metrics.
func HalfRun(t *testing.T) *rundir.Run {
	dir := SynthFolder(t, 1, 37)
	f, err := os.OpenFile(filepath.Join(dir, rundir.MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	expect.OK(t, err)
	if _, err := f.WriteString(`{"step":38,"upd`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return open(t, dir)
}

// The tests plot and summarize synthetic runs whose curves have the shape of the default
// experiment. Their noise is a fixed function of seed and step, so golden files do not change.

// noise is a repeatable number in [-1, 1).
func noise(seed, step, purpose uint64) float64 {
	x := seed*0x9e3779b97f4a7c15 ^ step*0xbf58476d1ce4e5b9 ^ purpose*0x94d049bb133111eb
	for range 2 {
		x ^= x >> 31
		x *= 0xd6e8feb86659fd93
	}
	x ^= x >> 32
	return float64(x>>11)/(1<<52) - 1
}

func interpolate(step int, xs, ys []float64) float64 {
	x := float64(step)
	for i := 1; i < len(xs); i++ {
		if x <= xs[i] {
			return ys[i-1] + (ys[i]-ys[i-1])*(x-xs[i-1])/(xs[i]-xs[i-1])
		}
	}
	return ys[len(ys)-1]
}

var (
	knots        = []float64{0, 5, 10, 20, 40, 60, 100, 140, 200}
	sampledCurve = []float64{.127, .22, .36, .477, .59, .664, .805, .85, .896}
	greedyCurve  = []float64{.141, .41, .67, .834, .90, .932, .961, .975, .988}
	entropyCurve = []float64{.62, .35, .207, .142, .10, .082, .062, .05, .042}
)

func Ptr[T any](v T) *T { return &v }

func synthCounts(n int, reward, formatted, length float64) rundir.Counts {
	right := int(math.Round(reward * float64(n)))
	wrong := min(n-right, int(math.Round((formatted-reward)*float64(n))))
	wrong = max(0, wrong)
	c := rundir.Counts{
		N: n, CorrectNum: right, ErrorNum: n - right,
		FormattedRight: right, FormattedWrong: wrong, Unformatted: n - right - wrong,
		AnswerReward: float64(right) / float64(n), FormatReward: float64(right+wrong) / float64(n),
		Length: length,
	}
	if right > 0 {
		c.LengthRight = Ptr(length - 0.3)
	}
	return c
}

func Clamp(v float64) float64 { return min(1, max(0, v)) }

func SynthEval(seed uint64, step int, split string) rundir.Eval {
	n, shift, answer, majority := 1024, 0.0, "8", 0.0771
	switch split {
	case rundir.SplitUnseen:
		n, shift, answer, majority = 512, -0.45, "63", 0.0352
	case rundir.SplitTest:
		shift, answer, majority = -0.006, "6", 0.0742
	}
	formatted := interpolate(step, []float64{0, 10, 20, 200}, []float64{.55, .97, .99, 1})
	s := Clamp(interpolate(step, knots, sampledCurve) + shift*float64(step)/200 + 0.02*noise(seed, uint64(step), 1))
	g := Clamp(interpolate(step, knots, greedyCurve) + shift*float64(step)/200 + 0.012*noise(seed, uint64(step), 2))
	return rundir.Eval{
		Step: step, Split: split,
		Sampled: synthCounts(n, s, formatted, 21.5+3.1*formatted),
		Greedy:  Ptr(synthCounts(n, g, formatted, 22+2.6*formatted)),

		MajorityAnswer: answer, MajorityBaseline: majority,
	}
}

func synthMetrics(seed uint64, step int) rundir.Metrics {
	u := uint64(step)
	reward := Clamp(interpolate(step, knots, sampledCurve) + 0.06*noise(seed, u, 3))
	length := interpolate(step, []float64{0, 10, 20, 200}, []float64{27, 23.3, 24.7, 24.6})
	return rundir.Metrics{
		Step: step, Updates: step, Loss: 1e-9 * noise(seed, u, 8),
		GradNorm:     0.145 + 0.1*math.Exp(-float64(step)/15) + 0.04*noise(seed, u, 4),
		Entropy:      interpolate(step, knots, entropyCurve) * (1 + 0.12*noise(seed, u, 5)),
		LearningRate: 1e-3, Reward: rundir.Stat{Mean: reward, Std: 0.4}, AnswerReward: reward,
		FormatReward: 0.99, FracRewardZeroStd: 0.48 * float64(step) / 200,
		Rewards:     map[string]rundir.Stat{"answer": {Mean: reward, Std: 0.4}},
		Length:      length,
		LengthRight: Ptr(length - 0.4 + 0.3*noise(seed, u, 6)),
		LengthWrong: Ptr(length + 0.9 + 1.5*noise(seed, u, 7)),
		SamplerDiff: Ptr(3e-7),
	}
}

// SynthFolder writes the folder of a run up to the given step of 200; with all of them it is done.
func SynthFolder(t testing.TB, seed uint64, last int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fmt.Sprintf("train-%d", seed))
	must := func(err error) {
		t.Helper()
		expect.OK(t, err)
	}
	must(os.MkdirAll(dir, 0o755))
	const steps = 200
	config := fmt.Sprintf("name: default\nseed: %d\n"+
		"rollout:\n  rollout_batch_size: 256\n  group_size: 8\n  sampling_temperature: 1\n"+
		"algorithm:\n  loss_type: reinforce_with_baseline\ntrain:\n  n_grpo_steps: %d\n  learning_rate: 0.001\n", seed, steps)
	must(rundir.WriteFileAtomic(filepath.Join(dir, rundir.ConfigFile), []byte(config)))
	must(rundir.WriteJSON(filepath.Join(dir, rundir.MetaFile), rundir.Meta{Version: "test"}))

	appendAll := func(name string, n int, line func(i int) []any) {
		l, err := rundir.OpenLog(filepath.Join(dir, name))
		must(err)
		for i := range n {
			for _, v := range line(i) {
				must(l.Append(v))
			}
		}
		must(l.Close())
	}
	appendAll(rundir.MetricsFile, last, func(i int) []any { return []any{synthMetrics(seed, i+1)} })
	var top rundir.Eval
	appendAll(rundir.EvalFile, last/10+1, func(i int) []any {
		step := 10 * i
		val := SynthEval(seed, step, rundir.SplitVal)
		if val.Sampled.CorrectNum > top.Sampled.CorrectNum {
			top = val
		}
		lines := []any{val}
		if step == steps {
			lines = append(lines, SynthEval(seed, step, rundir.SplitUnseen), SynthEval(seed, step, rundir.SplitTest))
		}
		return lines
	})
	state := rundir.StateInterrupted
	if last == steps {
		state = rundir.StateDone
		appendAll(rundir.SamplesFile, 1, func(int) []any { return []any{rundir.Sample{Step: steps, Split: rundir.SplitVal}} })
		must(rundir.WriteJSON(filepath.Join(dir, rundir.ResultFile), rundir.Result{
			Status: rundir.StateDone, Name: "default", Seed: seed, LearningRate: 1e-3,
			Steps: steps, Updates: steps, Parameters: 62820, WallS: 118.25,
			Initial: SynthEval(seed, 0, rundir.SplitVal), Final: SynthEval(seed, steps, rundir.SplitVal),
			BestStep: top.Step, Best: top,
			Unseen: Ptr(SynthEval(seed, steps, rundir.SplitUnseen)), Test: Ptr(SynthEval(seed, steps, rundir.SplitTest)),
		}))
	}
	must(rundir.WriteJSON(filepath.Join(dir, rundir.StatusFile), rundir.Status{State: state, Step: last, Steps: steps}))
	return dir
}

// SynthRun is the run in [SynthFolder].
func SynthRun(t testing.TB, seed uint64, last int) *rundir.Run {
	t.Helper()
	r := open(t, SynthFolder(t, seed, last))
	r.Dir = fmt.Sprintf("results/train-%d", seed) // not the test's own folder
	return r
}
