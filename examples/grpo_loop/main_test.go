package main

import (
	"testing"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

type quiet struct{}

func (quiet) Begin(int, int)      {}
func (quiet) Step(rundir.Metrics) {}
func (quiet) Eval(rundir.Eval)    {}
func (quiet) Note(string)         {}

// TestLoop: the loop ends with the weights of `grpo train`, to the bit.
func TestLoop(t *testing.T) {
	const steps = 3
	r, err := config.Load(config.LoadOptions{Set: []string{"n_grpo_steps=3", "eval.every_n_steps=3", "eval.sets=validation"}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := train.Run(t.Context(), r.Config, train.Options{Dir: t.TempDir(), Now: time.Now, Observer: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := newTrainer()
	if err != nil {
		t.Fatal(err)
	}
	defer loop.close()
	if err := loop.train(steps); err != nil {
		t.Fatal(err)
	}
	if got := loop.policy.Params().Hash(); got != want.WeightsSHA256 {
		t.Errorf("weights %s, those of grpo train are %s", got, want.WeightsSHA256)
	}
}
