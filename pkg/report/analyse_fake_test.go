package report

import (
	"fmt"
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// fakeRun is a run in memory: a validation curve that goes from initial to
// final, with the figures that an analysis reads.
type fakeRun struct {
	initial, final float64
	// best, where above final, is reached half-way.
	best      float64
	greedy    float64
	format    float64 // formatted share after training; 0 = 1
	length    float64 // 0 = 24.6
	entropy   float64
	gradNorm  float64
	clip      float64 // 0 = none
	updates   int     // a step; 0 = 1
	diverged  int     // step; 0 = it did not
	state     string  // of a run without a result; empty = finished
	err       string
	rate      float64
	paid      float64 // training reward; 0 = the answers
	problems  int     // 0 = 1024
	linear    bool
	wall      float64
	evalEvery int
	metrics   int // lines of metrics; 0 = one a step
}

const (
	fakeSteps  = 200
	fakeBase   = 0.197
	fakeLength = 25.8
)

func (f fakeRun) run(seed uint64) *rundir.Run {
	if f.problems == 0 {
		f.problems = 1024
	}
	if f.format == 0 {
		f.format = 1
	}
	if f.length == 0 {
		f.length = 24.6
	}
	if f.updates == 0 {
		f.updates = 1
	}
	if f.evalEvery == 0 {
		f.evalEvery = 10
	}
	f.best = max(f.best, f.final, f.initial)
	eval := func(step int, reward, formatted, length float64) rundir.Eval {
		sampled := synthCounts(f.problems, clamp(reward), max(formatted, reward), length)
		if sampled.ErrorNum > 0 {
			sampled.LengthWrong = ptr(length + 1)
		}
		return rundir.Eval{
			Step: step, Split: rundir.SplitVal, Sampled: sampled,
			Greedy:         ptr(synthCounts(f.problems, clamp(f.greedy), 1, length)),
			MajorityAnswer: "0", MajorityBaseline: 0.0615,
		}
	}
	r := &rundir.Run{Dir: fmt.Sprintf("fake-%d", seed), Status: &rundir.Status{State: f.state, Step: 0, Steps: fakeSteps}}
	last := fakeSteps
	if f.state != "" {
		last = 40
		r.Status.Step = last
	}
	for step := 0; step <= last; step += f.evalEvery {
		reward := f.final
		switch x := float64(step) / fakeSteps; {
		case step == 0:
			reward = f.initial
		case f.best > f.final && step == 100:
			reward = f.best
		case step < fakeSteps && f.linear:
			reward = f.initial + (f.final-f.initial)*x
		case step < fakeSteps:
			reward = f.initial + (f.final-f.initial)*(1-math.Exp(-8*x))
		}
		if step == 0 {
			r.Evals = append(r.Evals, eval(step, reward, 0.53, fakeLength))
		} else {
			r.Evals = append(r.Evals, eval(step, reward, f.format, f.length))
		}
	}
	lines := last
	if f.metrics > 0 {
		lines = f.metrics
	}
	for step := 1; step <= lines; step++ {
		m := rundir.Metrics{Step: step, Updates: step * f.updates, Entropy: f.entropy, GradNorm: f.gradNorm, LearningRate: f.rate, AnswerReward: f.final}
		m.Reward.Mean = max(f.final, f.paid)
		if f.clip > 0 {
			m.ClipFraction = ptr(f.clip)
		}
		r.Metrics = append(r.Metrics, m)
	}
	if f.state != "" {
		return r
	}
	end := r.Evals[len(r.Evals)-1]
	top := end
	for _, e := range r.Evals {
		if e.Sampled.AnswerReward > top.Sampled.AnswerReward {
			top = e
		}
	}
	test := eval(fakeSteps, f.final-0.006, f.format, f.length)
	test.Split = rundir.SplitTest
	r.Result = &rundir.Result{
		Status: rundir.StateDone, Name: "fake", Seed: seed, LearningRate: f.rate, Steps: fakeSteps, Updates: fakeSteps * f.updates,
		Initial: r.Evals[0], Final: end, Best: top, BestStep: top.Step, Test: &test, WallS: f.wall,
	}
	r.Status.State = rundir.StateDone
	if f.diverged > 0 {
		r.Result.Status, r.Result.DivergedAt, r.Result.DivergedReason = rundir.StateDiverged, &f.diverged, "validation reward fell"
	}
	return r
}

// fakeArm is an arm of a sweep in memory.
type fakeArm struct {
	name    string
	set     []sweepdir.Override
	point   []string
	control bool
	run     func(seed uint64) fakeRun
}

// fakeSweep makes a sweep in memory with seeds 1 to n.
func fakeSweep(n int, arms ...fakeArm) *sweepdir.Sweep {
	sw := &sweepdir.Sweep{Dir: "results/fake"}
	m := &sw.Manifest
	m.Format, m.Hash, m.Command, m.Name, m.Title = 1, "0badcafe", "ablate", "fake", "A made-up sweep"
	m.Question = "Which arm is better?"
	m.Argv = []string{"grpo", "ablate", "fake"}
	for i := range n {
		m.Seeds = append(m.Seeds, uint64(i+1))
	}
	for _, a := range arms {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: a.name, Label: a.name, Set: a.set, Point: a.point, Control: a.control})
	}
	for _, seed := range m.Seeds {
		for i, a := range arms {
			f := a.run(seed)
			e := sweepdir.Entry{Index: len(m.Runs), Arm: i, Seed: seed, Dir: fmt.Sprintf("runs/%s,seed=%d", a.name, seed), Config: "seed: 1\n"}
			s := sweepdir.RunState{Entry: e, State: f.state, Error: f.err}
			if f.state != sweepdir.Missing && f.state != rundir.StateFailed {
				s.Run = f.run(seed)
			}
			if f.state == "" {
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

// around draws rewards of a sound arm: mean with the given spread over seeds.
func around(mean, sd float64, purpose uint64) func(uint64) fakeRun {
	return func(seed uint64) fakeRun {
		return fakeRun{
			initial: fakeBase, final: mean + sd*spread(seed, purpose), greedy: 0.99,
			entropy: 0.042 * (1 + 0.1*spread(seed, purpose+1)), gradNorm: 0.145 * (1 + 0.05*spread(seed, purpose+2)),
			length: 24.6 + 0.1*spread(seed, purpose+3), rate: 1e-3,
		}
	}
}

// with changes the runs of an arm.
func with(run func(uint64) fakeRun, change func(*fakeRun)) func(uint64) fakeRun {
	return func(seed uint64) fakeRun {
		f := run(seed)
		change(&f)
		return f
	}
}
