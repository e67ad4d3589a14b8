package reporttest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// FakeRun is a run in memory: a validation curve from initial to final, with the metrics that an
// analysis reads.
type FakeRun struct {
	Initial, Final float64
	// best is reached half-way if above final.
	best      float64
	Greedy    float64
	Format    float64 // formatted share after training; 0 = 1
	Length    float64 // 0 = 24.6
	Entropy   float64
	GradNorm  float64
	Clip      float64 // 0 = none
	Updates   int     // per step; 0 = 1
	Diverged  int     // step; 0 = never
	State     string  // of a run without a result; empty = finished
	Err       string
	Rate      float64
	paid      float64 // training reward; 0 = the answer reward
	Problems  int     // 0 = 1024
	Linear    bool
	Wall      float64
	EvalEvery int
	Metrics   int // lines of metrics; 0 = one per step
	// Recorded: the evaluations have right or wrong of each problem. The arm finds some problems easier than others
	// do: Taste is a number of its own.
	Recorded bool
	Taste    uint64
}

const (
	fakeSteps  = 200
	FakeBase   = 0.197
	FakeLength = 25.8
)

func (f FakeRun) Run(seed uint64) *rundir.Run {
	f.Problems, f.Updates, f.EvalEvery = cmp.Or(f.Problems, 1024), cmp.Or(f.Updates, 1), cmp.Or(f.EvalEvery, 10)
	f.Format, f.Length = cmp.Or(f.Format, 1), cmp.Or(f.Length, 24.6)
	f.best = max(f.best, f.Final, f.Initial)
	eval := func(step int, reward, formatted, length float64) rundir.Eval {
		sampled := synthCounts(f.Problems, Clamp(reward), max(formatted, reward), length)
		if sampled.ErrorNum > 0 {
			sampled.LengthWrong = Ptr(length + 1)
		}
		e := rundir.Eval{
			Step: step, Split: rundir.SplitVal, Sampled: sampled,
			Greedy:         Ptr(synthCounts(f.Problems, Clamp(f.Greedy), 1, length)),
			MajorityAnswer: "0", MajorityBaseline: 0.0615,
		}
		if f.Recorded {
			e.Right = f.right(seed, sampled.CorrectNum)
		}
		return e
	}
	r := &rundir.Run{Dir: fmt.Sprintf("fake-%d", seed), Status: &rundir.Status{State: f.State, Step: 0, Steps: fakeSteps}}
	last := fakeSteps
	if f.State != "" {
		last = 40
		r.Status.Step = last
	}
	for step := 0; step <= last; step += f.EvalEvery {
		reward, format, length := f.Final, f.Format, f.Length
		switch x := float64(step) / fakeSteps; {
		case step == 0:
			reward, format, length = f.Initial, 0.53, FakeLength
		case f.best > f.Final && step == 100:
			reward = f.best
		case step < fakeSteps && f.Linear:
			reward = f.Initial + (f.Final-f.Initial)*x
		case step < fakeSteps:
			reward = f.Initial + (f.Final-f.Initial)*(1-math.Exp(-8*x))
		}
		r.Evals = append(r.Evals, eval(step, reward, format, length))
	}
	for step := 1; step <= cmp.Or(f.Metrics, last); step++ {
		m := rundir.Metrics{Step: step, Updates: step * f.Updates, AnswerReward: f.Final,
			Entropy: f.Entropy, GradNorm: f.GradNorm, LearningRate: f.Rate}
		m.Reward.Mean = max(f.Final, f.paid)
		if f.Clip > 0 {
			m.ClipFraction = Ptr(f.Clip)
		}
		r.Metrics = append(r.Metrics, m)
	}
	if f.State != "" {
		return r
	}
	end := r.Evals[len(r.Evals)-1]
	top := end
	for _, e := range r.Evals {
		if e.Sampled.AnswerReward > top.Sampled.AnswerReward {
			top = e
		}
	}
	test := eval(fakeSteps, f.Final-0.006, f.Format, f.Length)
	test.Split = rundir.SplitTest
	r.Result = &rundir.Result{
		Status: rundir.StateDone, Name: "fake", Seed: seed, LearningRate: f.Rate,
		Steps: fakeSteps, Updates: fakeSteps * f.Updates,
		Initial: r.Evals[0], Final: end, Best: top, BestStep: top.Step, Test: &test, WallS: f.Wall,
	}
	r.Status.State = rundir.StateDone
	if f.Recorded {
		r.Meta = &rundir.Meta{ProblemsHash: "made up"}
	}
	diverge(r.Result, f.Diverged)
	return r
}

// right has n right problems, those that are easiest for problem, arm and seed together.
func (f FakeRun) right(seed uint64, n int) []string {
	order, ease := make([]int, f.Problems), make([]float64, f.Problems)
	for i := range order {
		order[i], ease[i] = i, noise(uint64(i), 1, 1)+noise(uint64(i), f.Taste, 2)+noise(uint64(i), seed, 3+f.Taste)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ease[i], ease[j]) })
	right := make([]bool, f.Problems)
	for _, i := range order[:n] {
		right[i] = true
	}
	return rundir.RightOf(right, 1)
}

