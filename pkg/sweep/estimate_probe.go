package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
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

// probeLimit is how long a probe may take. Steps are not interrupted, and one step
// of a large configuration can take hours.
const probeLimit = time.Minute

// probePatience is how long an interrupted probe waits for its step to end.
const probePatience = 2 * time.Second

// Probe measures a configuration by making some steps of it. Problems that can't
// be read, and anything else that would stop the run, are its errors.
type Probe func(ctx context.Context, cfg config.Config, threads int) (Measured, error)

// NewProbe returns a probe that trains in a folder below scratch (the system's
// temporary folder if empty) and removes it again. After [probeLimit] it returns
// the measurement so far, with AtLeast if that is less than two steps.
func NewProbe(now func() time.Time, scratch string) Probe { return newProbe(now, scratch, probeLimit) }

func newProbe(now func() time.Time, scratch string, limit time.Duration) Probe {
	return func(parent context.Context, cfg config.Config, threads int) (Measured, error) {
		dir, err := os.MkdirTemp(scratch, "grpo-probe-")
		if err != nil {
			return Measured{}, fmt.Errorf("make a folder to measure in: %w", err)
		}
		defer os.RemoveAll(dir)
		ctx, stop := context.WithCancel(parent)
		defer stop()
		cfg.Data.ValSize = min(orAll(cfg.Data.ValSize, probeProblems), probeProblems)
		cfg.Data.UnseenSize = min(cfg.Data.UnseenSize, probeProblems/4)
		if cfg.Data.Source != "generated" || cfg.Data.TestSize > 0 {
			cfg.Data.TestSize = 1
		}
		cfg.Train.NGRPOSteps, cfg.Eval.EveryNSteps = max(cfg.Train.NGRPOSteps, 2*maxProbeSteps), 2*maxProbeSteps
		cfg.Output.CheckpointEveryNSteps = 0
		p := &prober{now: now, stop: stop, began: now()}
		ended := make(chan error, 1)
		go func() {
			_, err := train.Run(ctx, cfg, train.Options{Dir: dir, Threads: threads, Now: now, Observer: p})
			ended <- err
		}()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for interrupted, running := parent.Done(), true; running; {
			select {
			case err = <-ended:
				running = false
			case <-interrupted:
				interrupted = nil
				timer.Reset(probePatience)
			case <-timer.C:
				// The run can stop only between steps; it ends on its own.
				if parent.Err() != nil {
					return Measured{}, fmt.Errorf("measure the first steps: %w", train.ErrNothingSaved)
				}
				return p.measured(cfg), nil
			}
		}
		if err != nil && !errors.Is(err, train.ErrInterrupted) {
			return Measured{}, err
		}
		if parent.Err() != nil || len(p.steps) < 2 {
			return Measured{}, fmt.Errorf("measure the first steps: %w", train.ErrNothingSaved)
		}
		return p.measured(cfg), nil
	}
}

// prober is the observer of a probe; it ends the run when it has seen enough.
type prober struct {
	now   func() time.Time
	stop  func()
	began time.Time

	lock      sync.Mutex // the run goes on while a probe that is over its limit reads these
	opened    time.Time
	evaluated time.Time
	stepped   time.Time // when the last step ended
	steps     []rundir.Metrics
}

// record calls f with the time.
func (p *prober) record(f func(now time.Time)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	f(p.now())
}

// Begin implements train.Observer.
func (p *prober) Begin(int, int) { p.record(func(now time.Time) { p.opened = now }) }

// Eval implements train.Observer.
func (p *prober) Eval(rundir.Eval) {
	p.record(func(now time.Time) {
		if p.evaluated.IsZero() {
			p.evaluated, p.stepped = now, now
		}
	})
}

// Step implements train.Observer.
func (p *prober) Step(m rundir.Metrics) {
	p.record(func(now time.Time) {
		p.steps = append(p.steps, m)
		p.stepped = now
		if n := len(p.steps); n > probeSteps && (now.Sub(p.evaluated) >= probeTime || n >= maxProbeSteps) {
			p.stop()
		}
	})
}

// Note implements train.Observer.
func (p *prober) Note(string) {}

// measured is the time of the steps. With fewer than two of them, the part that
// has not ended takes as long as it has taken so far, or longer.
func (p *prober) measured(cfg config.Config) Measured {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	out := Measured{AtLeast: len(p.steps) < 2}
	if p.opened.IsZero() {
		out.Setup = now.Sub(p.began).Seconds()
		return out
	}
	out.Setup = p.opened.Sub(p.began).Seconds()
	first := cfg
	// The evaluation before training alone.
	first.Train.NGRPOSteps, first.Data.TestSize, first.Data.TestFile = 0, 0, ""
	if p.evaluated.IsZero() {
		out.Decode = now.Sub(p.opened).Seconds() / evaluated(first)
		return out
	}
	out.Decode = p.evaluated.Sub(p.opened).Seconds() / evaluated(first)
	epochs := float64(cfg.Train.EpochsPerRolloutBatch)
	if out.AtLeast {
		step := now.Sub(p.stepped).Seconds()
		for _, m := range p.steps {
			step = max(step, m.Time.RolloutS+m.Time.RewardS+m.Time.UpdateS)
		}
		out.Update = step / epochs
		return out
	}
	n := float64(len(p.steps) - 1)
	for _, m := range p.steps[1:] {
		out.Rollout += (m.Time.RolloutS + m.Time.RewardS) / n
		out.Update += m.Time.UpdateS / n / epochs
	}
	return out
}
