// Package train is one run: rollout -> reward -> advantage -> update ->
// evaluation -> checkpoint, and the supervised stages that make a base model.
//
// A run is a function of its configuration. Random numbers are keyed by (seed,
// purpose, step, prompt, sample, token), the order of problems by (seed,
// position). So a run is resumed exactly from the weights and moments of policy,
// critic and reference model and the few numbers of [state].
package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"grpo/internal/cores"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/formula"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/inputfiles"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// Observer gets the events of a run, on its goroutine.
type Observer interface {
	// Begin gets the step after which the run continues; 0 for a new run.
	Begin(resumedAt, steps int)
	Step(rundir.Metrics)
	Eval(rundir.Eval)
	Note(string) // a line for the user
}

// Options are what a run needs besides its configuration.
type Options struct {
	Dir      string // the run's folder; created if missing
	Threads  int    // 0 = one for each fast core
	Now      func() time.Time
	Observer Observer
	Meta     rundir.Meta // the caller fills in version and host
	// Resume means that the configuration was read from the folder: then every key of config.yaml
	// must equal the checkpoint's, including keys without an effect on the results.
	Resume bool
	// Chosen reports whether the user gave a key: a setting without effect gets a note only then. nil = all keys.
	Chosen func(key string) bool
	Memory budget.MemoryCheck // nil = no check
	// Available is the memory for runs in bytes, 0 = unknown, for the advice about a run that was killed.
	Available func() int64
	Disk      budget.DiskCheck
	Progress  model.Progress
	Others    []Others // the runs that this one will be compared with
}

// trainer is one run.
type trainer struct {
	cfg   config.Config
	opts  Options
	ctx   context.Context // ends the run, and the processes of reward functions
	clock *stopwatch

	data    trainData
	rewards *infer.Rewards
	judge   infer.Judge

	model *policy.Model
	policy.Network
	folder  *policy.Folder // of the best weights; nil for a TinyLM
	sampler model.Sampler
	// unfinished is the sampler of evaluations on the CPU, unless the policy is a TinyLM.
	unfinished unfinished
	old        oldPolicy // samples the rollouts, unless that is the policy itself
	scorers    scorers
	learner    model.Learner
	opt        *model.AdamW
	critic     model.Critic // only with PPO
	updater    updater
	loss       rl.LossConfig // of completions; adaptive entropy changes its coefficient
	// advantage is algorithm.advantage_expr; nil without.
	advantage *formula.Advantage
	// skipsFlat: updates leave out completions of advantage 0: those of a decoder always do where that is exact,
	// unless an earlier policy samples: its completions say nothing about the current policy's entropy and ratio.
	// TinyLM computes them unless told otherwise, because the sums over fewer tokens have other last bits.
	skipsFlat   bool
	microTokens int // the bound of [trainer.parts]; 0 = none

	// The rest of a checkpoint, besides parameters and moments.
	state  state
	inputs inputs
	files  map[string]string // the SHA-256 of the files that the run reads, by path

	// The run's folder. Before each write, hold.Check says whether it still is this process's.
	hold   *rundir.Hold
	need   budget.Memory // the estimate for an unfinished run
	logs   logs
	events events
	saved  int // step of last.safetensors; -1 = no valid one
	// Times of the last checkpoint, or of the start before the first, and of the last status.
	savedAt, statusAt time.Time
	disk              writer
	notes             []string // written to run.log when it is open
}