// Record makes the runs of a sweep of n problems, of which they have right or wrong of each.
func Record(n int, arms ...FakeArm) []FakeArm {
	for i := range arms {
		taste := uint64(i)
		arms[i].Run = With(arms[i].Run, func(f *FakeRun) { f.Recorded, f.Problems, f.Taste = true, n, taste })
	}
	return arms
}

// diverge marks a result as diverged at a step; 0 = never.
func diverge(r *rundir.Result, step int) {
	if step > 0 {
		r.Status, r.DivergedAt, r.DivergedReason = rundir.StateDiverged, &step, "validation reward fell"
	}
}

// FakeArm is an arm of a sweep in memory.
type FakeArm struct {
	Name    string
	Set     []sweepdir.Override
	Point   []string
	Control bool
	Run     func(seed uint64) FakeRun
}

// FakeSweep makes a sweep in memory with seeds 1 to n.
func FakeSweep(n int, arms ...FakeArm) *sweepdir.Sweep {
	sw := &sweepdir.Sweep{Dir: "results/fake"}
	m := &sw.Manifest
	m.Format, m.Hash, m.Command, m.Name, m.Title = 1, "0badcafe", "ablate", "fake", "A made-up sweep"
	m.Question = "Which arm is better?"
	m.Argv = []string{"grpo", "ablate", "fake"}
	for i := range n {
		m.Seeds = append(m.Seeds, uint64(i+1))
	}
	for _, a := range arms {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: a.Name, Label: a.Name, Set: a.Set, Point: a.Point, Control: a.Control})
	}
	for _, seed := range m.Seeds {
		for i, a := range arms {
			f := a.Run(seed)
			e := sweepdir.Entry{Index: len(m.Runs), Arm: i, Seed: seed, Config: "seed: 1\n",
				Dir: fmt.Sprintf("runs/%s,seed=%d", a.Name, seed)}
			s := sweepdir.RunState{Entry: e, State: f.State, Error: f.Err}
			if f.State != sweepdir.Missing && f.State != rundir.StateFailed {
				s.Run = f.Run(seed)
			}
			if f.State == "" {
				s.State = s.Run.Result.Status
			}
			m.Runs = append(m.Runs, e)
			sw.Runs = append(sw.Runs, s)
		}
	}
	return sw
}

// spread is a repeatable deviation of a seed, about normal with sd 1.
func spread(seed, purpose uint64) float64 {
	sum := 0.0
	for i := range uint64(4) {
		sum += noise(seed, i, purpose)
	}
	return sum * math.Sqrt(3) / 2
}

// Around returns rewards of an arm that learns: mean with the given spread over seeds.
func Around(mean, sd float64, purpose uint64) func(uint64) FakeRun {
	return func(seed uint64) FakeRun {
		return FakeRun{
			Initial: FakeBase, Final: mean + sd*spread(seed, purpose), Greedy: 0.99,
			Entropy: 0.042 * (1 + 0.1*spread(seed, purpose+1)), GradNorm: 0.145 * (1 + 0.05*spread(seed, purpose+2)),
			Length: 24.6 + 0.1*spread(seed, purpose+3), Rate: 1e-3,
		}
	}
}

// With changes the runs of an arm.
func With(run func(uint64) FakeRun, change func(*FakeRun)) func(uint64) FakeRun {
	return func(seed uint64) FakeRun {
		f := run(seed)
		change(&f)
		return f
	}
}

// Tune makes the arms of a sweep the points of tuned arms, len(rates) each.
func Tune(sw *sweepdir.Sweep, rates ...string) {
	m := &sw.Manifest
	m.BestOver = "train.learning_rate"
	m.Axes = RatesAxis(rates...)
	m.Varied = []string{"algorithm.loss_type", "train.learning_rate"}
	for i := range m.Arms {
		arm, rate := &m.Arms[i], rates[i%len(rates)]
		loss := fmt.Sprintf("loss %d", i/len(rates))
		arm.Set = []sweepdir.Override{{Key: "algorithm.loss_type", Value: loss}, {Key: "train.learning_rate", Value: rate}}
		arm.Point = []string{rate}
		arm.Name, arm.Label = loss+",lr="+rate, loss+", learning rate "+rate
	}
}

// TunedSweep has two losses at two rates: the first is better at the larger one,
// the second at the smaller.
func TunedSweep(n int) *sweepdir.Sweep {
	sw := FakeSweep(n,
		FakeArm{Run: Around(0.70, 0.012, 10)}, FakeArm{Run: Around(0.80, 0.012, 20)},
		FakeArm{Run: Around(0.93, 0.012, 30)}, FakeArm{Run: Around(0.60, 0.012, 40)})
	Tune(sw, "0.001", "0.003")
	sw.Manifest.Reference = "loss 0,lr=0.001"
	return sw
}

