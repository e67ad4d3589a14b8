package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// The duration of a sweep follows from that of a run of each arm: runs start in
// their order, each in the first free slot ([Makespan], [Remaining]).
//
// Before the sweep, a [Probe] measures the first steps of each class of runs whose
// steps cost the same, with the sweep's number of parallel runs. Then
//
//	run = setup + steps (rollout + epochs * update) + completions evaluated * decode
//
// if late steps cost the same as early ones: not if completions become longer or
// shorter, or if dynamic sampling needs more rounds. While the sweep runs, the
// durations are those of its runs so far.

// Measured are seconds of a run's parts.
type Measured struct {
	Setup   float64 // from the start to the first evaluation
	Rollout float64 // of a step: sampling and rewards
	Update  float64 // of a step: one pass over the rollout batch
	Decode  float64 // of one completion in an evaluation
	AtLeast bool    // the time limit ended the measurement: the run takes this long or longer
}

// Estimate is how long a sweep will take.
type Estimate struct {
	Seconds float64   `json:"seconds"`  // of the whole sweep
	AtLeast bool      `json:"at_least"` // the time limit ended a probe: the sweep takes this long or longer
	Jobs    int       `json:"jobs"`     // parallel runs
	Threads int       `json:"threads"`  // of each run
	Arms    []float64 `json:"arms"`     // seconds of one run of each arm
	Probes  int       `json:"probes"`   // classes of runs that were measured
}

// maxProbes bounds the classes that are measured; others are estimated in
// proportion to their [Work].
const maxProbes = 4