// Run makes the run of cfg in opts.Dir, continues it from its last checkpoint, or returns the
// result already in the folder. A run that diverged is a result, not an error.
//
// Errors: a folder with another configuration's run, unreadable problems, a checkpoint of another
// size, files that can't be written; [rundir.LockedError] if another process has the folder or took
// it over; and [rundir.ErrInterrupted] if ctx ended.
func Run(ctx context.Context, cfg config.Config, opts Options) (*rundir.Result, error) {
	cfg = config.Resolve(cfg)
	if err := config.Validate(&cfg); err != nil {
		return nil, err
	}
	opts.Threads = cmp.Or(opts.Threads, cores.Threads())
	t := &trainer{cfg: cfg, opts: opts, ctx: ctx, clock: newStopwatch(opts.Now)}
	if done, err := t.result(); done != nil || err != nil {
		return done, err
	}
	defer t.close() // also after prepare failed
	// Read all input first: bad input should not leave a folder.
	if err := t.prepare(); err != nil {
		return nil, err
	}
	if err := t.tryRewards(); err != nil {
		return nil, err
	}
	var err error
	t.hold, err = rundir.Acquire(opts.Dir, rundir.KindRun, t.isSame)
	if err != nil {
		return nil, err
	}
	defer t.hold.Release()
	done, err := t.open()
	if done != nil || err != nil {
		return done, err
	}
	if err := t.openEvents(); err != nil {
		return nil, err
	}
	tee, err := openTee(t.path(rundir.LogFile), opts.Observer, opts.Now)
	if err != nil {
		return nil, err
	}
	defer tee.Close()
	t.opts.Observer = tee
	res, err := t.loop()
	if derr := t.disk.wait(); err == nil { // after an error tasks may be left
		err = derr
	}
	lost := t.hold.Check()
	switch {
	case lost != nil: // the folder is another process's, and so is the reason of any other error
		return nil, lost
	case errors.Is(err, rundir.ErrInterrupted):
		tee.write("%v", err)
		_ = t.writeStatus(rundir.StateInterrupted, "") // otherwise it would look killed
	case err != nil:
		tee.write("failed: %v", err)
		if t.logs[rundir.MetricsFile].StillThere() == nil { // otherwise the folder was replaced
			// A failure to write the status is less important than err.
			_ = t.writeStatus(rundir.StateFailed, err.Error())
		}
	default:
		tee.write("%s, checks: %d passed", res.Status, res.Checks)
	}
	return res, err
}

// prepare loads the problems and builds the network, rewards and optimizer.
func (t *trainer) prepare() error {
	var err error
	if t.data.problems, err = dataset.Of(t.cfg); err != nil {
		return err
	}
	if p := t.data.problems; len(p.Train) == 0 || len(p.Val) == 0 {
		return config.Invalid(fmt.Errorf("load problems: %d to train on, %d to validate on: a run needs both",
			len(p.Train), len(p.Val)))
	}
	if t.model, err = policy.Of(t.cfg); err != nil {
		return err
	}
	if t.data.template, err = t.model.Template(t.cfg.Data); err != nil {
		return err
	}
	if err := t.checkSplits(); err != nil {
		return err
	}
	if err := t.model.CheckEnd(); err != nil {
		return err
	}
	if err := infer.CheckContext(t.model, t.data.template, infer.PromptSets(t.cfg, t.data.problems)...); err != nil {
		return err
	}
	if err := t.data.readPairs(t.model, t.cfg); err != nil {
		return err
	}
	if err := t.checkRoom(); err != nil {
		return err
	}
	if err := t.build(); err != nil {
		return err
	}
	t.opts.Progress.Do("computing the checksum of the weights")
	if err := t.inputs.hash(t.cfg, &t.data, t.Policy); err != nil {
		return err
	}
	if t.files, err = (inputfiles.Hashes{}).Sums(pathsOf(t.cfg)); err != nil {
		return err
	}
	for _, o := range t.opts.Others {
		if err := t.sameAs(o); err != nil {
			return err
		}
	}
	return nil
}

// checkRoom checks the memory and the disk space for an unfinished run; showing a result needs none.
func (t *trainer) checkRoom() error {
	if _, err := os.Stat(t.path(rundir.ResultFile)); err == nil {
		return nil
	}
	t.need = t.data.memory(t.model, t.cfg, t.opts.Threads)
	if err := t.opts.Memory.Pass(t.need); err != nil {
		return err
	}
	return t.opts.Disk.Pass(t.opts.Dir, budget.DiskOf(t.model, t.cfg).Less(t.opts.Dir).Peak)
}

