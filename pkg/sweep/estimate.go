package sweep

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// How long a sweep will take is measured, not guessed: for each class of runs whose
// steps cost the same, the first few steps are made, with as many runs at a time
// as in the sweep. The rest is arithmetic:
//
//	run   = setup + steps (rollout + epochs * update) + decodings * decode
//	sweep = the runs in their order, each in the first free slot
//
// That holds as long as a late step costs what an early one does: not if
// completions become longer or shorter, or if dynamic sampling needs more rounds.
//
// While a sweep runs, [Remaining] estimates the rest from the pace of its runs.

// Measured are seconds of a run's parts.
type Measured struct {
	Setup   float64 // from the start to the first evaluation
	Rollout float64 // of a step: sampling and rewards
	Update  float64 // of a step: one pass over the rollout batch
	Decode  float64 // of one completion in an evaluation
	// AtLeast says that the measuring was cut off before it had seen enough: the
	// run takes this long or longer.
	AtLeast bool
}

// Probe measures a configuration by making some steps of it. Problems that can't
// be read, and whatever else would stop the run, are its errors.
type Probe func(ctx context.Context, cfg config.Config, threads int) (Measured, error)

// Estimate says how long a sweep will take.
type Estimate struct {
	Seconds float64   `json:"seconds"`  // of the whole sweep
	AtLeast bool      `json:"at_least"` // a probe was cut off: the sweep takes this long or longer
	Jobs    int       `json:"jobs"`     // runs at a time
	Threads int       `json:"threads"`  // of each run
	Arms    []float64 `json:"arms"`     // seconds of one run of each arm
	Probes  int       `json:"probes"`   // classes of runs that were measured
}

// maxProbes bounds the classes that are measured; others are taken in proportion
// to their [Work].
const maxProbes = 4