// RateSweep is a learning-rate sweep like the assignment's.
func RateSweep(n int) *sweepdir.Sweep {
	arm := func(value string, run func(uint64) FakeRun) FakeArm {
		set := []sweepdir.Override{{Key: "train.learning_rate", Value: value}}
		return FakeArm{Name: "lr=" + value, Set: set, Point: []string{value}, Run: run}
	}
	sw := FakeSweep(n,
		arm("0.0001", With(Around(0.56, 0.012, 10), func(f *FakeRun) { f.Linear, f.Rate = true, 1e-4 })),
		arm("0.0003", With(Around(0.75, 0.012, 20), func(f *FakeRun) { f.Linear, f.Rate = true, 3e-4 })),
		arm("0.001", Around(0.933, 0.012, 30)),
		arm("0.003", With(Around(0.92, 0.03, 40), func(f *FakeRun) { f.Rate = 3e-3 })),
		arm("0.01", func(seed uint64) FakeRun {
			f := Around(0.01, 0.004, 50)(seed)
			f.best, f.Diverged, f.Length, f.Format, f.Rate = 0.3, 10+10*int(seed%2), 46, 0.1, 1e-2
			return f
		}),
	)
	m := &sw.Manifest
	m.Command, m.Name, m.Title, m.Question = "sweep", "lr", "Learning rate", "Which learning rate?"
	m.Axes = RatesAxis("0.0001", "0.0003", "0.001", "0.003", "0.01")
	m.Varied = []string{"train.learning_rate"}
	for i := range m.Arms {
		m.Arms[i].Label = "learning rate " + m.Arms[i].Point[0]
	}
	return sw
}

func shortRun(mean float64, purpose uint64) func(uint64) FakeRun {
	return With(Around(mean, 0.012, purpose), func(f *FakeRun) { f.Length -= 10 })
}

func BaselineSweep(n int) *sweepdir.Sweep {
	sw := FakeSweep(n,
		FakeArm{Name: "no_baseline", Run: shortRun(0.80, 10)},
		FakeArm{Name: "reinforce_with_baseline", Run: Around(0.93, 0.012, 20)})
	m := &sw.Manifest
	m.Question, m.Reference = "Does a baseline help?", "no_baseline"
	m.Fixed = []sweepdir.Override{{Key: "algorithm.length_normalization", Value: "masked_mean"}}
	m.Varied = []string{"algorithm.loss_type"}
	return sw
}

// GridSweep is baseline x length normalization with the rewards measured for the base model.
func GridSweep(n int) *sweepdir.Sweep {
	arm := func(baseline, loss, norm string, run func(uint64) FakeRun) FakeArm {
		return FakeArm{Name: baseline + ", " + norm, Run: run, Set: []sweepdir.Override{
			{Key: "algorithm.loss_type", Value: loss}, {Key: "algorithm.length_normalization", Value: norm},
		}}
	}
	sw := FakeSweep(n,
		arm("no_baseline", "no_baseline", "masked_mean", shortRun(0.80, 10)),
		arm("with baseline", "reinforce_with_baseline", "masked_mean", Around(0.90, 0.012, 20)),
		arm("no_baseline", "no_baseline", "masked_normalize", Around(0.94, 0.012, 30)),
		arm("with baseline", "reinforce_with_baseline", "masked_normalize", Around(0.89, 0.012, 40)),
	)
	m := &sw.Manifest
	m.Varied = []string{"algorithm.length_normalization", "algorithm.loss_type"}
	for i, e := range m.Runs {
		set := m.Arms[e.Arm].Set
		m.Runs[i].Config = fmt.Sprintf("algorithm:\n  loss_type: %s\n  length_normalization: %s\n",
			set[0].Value, set[1].Value)
	}
	return sw
}

func ClipSweep(n int) *sweepdir.Sweep {
	sw := FakeSweep(n,
		FakeArm{Name: "on-policy", Run: Around(0.93, 0.012, 10)},
		FakeArm{Name: "symmetric", Run: With(Around(0.64, 0.03, 20), func(f *FakeRun) {
			f.Updates, f.Clip, f.Length = 4, 0.12, 19.6
		})},
		FakeArm{Name: "free", Run: With(Around(0.12, 0.02, 30), func(f *FakeRun) {
			f.Updates, f.best, f.Diverged, f.Length = 4, 0.6, 70, 23.6
		})})
	sw.Manifest.Reference = "on-policy"
	return sw
}

func RewardSweep(n int) *sweepdir.Sweep {
	sw := FakeSweep(n,
		FakeArm{Name: "plain reward", Run: Around(0.93, 0.012, 10)},
		FakeArm{Name: "style", Control: true, Run: With(Around(0.02, 0.003, 20), func(f *FakeRun) {
			f.Length, f.paid = 8+f.Entropy, 1
		})},
		FakeArm{Name: "coin", Control: true, Run: With(Around(0.002, 0.001, 30), func(f *FakeRun) {
			f.Length, f.Format, f.best, f.Diverged = 46, 0.05, 0.3, 20
		})})
	sw.Manifest.Reference = "plain reward"
	return sw
}