// MemoryOf bounds the memory of a resolved configuration's run over these problems.
func MemoryOf(m *policy.Model, cfg config.Config, p *dataset.Splits, threads int) (budget.Memory, error) {
	d := trainData{problems: p}
	var err error
	if d.template, err = m.Template(cfg.Data); err != nil {
		return budget.Memory{}, err
	}
	if err := d.readPairs(m, cfg); err != nil {
		return budget.Memory{}, err
	}
	return d.memory(m, cfg, threads), nil
}

// memory bounds the memory of a run over these data.
func (d *trainData) memory(m *policy.Model, cfg config.Config, threads int) budget.Memory {
	train := d.problems.Train
	of := budget.Data{Train: train, All: [][]gsm8k.Problem{train}, Template: d.template, Pairs: d.pairs.list}
	for _, s := range d.problems.Evaluated() {
		of.All = append(of.All, s.Problems)
		if len(s.Problems) <= len(of.Evaluated) {
			continue
		}
		of.Evaluated, of.Smaller = s.Problems, "eval.set_size"
		switch s.Name {
		case rundir.SplitFinal:
			of.Smaller = "eval.final_size"
		case rundir.SplitVal, rundir.SplitTest, rundir.SplitUnseen:
			of.Smaller = "data." + s.Name + "_size"
		}
	}
	return budget.Run(m, cfg, of, threads)
}

// build makes the rewards, the network and its optimizer.
func (t *trainer) build() error {
	var err error
	note := func(s string) { t.opts.Observer.Note(s) } // the observer changes when run.log is open
	if t.rewards, err = infer.OpenRewards(t.ctx, t.cfg, t.data.template, t.opts.Threads, note); err != nil {
		return err
	}
	if t.judge, err = infer.OpenJudge(t.ctx, t.cfg, t.data.template, t.opts.Threads, note); err != nil {
		return err
	}
	if t.Network, err = t.model.Open(t.cfg.Seed, t.opts.Threads, t.stepWork(), t.opts.Progress); err != nil {
		return err
	}
	if t.cfg.Rollout.LogProbs == "sampled" && t.Device.GPU != nil {
		return config.Invalid(fmt.Errorf("rollout.logprobs sampled: %w; set model.device to cpu, or leave logprobs out",
			model.ErrKept))
	}
	if len(t.cfg.Data.Stop) > 0 && t.Device.GPU != nil && !t.model.IsDecoder() {
		return config.Invalid(fmt.Errorf("data.stop: %w; set model.device to cpu, or leave stop out", model.ErrStop))
	}
	if t.folder, err = t.model.Folder(false); err != nil {
		return err
	}
	t.disk.background = t.folder != nil
	c := t.cfg.Train
	coefficients := model.NewAdamWOptions(c.AdamBetas, c.AdamEps, c.WeightDecay)
	t.opt = model.NewAdamW(t.Params, coefficients)
	t.opt.Pool = t.Pool
	if t.learner, err = t.Policy.NewLearner(t.temperature(), c.GradientCheckpointing); err != nil {
		return policy.LearnerError(err)
	}
	a := t.cfg.Algorithm
	if err := a.CheckGradient(); err != nil {
		return config.Invalid(fmt.Errorf("check algorithm.loss_expr, %s: %w", a.LossExpr, err))
	}
	t.loss = a.Loss()
	if t.advantage, err = a.AdvantageFormula(); err != nil {
		return config.Invalid(err)
	}
	t.skipsFlat = a.SkipFlatGroups || a.SkippingIsExact() && t.model.IsDecoder() && !t.cfg.Rollout.Stale()
	t.microTokens = t.model.MicroBatchTokens(t.cfg.Train.MicroBatchTokens)
	t.state.EntropyCoef, t.state.EntropyApply = a.EntropyCoef, a.EntropyCoef
	if a.Type == "ppo" {
		if t.critic, err = t.Policy.NewCritic(coefficients, c.GradientCheckpointing); err != nil {
			return err
		}
	}
	t.data.encode(t.Policy, t.cfg.Seed)
	if t.cfg.Rollout.Stale() {
		if err := t.renewOld(); err != nil {
			return err
		}
	}
	return t.openScorers()
}