// EstimateTime measures how long the plan's runs will take, with jobs of them at a
// time (0 = one for each core).
func EstimateTime(ctx context.Context, p *Plan, jobs, cores int, probe Probe) (*Estimate, error) {
	all, err := EstimateParts(ctx, []*Plan{p}, jobs, cores, probe)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// EstimateParts is [EstimateTime] for sweeps that are run one after the other:
// what one of them has measured serves the next.
func EstimateParts(ctx context.Context, plans []*Plan, jobs, cores int, probe Probe) ([]*Estimate, error) {
	known := map[class]measurement{}
	var first *measurement
	atLeast := false
	var out []*Estimate
	for _, p := range plans {
		m := p.Manifest
		e := &Estimate{Jobs: slots(jobs, cores, len(m.Runs))}
		e.Threads = max(1, cores/e.Jobs)
		for i := range m.Arms {
			cfg, err := frozen(m.Runs[i]) // the first seed's runs come first, arm by arm
			if err != nil {
				return nil, err
			}
			c := classOf(cfg)
			got, ok := known[c]
			// A probe that was cut off may still be computing, which would slow down
			// another one.
			if !ok && len(known) < maxProbes && !atLeast {
				if got, err = measure(ctx, probe, cfg, e.Jobs, e.Threads); err != nil {
					return nil, fmt.Errorf("measure arm %q: %w", m.Arms[i].Name, err)
				}
				known[c], ok, atLeast = got, true, got.AtLeast
				if first == nil {
					first = &got
				}
			}
			if ok {
				e.Arms = append(e.Arms, got.run(cfg))
			} else {
				e.Arms = append(e.Arms, first.run(first.cfg)*Work(cfg)/Work(first.cfg))
			}
		}
		e.Probes, e.AtLeast = len(known), atLeast
		e.Seconds = Makespan(m.Runs, e.Arms, e.Jobs)
		out = append(out, e)
	}
	return out, nil
}

// slots is the number of runs at a time, as in [Run].
func slots(jobs, cores, runs int) int {
	if jobs <= 0 || jobs > cores {
		jobs = cores
	}
	return max(1, min(jobs, runs))
}

// Makespan is the time that runs take, in their order, with jobs of them at a time,
// when a run of arm i takes arms[i].
func Makespan(runs []sweepdir.Entry, arms []float64, jobs int) float64 {
	free := make([]float64, max(1, jobs))
	for _, r := range runs {
		enqueue(free, arms[r.Arm])
	}
	return slices.Max(free)
}

// enqueue adds the seconds of a run to the slot that is free first.
func enqueue(slots []float64, seconds float64) {
	slots[slices.Index(slots, slices.Min(slots))] += seconds
}

// class holds what the cost of a step depends on, apart from the number of
// epochs, in which it is linear.
type class struct {
	model    config.Model
	rollout  config.Rollout
	source   string
	template string
	micro    int
	kind     string // grpo or ppo
	// epochs of a critic are not those of the policy: ppo is measured as it is
	epochs, valueEpochs                           int
	reference, teacher, greedy, dynamic, skipFlat bool
}

func classOf(c config.Config) class {
	a := c.Algorithm
	out := class{
		model: c.Model, rollout: c.Rollout, source: c.Data.Source, template: c.Data.PromptTemplate, micro: c.Train.GradientAccumulationSteps,
		kind: a.Type, reference: a.Beta > 0, teacher: a.Teacher != "", greedy: a.Baseline == "greedy", dynamic: a.DynamicSampling, skipFlat: a.SkipFlatGroups,
	}
	out.rollout.SamplingTemperature = 0
	if a.Type == "ppo" {
		out.epochs, out.valueEpochs = c.Train.EpochsPerRolloutBatch, a.ValueEpochs
	}
	return out
}

// measurement is that of a class, with the configuration that was measured.
type measurement struct {
	Measured
	cfg config.Config
}

// measure makes as many probes at a time as the sweep has runs at a time, since
// they share a memory and perhaps a core, and takes the mean.
func measure(ctx context.Context, probe Probe, cfg config.Config, jobs, threads int) (measurement, error) {
	results, errs := make([]Measured, jobs), make([]error, jobs)
	var wait sync.WaitGroup
	for i := range jobs {
		wait.Go(func() { results[i], errs[i] = probe(ctx, cfg, threads) })
	}
	wait.Wait()
	out := measurement{cfg: cfg}
	for i, m := range results {
		if errs[i] != nil {
			return out, errs[i]
		}
		n := float64(jobs)
		out.Setup += m.Setup / n
		out.Rollout += m.Rollout / n
		out.Update += m.Update / n
		out.Decode += m.Decode / n
		out.AtLeast = out.AtLeast || m.AtLeast
	}
	return out, nil
}

// run is what a whole run of a configuration of this class takes.
func (m measurement) run(c config.Config) float64 {
	epochs := float64(c.Train.EpochsPerRolloutBatch)
	if m.AtLeast { // it is not known how the step divides into rollout and updates
		epochs = min(epochs, float64(m.cfg.Train.EpochsPerRolloutBatch))
	}
	return m.Setup + float64(c.Train.NGRPOSteps)*(m.Rollout+epochs*m.Update) + decodings(c)*m.Decode
}

// wholeFile is a guess of the problems in a file, which are not counted here.
const wholeFile = 1024

// evaluated is the number of problems in a split of a size that may be 0 for all
// of a file.
func evaluated(size, all int) int {
	if size == 0 {
		return all
	}
	return size
}

// decodings is the number of completions of all evaluations of a run; a float,
// because the product of valid sizes can exceed an int.
func decodings(c config.Config) float64 {
	steps, every := c.Train.NGRPOSteps, c.Eval.EveryNSteps
	evaluations := float64(1 + (steps+every-1)/every)
	n := evaluations*float64(evaluated(c.Data.ValSize, wholeFile)+c.Data.UnseenSize) + float64(c.Data.TestSize)
	if c.Data.Source != "generated" {
		n = evaluations * float64(evaluated(c.Data.ValSize, wholeFile))
		if c.Data.TestFile != "" {
			n += float64(evaluated(c.Data.TestSize, wholeFile))
		}
	}
	if c.Eval.Greedy {
		n *= 2
	}
	return n
}

// Work compares what runs cost before any of them has been timed: seconds on a
// nominal machine, of which only ratios mean something. The parts are those of
// the default experiment as measured: a completion takes 1 to sample, 4 to train
// on once, 2 to evaluate.
func Work(c config.Config) float64 {
	hidden := float64(c.Model.HiddenSize)
	completion := 1e-4 * hidden * hidden * float64(c.Model.NumLayers) / (64 * 64 * 2)
	step := float64(c.Rollout.RolloutBatchSize) * (1 + 4*float64(c.Train.EpochsPerRolloutBatch))
	return completion * (float64(c.Train.NGRPOSteps)*step + 2*decodings(c))
}

// RunWork reads from a manifest how many steps a run makes and what they are as
// [Work]; zeros for a run without a valid configuration.
func RunWork(e sweepdir.Entry) (steps int, work float64) {
	cfg, err := frozen(e)
	if err != nil {
		return 0, 0
	}
	return cfg.Train.NGRPOSteps, Work(cfg)
}
