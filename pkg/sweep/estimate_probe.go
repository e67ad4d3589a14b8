package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// A probe makes at least probeSteps steps, and more until probeTime has gone by,
// but no more than maxProbeSteps. The first step is left out: it warms caches.
const (
	probeSteps    = 3
	maxProbeSteps = 20
	probeTime     = 500 * time.Millisecond
	probeProblems = 128 // of the evaluation
)

// NewProbe returns a probe that trains in a folder below scratch (the system's
// temporary folder if empty) and removes it again.
func NewProbe(now func() time.Time, scratch string) Probe {
	return func(ctx context.Context, cfg config.Config, threads int) (Measured, error) {
		dir, err := os.MkdirTemp(scratch, "grpo-probe-")
		if err != nil {
			return Measured{}, fmt.Errorf("make a folder to measure in: %w", err)
		}
		defer os.RemoveAll(dir)
		run, stop := context.WithCancel(ctx)
		defer stop()
		cfg.Data.ValSize, cfg.Data.UnseenSize = min(cfg.Data.ValSize, probeProblems), min(cfg.Data.UnseenSize, probeProblems/4)
		cfg.Data.TestSize = min(cfg.Data.TestSize, 1)
		cfg.Train.NGRPOSteps, cfg.Eval.EveryNSteps = max(cfg.Train.NGRPOSteps, 2*maxProbeSteps), 2*maxProbeSteps
		cfg.Output.CheckpointEveryNSteps = 0
		p := &prober{now: now, stop: stop, began: now()}
		_, err = train.Run(run, cfg, train.Options{Dir: dir, Threads: threads, Now: now, Observer: p})
		if err != nil && !errors.Is(err, train.ErrInterrupted) {
			return Measured{}, err
		}
		if ctx.Err() != nil || len(p.steps) < 2 {
			return Measured{}, fmt.Errorf("measure the first steps: %w", train.ErrNothingSaved)
		}
		return p.measured(cfg), nil
	}
}

// prober is the observer of a probe; it ends the run when it has seen enough.
type prober struct {
	now           func() time.Time
	stop          func()
	began, opened time.Time
	evaluated     time.Time
	steps         []rundir.Metrics
}

// Begin implements train.Observer.
func (p *prober) Begin(int, int) { p.opened = p.now() }

// Eval implements train.Observer.
func (p *prober) Eval(rundir.Eval) {
	if p.evaluated.IsZero() {
		p.evaluated = p.now()
	}
}

// Step implements train.Observer.
func (p *prober) Step(m rundir.Metrics) {
	p.steps = append(p.steps, m)
	if n := len(p.steps); n > probeSteps && (p.now().Sub(p.evaluated) >= probeTime || n >= maxProbeSteps) {
		p.stop()
	}
}

// Note implements train.Observer.
func (p *prober) Note(string) {}

func (p *prober) measured(cfg config.Config) Measured {
	out := Measured{Setup: p.opened.Sub(p.began).Seconds()}
	n := float64(len(p.steps) - 1)
	for _, m := range p.steps[1:] {
		out.Rollout += (m.Time.RolloutS + m.Time.RewardS) / n
		out.Update += m.Time.UpdateS / n / float64(cfg.Train.EpochsPerRolloutBatch)
	}
	first := cfg
	first.Train.NGRPOSteps, first.Data.TestSize = 0, 0 // the evaluation before training alone
	out.Decode = p.evaluated.Sub(p.opened).Seconds() / float64(decodings(first))
	return out
}
