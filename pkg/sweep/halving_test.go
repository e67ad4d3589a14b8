package sweep

import (
	"reflect"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func halvingPlan(t *testing.T, text string) *Plan {
	t.Helper()
	return planOf(t, text, PlanOptions{Halving: true})
}

func steps(h *sweepdir.Halving) (out []int) {
	for _, r := range h.Rungs {
		out = append(out, r.Step)
	}
	return out
}

// TestRungs: a quarter and a half of the steps, rounded up to an evaluation before the last step.
func TestRungs(t *testing.T) {
	long(t)
	const axes = "axes: [{key: lr, values: [1e-4, 1e-3, 1e-2]}]\n"
	for set, want := range map[string][]int{
		"n_grpo_steps: 200, every_n_steps: 10": {50, 100},
		"n_grpo_steps: 200, every_n_steps: 30": {60, 120},
		"n_grpo_steps: 201, every_n_steps: 1":  {51, 101},
		"n_grpo_steps: 8, every_n_steps: 4":    {4},
		"n_grpo_steps: 10, every_n_steps: 6":   {6},
	} {
		if got := steps(halvingPlan(t, axes+"set: {"+set+"}").Manifest.Halving); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", set, got, want)
		}
	}
	for text, want := range map[string]string{
		axes + "set: {n_grpo_steps: 4, every_n_steps: 4}":                                                "an evaluation before the last step",
		"axes: [{key: n_grpo_steps, values: [50, 100, 150]}]":                                            "compares arms at the same steps",
		"arms: [{name: a}, {name: b, set: {lr: 1}}, {name: c, set: {lr: 2}}]\nreference: a":              "three arms or more",
		"arms: [{name: a}, {name: b, set: {beta: 1}}]\naxes: [{key: lr, values: [1, 2]}]\nbest_over: lr": "best_over",
		"arms: [{name: a}, {name: b, set: {lr: 1}}, {name: c, set: {lr: 2}, control: true}]":             "three arms or more",
	} {
		_, err := NewPlan(parsed(t, text), PlanOptions{Halving: true})
		invalid(t, text, err, want)
	}
	// It is not part of a sweep's identity.
	if a, b := halvingPlan(t, axes).Manifest, planOf(t, axes, PlanOptions{}).Manifest; a.Hash != b.Hash {
		t.Errorf("hash %s, without halving %s", a.Hash, b.Hash)
	}
}

// TestRank: by the mean over the seeds at the rung, diverged arms last, later evaluations without effect.
func TestRank(t *testing.T) {
	p := halvingPlan(t, "axes: [{key: lr, values: [1, 2, 3, 4]}]\nseeds: 2\nset: {n_grpo_steps: 8, every_n_steps: 1}")
	at := 2
	rewards := [][]float64{{0.5, 0.2}, {0.4, 0.4}, {0.9, 0.9}, {0.3, 0.4}} // of each arm, by seed
	s := &sweepdir.Sweep{Manifest: p.Manifest}
	for _, e := range p.Manifest.Runs {
		run := &rundir.Run{Status: &rundir.Status{Step: 3}}
		reward := rewards[e.Arm][e.Seed-1]
		for step, r := range []float64{0, 0, reward, 1 - reward} {
			eval := rundir.Eval{Step: step, Split: rundir.SplitVal}
			eval.Sampled.AnswerReward = r
			run.Evals = append(run.Evals, eval)
		}
		if e.Arm == 2 && e.Seed == 1 {
			run.Result = &rundir.Result{DivergedAt: &at}
		}
		s.Runs = append(s.Runs, sweepdir.RunState{Entry: e, Run: run})
	}
	got, err := rank(s, 2)
	want := []sweepdir.Ranked{{Arm: 1, Reward: 0.4}, {Arm: 0, Reward: 0.35}, {Arm: 3, Reward: 0.35}, {Arm: 2, Reward: 0.9, Diverged: 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	s.Runs[3].Run.Evals = nil
	expect.Error(t, expect.Err(rank(s, 2)), "has no evaluation up to step 2")
	expect.Error(t, expect.Err(rank(s, 4)), "has not been trained to it")
}

// TestDecideRung: another process may have decided the rung, or taken the halving away.
func TestDecideRung(t *testing.T) {
	m := fakeManifest(3, 1)
	dir := writeSweep(t, m)
	expect.Error(t, expect.Err(decideRung(dir, 4)), "without --halving")
	m.Halving = &sweepdir.Halving{Rungs: []sweepdir.Rung{{Step: 2, Ranking: []sweepdir.Ranked{{Arm: 1}}}, {Step: 4}}}
	expect.OK(t, sweepdir.WriteManifest(dir, m))
	if got, err := decideRung(dir, 2); err != nil || !reflect.DeepEqual(got.Halving, m.Halving) {
		t.Errorf("%+v, %v", got.Halving, err)
	}
	expect.Error(t, expect.Err(decideRung(dir, 4)), "has not been trained to it")
}

// TestRoomOfStopped: runs that will not be trained take neither memory nor disk space.
func TestRoomOfStopped(t *testing.T) {
	p := halvingPlan(t, "axes: [{key: lr, values: [1, 2, 3]}]\nseeds: 1\nset: {n_grpo_steps: 8, every_n_steps: 1}")
	l := &Located{Plan: p, Dir: t.TempDir()}
	all := diskOf([]*Located{l}, 1)
	expect.Error(t, l.checkMemory(1), "lr=1, seed 1")
	p.Manifest.Halving.Rungs[0].Stopped = []int{0, 1, 2}
	if got := diskOf([]*Located{l}, 1); all <= 0 || got != 0 {
		t.Errorf("disk: %v of %v", got, all)
	}
	expect.OK(t, l.checkMemory(1))

	tuned := "arms: [{name: a}, {name: b, set: {beta: 1}}]\naxes: [{key: lr, values: [1, 2]}]\nbest_over: lr\nseeds: 1"
	l.Plan = planOf(t, tuned, PlanOptions{})
	chosen := diskOf([]*Located{l}, 1)
	l.Manifest.Looks = nil
	if all := diskOf([]*Located{l}, 1); chosen >= all {
		t.Errorf("disk: %v with a choice, %v of all runs", chosen, all)
	}
}