// EstimateTime measures how long plans take that are run one after the other, each
// with as many runs in parallel as [Run] would start, or fewer while those of a class
// are measured that don't fit into the memory together. Plans share the measurement of a class.
func EstimateTime(ctx context.Context, plans []*Plan, opts Options, probe Probe) ([]*Estimate, error) {
	known := map[class]measurement{}
	var first measurement
	var out []*Estimate
	atLeast := false
	quiet := opts
	quiet.Observer = Notes(func(string) {})
	for _, p := range plans {
		m := p.Manifest
		e := &Estimate{Jobs: opts.fitSlots(m.Runs, Slots(opts.Jobs, opts.Cores, len(m.Runs)))}
		e.Threads = opts.threads(e.Jobs)
		for i := range m.Arms {
			cfg, err := frozen(m.Runs[i]) // the first seed's runs come first, arm by arm
			if err != nil {
				return nil, err
			}
			c := classOf(cfg)
			got, ok := known[c]
			// After its time limit a probe may still be computing, which would slow down
			// another one.
			if !ok && len(known) < maxProbes && !atLeast {
				together := quiet.fitSlots(slices.Repeat(m.Runs[i:i+1], e.Jobs), e.Jobs)
				if got, err = measure(ctx, probe, cfg, together, e.Threads); err != nil {
					return nil, fmt.Errorf("measure arm %q: %w", m.NameOf(i), err)
				}
				if len(known) == 0 {
					first = got
				}
				known[c], ok, atLeast = got, true, got.AtLeast
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

// class holds what the cost of a step depends on, except for the number of epochs,
// in which it is linear.
type class struct {
	model   config.Model
	rollout config.Rollout
	others  string
}

func classOf(c config.Config) class {
	a := c.Algorithm
	out := class{model: c.Model, rollout: c.Rollout}
	out.rollout.SamplingTemperature = 0
	policies := []bool{a.Beta > 0, a.Teacher != "", a.Baseline == "greedy", a.FromFile(), a.DPO.UseWeighting}
	out.others = fmt.Sprintf("%q %q %q %d %v %v %v", c.Data.Source, c.Data.PromptTemplate, a.Type,
		c.Train.GradientAccumulationSteps, policies, a.DynamicSampling, a.SkipFlatGroups)
	if a.Type == "ppo" { // epochs of the critic are not those of the policy: PPO is measured as it is
		out.others += fmt.Sprint(c.Train.EpochsPerRolloutBatch, a.ValueEpochs)
	}
	return out
}

// measurement is that of a class, with the configuration that was measured.
type measurement struct {
	Measured
	cfg config.Config
}

// measure is the mean of jobs parallel probes, which share memory and cores as the
// sweep's runs will.
func measure(ctx context.Context, probe Probe, cfg config.Config, jobs, threads int) (measurement, error) {
	results, errs := make([]Measured, jobs), make([]error, jobs)
	var wait sync.WaitGroup
	for i := range jobs {
		wait.Go(func() { results[i], errs[i] = probe(ctx, cfg, threads) })
	}
	wait.Wait()
	out, n := measurement{cfg: cfg}, float64(jobs)
	for i, m := range results {
		if errs[i] != nil {
			return out, errs[i]
		}
		out.Setup += m.Setup / n
		out.Rollout += m.Rollout / n
		out.Update += m.Update / n
		out.Decode += m.Decode / n
		out.AtLeast = out.AtLeast || m.AtLeast
	}
	return out, nil
}

// run is the seconds of a whole run of a configuration of this class.
func (m measurement) run(c config.Config) float64 {
	epochs := float64(c.Train.EpochsPerRolloutBatch)
	if m.AtLeast { // the shares of rollout and updates in a step are not known
		epochs = min(epochs, float64(m.cfg.Train.EpochsPerRolloutBatch))
	}
	return m.Setup + float64(c.Train.NGRPOSteps)*(m.Rollout+epochs*m.Update) + evaluated(c)*m.Decode
}

// evaluated is the number of completions of all evaluations of a run.
func evaluated(c config.Config) float64 {
	return evaluatedUntil(c, c.Train.NGRPOSteps) + evaluatedLast(c)
}

// wholeFile is a guess for sizes of 0, all problems of a file, which are not counted.
const wholeFile = 1024

// evaluatedUntil is the number of completions of the evaluations up to the end of a step, those before the first
// step included; a float, because the product of valid sizes can exceed an int.
func evaluatedUntil(c config.Config, step int) float64 {
	steps, every := c.Train.NGRPOSteps, max(1, c.Eval.EveryNSteps)
	curve := 1 + step/every
	if step == steps && steps%every > 0 {
		curve++
	}
	sets := 1
	if every := c.Eval.SetsEveryNSteps; every > 0 {
		sets += step / every
	}
	val, unseen := cmp.Or(c.Data.ValSize, wholeFile), c.Data.UnseenSize
	if !c.Data.Generated() || !slices.Contains(c.Eval.Sets, config.SetUnseen) {
		unseen = 0
	}
	n := float64(curve)*float64(val+unseen) + float64(sets)*ofSets(c)
	if c.Eval.FinalSize > val { // the split val_final
		n += float64(c.Eval.FinalSize)
	}
	return n * (float64(c.Eval.Samples) + greedy(c))
}

// evaluatedLast is the number of completions of the evaluations after the last step.
func evaluatedLast(c config.Config) (n float64) {
	last := float64(c.Eval.LastSamples()) + greedy(c)
	if every := c.Eval.SetsEveryNSteps; every == 0 || c.Train.NGRPOSteps%every > 0 {
		n = ofSets(c) * (float64(c.Eval.Samples) + greedy(c))
	}
	test := c.Data.TestSize
	if !c.Data.Generated() {
		if test = 0; c.Data.TestFile != "" {
			test = cmp.Or(c.Data.TestSize, wholeFile)
		}
	}
	n += float64(test) * last
	switch val := cmp.Or(c.Data.ValSize, wholeFile); {
	case c.Eval.FinalSize > val:
		n += float64(c.Eval.FinalSize) * last
	case c.Eval.LastSamples() > c.Eval.Samples:
		n += float64(val) * last
	}
	return n
}

// ofSets is the number of problems of the sets from files.
func ofSets(c config.Config) float64 {
	return float64(len(c.Eval.SetFiles())) * float64(cmp.Or(c.Eval.SetSize, wholeFile))
}

// greedy is the number of greedy completions of a problem.
func greedy(c config.Config) float64 {
	if c.Eval.Greedy {
		return 1
	}
	return 0
}

// Work is the nominal cost of a run, of which only ratios mean something. In the
// default experiment a completion costs 1 to sample, 4 to train on once, 2 to
// evaluate.
func Work(c config.Config) float64 {
	hidden := float64(c.Model.HiddenSize)
	completion := 1e-4 * hidden * hidden * float64(c.Model.NumLayers) / (64 * 64 * 2)
	step := float64(c.Rollout.RolloutBatchSize) * (1 + 4*float64(c.Train.EpochsPerRolloutBatch))
	return completion * (float64(c.Train.NGRPOSteps)*step + 2*evaluated(c))
}

// RunWork returns the configuration and the [Work] of a run of a manifest; zeros if its configuration
// can't be read.
func RunWork(e sweepdir.Entry) (cfg config.Config, work float64) {
	cfg, err := frozen(e)
	if err != nil {
		return config.Config{}, 0
	}
	return cfg, Work(cfg)
}

// ProposedTime is a time limit for a run of these entries with this many threads: twice what the
// first steps take on this machine, which has this memory in bytes (0 = unknown). It is an error if
// that can't be measured.
func (p *Plan) ProposedTime(
	ctx context.Context, entries []sweepdir.Entry, threads int, memory int64, now func() time.Time,
) (time.Duration, error) {
	estimates, err := EstimateTime(ctx, []*Plan{p}, Options{Jobs: 1, Cores: threads}, NewProbe(memory, now))
	if err != nil {
		return 0, err
	}
	var longest float64
	for _, e := range entries {
		longest = max(longest, estimates[0].Arms[e.Arm])
	}
	const step, most = 10 * time.Minute, 365 * 24 * time.Hour
	if estimates[0].AtLeast || longest*2 > most.Seconds() {
		return 0, errors.New("two steps take longer than a minute")
	}
	return time.Duration(math.Ceil(2*longest/step.Seconds()))*step + step, nil
}