// interruptedEarly is the error of a run that is interrupted before its loop, which continues if it has a checkpoint.
func (t *trainer) interruptedEarly() error {
	if _, err := os.Lstat(rundir.CheckpointIn(t.opts.Dir, "last")); err != nil {
		return rundir.ErrNothingSaved
	}
	return t.interruptedAfter(rundir.SavedStep(t.opts.Dir))
}

// stepWork estimates the operations per step before the policy is made. Lengths are unknown: it uses half the limit
// for prompts and for completions.
func (t *trainer) stepWork() float64 {
	c := t.cfg.Rollout
	tokens, rows := c.SamplingMaxTokens/2+1, c.RolloutBatchSize
	inputs := rows*tokens + rows/max(1, c.GroupSize)*tokens
	forward := t.model.Size.Forward(inputs, rows*tokens)
	return forward.Nominal + float64(float64(t.cfg.Train.EpochsPerRolloutBatch)*forward.Update().Nominal)
}

func (t *trainer) close() {
	if t.learner != nil {
		_ = t.learner.Close() // frees memory only
	}
	if t.critic != nil {
		_ = t.critic.Close()
	}
	t.scorers.close()
	for _, s := range []model.Sampler{t.sampler, t.old.sampler} {
		if s != nil {
			s.Close()
		}
	}
	t.Network.Close()
	t.logs.close()
	t.unfinished.close()
	if t.rewards != nil {
		t.rewards.Close()
	}
	if t.judge != nil {
		t.judge.Close()
	}
	t.events.close()
}

// finish evaluates the splits of the last evaluation, and then writes the result.
func (t *trainer) finish() (*rundir.Result, error) {
	s := &t.state
	if err := t.Params.Pull(); err != nil {
		return nil, err
	}
	if err := t.evaluateFinal(); err != nil {
		return nil, err
	}
	if len(t.data.problems.Test) > 0 && s.Test == nil {
		test, err := t.evaluateSplit(rundir.SplitTest, t.data.problems.Test, s.Step, t.cfg.Eval.LastSamples(), nil)
		if err != nil {
			return nil, err
		}
		s.Test = &test
	}
	if err := t.evaluateSets(s.Step); err != nil {
		return nil, err
	}
	res := &rundir.Result{
		Status: rundir.StateDone, DivergedAt: s.DivergedAt, DivergedReason: s.DivergedReason,
		Name: t.cfg.Name, Seed: t.cfg.Seed, LearningRate: t.cfg.Train.LearningRate,
		Steps: s.Step, Updates: t.opt.T, Parameters: t.Params.Count(),
		Initial: s.Initial, Final: s.Final, BestStep: s.Best.Step, Best: s.Best, Unseen: s.Unseen, Test: s.Test,
		Sets:          s.Sets,
		WeightsSHA256: t.Params.Hash(),
		WallS:         t.clock.seconds() + s.Elapsed,
		Checks:        s.Checks,
	}
	if s.DivergedAt != nil {
		res.Status = rundir.StateDiverged
	}
	res.Warnings = t.warnings(res.WeightsSHA256)
	// The checkpoint of a large network is not written a second time for the test's evaluation. A step that diverged may
	// have moved the weights.
	if t.folder == nil || t.saved != s.Step || s.Stopped {
		if err := t.save(); err != nil {
			return nil, err
		}
	}
	if err := t.disk.wait(); err != nil {
		return nil, err
	}
	if err := t.derived(); err != nil {
		return nil, err
	}
	if err := t.writeStatus(res.Status, ""); err != nil {
		return nil, err
	}
	res.Files = map[string]string{rundir.ConfigFile: rundir.PrefixOf(config.Marshal(t.cfg)).SHA256}
	for name, p := range t.logs.prefixes() {
		res.Files[name] = p.SHA256
	}
	if err := t.hold.Check(); err != nil {
		return nil, err
	}
	if err := rundir.WriteJSON(t.path(rundir.ResultFile), res); err != nil {
		return nil, err
	}
	// Only now: a full disk or a kill before this would cost the evaluations.
	if err := t.unfinished.remove(t.path(UnfinishedFile)); err != nil {
		return nil, err
	}
	return res, t.keepBest()
}
