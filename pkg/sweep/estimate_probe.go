package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// ProbeTime is the time for which a probe makes steps, unless it has to make more or would make too many.
var ProbeTime = 500 * time.Millisecond

// A probe makes at least probeSteps steps, and more until [ProbeTime] has passed, but
// at most maxProbeSteps. The first step is left out: it warms caches.
const (
	probeSteps    = 3
	maxProbeSteps = 20
	probeProblems = 128 // of the evaluation

	// Steps are not interrupted, and one step of a large configuration can take hours.
	probeLimit = time.Minute     // for the whole probe
	probeGrace = 2 * time.Second // for the last step of an interrupted probe
)

// Probe measures some steps of a configuration. It fails as the run would.
type Probe func(ctx context.Context, cfg config.Config, threads int) (Measured, error)

// NewProbe returns a probe that trains in a temporary folder and removes it again.
// After [probeLimit] it returns the measurement so far, with AtLeast if that is less
// than two steps. It refuses what needs more than these bytes of memory (0 = unknown).
func NewProbe(memory int64, now func() time.Time) Probe { return newProbe(memory, now, probeLimit) }

func newProbe(memory int64, now func() time.Time, limit time.Duration) Probe {
	fits := func(need budget.Memory) error { return need.Fits(memory) }
	return func(parent context.Context, cfg config.Config, threads int) (Measured, error) {
		dir, err := os.MkdirTemp("", "grpo-probe-")
		if err != nil {
			return Measured{}, fmt.Errorf("make a folder to measure in: %w", err)
		}
		defer os.RemoveAll(dir)
		ctx, stop := context.WithCancel(parent)
		defer stop()
		cfg.Data.ValSize = min(cmp.Or(cfg.Data.ValSize, probeProblems), probeProblems)
		cfg.Data.UnseenSize = min(cfg.Data.UnseenSize, probeProblems/4)
		if !cfg.Data.Generated() || cfg.Data.TestSize > 0 {
			cfg.Data.TestSize = 1
		}
		cfg.Eval.Sets = config.Default().Eval.Sets // measured on the others
		cfg.Eval.FinalSize, cfg.Eval.FinalSamples, cfg.Eval.Samples = 0, 1, 1
		cfg.Eval.PassAt, cfg.Eval.MajorityAt = nil, nil
		cfg.Train.NGRPOSteps, cfg.Eval.EveryNSteps = max(cfg.Train.NGRPOSteps, 2*maxProbeSteps), 2*maxProbeSteps
		cfg.Output.CheckpointEveryNSteps = 0
		p := &prober{now: now, stop: stop, started: now()}
		ended := make(chan error, 1)
		go func() {
			_, err := train.Run(ctx, cfg, train.Options{Dir: dir, Threads: threads, Now: now, Observer: p, Memory: fits})
			ended <- err
		}()
		nothing := fmt.Errorf("measure the first steps: %w", rundir.ErrNothingSaved)
		select {
		case err = <-ended:
		case <-parent.Done():
			select {
			case err = <-ended:
			case <-time.After(probeGrace): // the run can stop only between steps; it ends on its own
				return Measured{}, nothing
			}
		case <-time.After(limit):
			return p.measured(cfg), nil
		}
		if err != nil && !errors.Is(err, rundir.ErrInterrupted) {
			return Measured{}, err
		}
		if parent.Err() != nil || len(p.steps) < 2 {
			return Measured{}, nothing
		}
		return p.measured(cfg), nil
	}
}

// prober is the observer of a probe; it ends the run after enough steps.
type prober struct {
	now     func() time.Time
	stop    func()
	started time.Time

	lock      sync.Mutex // after its time limit the probe reads these while the run continues
	opened    time.Time
	evaluated time.Time
	stepped   time.Time // when the last step ended
	steps     []rundir.Metrics
}

// at calls f with the time now.
func (p *prober) at(f func(now time.Time)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	f(p.now())
}

// Begin implements train.Observer.
func (p *prober) Begin(int, int) { p.at(func(now time.Time) { p.opened = now }) }

// Eval implements train.Observer.
func (p *prober) Eval(rundir.Eval) {
	p.at(func(now time.Time) {
		if p.evaluated.IsZero() {
			p.evaluated, p.stepped = now, now
		}
	})
}

// Step implements train.Observer.
func (p *prober) Step(m rundir.Metrics) {
	p.at(func(now time.Time) {
		p.steps, p.stepped = append(p.steps, m), now
		if n := len(p.steps); n > probeSteps && (now.Sub(p.evaluated) >= ProbeTime || n >= maxProbeSteps) {
			p.stop()
		}
	})
}

// Note implements train.Observer.
func (p *prober) Note(string) {}

// measured is the time of the steps. With fewer than two of them, the time of the
// unfinished part so far is a lower bound.
func (p *prober) measured(cfg config.Config) Measured {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	out := Measured{AtLeast: len(p.steps) < 2}
	if p.opened.IsZero() {
		out.Setup = now.Sub(p.started).Seconds()
		return out
	}
	out.Setup = p.opened.Sub(p.started).Seconds()
	first := cfg // with the evaluation before training alone
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
