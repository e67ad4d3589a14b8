package reporttest

import (
	"cmp"
	"fmt"
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// DrawnArm is an arm of a made-up sweep whose curves have noise and shape.
type DrawnArm struct {
	Name, Label string
	Point       []string
	Final       float64 // validation reward at the end
	gain        float64 // step scale at which it rises; 0 = 40
	Norm        float64 // gradient norm; 0 = 0.15
	Length      float64 // 0 = 24.6
	Clip        bool
	Diverged    int // step; 0 = never
	Stops       bool
	Left        int // number of seeds, from the last one, that have only started
	Absent      int // number of seeds, from the last one, without a folder
}

const drawnSteps = 120

func (a DrawnArm) Run(seed uint64, left bool) *rundir.Run {
	scale, norm, length := cmp.Or(a.gain, 40), cmp.Or(a.Norm, 0.15), cmp.Or(a.Length, 24.6)
	last := drawnSteps
	switch {
	case left:
		last = 35
	case a.Stops && a.Diverged > 0:
		last = a.Diverged
	}
	salt := uint64(len(a.Name)) + uint64(1000*a.Final)
	reward := func(step int, purpose uint64, wide float64) float64 {
		if step == 0 { // all arms start from the same model with the same random numbers
			return 0.19 + wide*noise(seed, 0, purpose)
		}
		x := 1 - math.Exp(-float64(step)/scale)
		if a.Diverged > 0 && step >= a.Diverged {
			return 0.01 * (1 + noise(seed, uint64(step), purpose))
		}
		return Clamp(0.19 + (a.Final-0.19)*x + wide*noise(seed, uint64(step)+salt, purpose))
	}
	r := &rundir.Run{
		Dir: fmt.Sprintf("runs/%s,seed=%d", a.Name, seed),
		Config: []byte("name: drawn\nrollout: {rollout_batch_size: 256, group_size: 8, sampling_temperature: 1}\n" +
			"train: {n_grpo_steps: 120}\n"),
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
			Step: step, Updates: step, AnswerReward: reward(step, 3, 0.06),
			Entropy:  (0.06 + 0.3*math.Exp(-float64(step)/9)) * (1 + 0.15*noise(seed, u, 5)),
			GradNorm: norm * (1 + 0.3*noise(seed, u, 4)), Length: length, LearningRate: 1e-3,
			LengthRight: Ptr(length - 0.4 + 0.4*noise(seed, u, 6)), LengthWrong: Ptr(length + 1 + 2*noise(seed, u, 7)),
		}
		m.Time.ElapsedS = 0.1 * float64(step) * (1 + 0.1*noise(seed, salt, 9))
		if a.Clip {
			m.ClipFraction = Ptr(0.02 * (1 + 0.4*noise(seed, u, 8)))
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
	diverge(r.Result, a.Diverged)
	return r
}

// DrawnSweep analyses a made-up sweep with seeds 1 to n.
func DrawnSweep(n int, axes []sweepdir.Axis, arms ...DrawnArm) *sweepdir.Sweep {
	sw := &sweepdir.Sweep{Dir: "results/drawn"}
	m := &sw.Manifest
	m.Format, m.Hash, m.Command, m.Name, m.Title, m.Axes = 1, "0badcafe", "sweep", "drawn", "Drawn", axes
	m.Question, m.Argv, m.Base = "Which arm is better?", []string{"grpo", "sweep", "drawn"}, "seed: 1\n"
	for i := range n {
		m.Seeds = append(m.Seeds, uint64(i+1))
	}
	for _, a := range arms {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: a.Name, Label: a.Label, Point: a.Point})
	}
	for k, seed := range m.Seeds {
		for i, a := range arms {
			e := sweepdir.Entry{Index: len(m.Runs), Arm: i, Seed: seed, Config: "seed: 1\n",
				Dir: fmt.Sprintf("runs/%s,seed=%d-0badcafe", a.Name, seed)}
			m.Runs = append(m.Runs, e)
			s := sweepdir.RunState{Entry: e, State: sweepdir.Missing}
			if k < n-a.Absent {
				s.Run = a.Run(seed, k >= n-a.Left)
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

func RatesAxis(values ...string) []sweepdir.Axis {
	return []sweepdir.Axis{{Key: "train.learning_rate", Label: "learning rate", Short: "lr", Values: values, Log: true}}
}

// RateArms is a sweep of learning rates as the default task gives it.
func RateArms() []DrawnArm {
	return []DrawnArm{
		{Name: "lr=1e-4", Label: "learning rate 1e-4", Point: []string{"1e-4"}, Final: 0.6, gain: 80},
		{Name: "lr=3e-4", Label: "learning rate 3e-4", Point: []string{"3e-4"}, Final: 0.8, gain: 50},
		{Name: "lr=1e-3", Label: "learning rate 1e-3", Point: []string{"1e-3"}, Final: 0.93, gain: 30},
		{Name: "lr=3e-3", Label: "learning rate 3e-3", Point: []string{"3e-3"}, Final: 0.75, gain: 20},
		{Name: "lr=1e-2", Label: "learning rate 1e-2", Point: []string{"1e-2"}, Final: 0.3, Norm: 9, Diverged: 20},
	}
}

func GridArms(rates, stds []string) (axes []sweepdir.Axis, arms []DrawnArm) {
	axes = append(RatesAxis(rates...),
		sweepdir.Axis{Key: "algorithm.use_std_normalization", Label: "std", Short: "std", Values: stds})
	for i, rate := range rates {
		for k, std := range stds {
			arms = append(arms, DrawnArm{
				Name: "lr=" + rate + ",std=" + std, Label: "lr " + rate + ", std " + std, Point: []string{rate, std},
				Final: 0.4 + 0.12*float64(i) + 0.04*float64(k),
			})
		}
	}
	return axes, arms
}

func ManyArms(n int) []DrawnArm {
	var arms []DrawnArm
	for i := range n {
		name, label := fmt.Sprintf("arm%d", i), fmt.Sprintf("arm number %d", i)
		arms = append(arms, DrawnArm{Name: name, Label: label, Final: 0.4 + 0.04*float64(i)})
	}
	return arms
}

// StartApart gives the first arm of a sweep another reward before training, as
// another prompt would.
func StartApart(sw *sweepdir.Sweep) *sweepdir.Sweep {
	for _, s := range sw.Runs {
		if s.Arm == 0 {
			s.Run.Evals[0].Sampled.AnswerReward = 0.017
			s.Run.Result.Initial.Sampled.AnswerReward = 0.017
		}
	}
	return sw
}
