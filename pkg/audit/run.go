package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/sweepdir"
)

// Options say how an audit is run.
type Options struct {
	Infer   infer.Options // but for the configuration
	Command []string      // the command line, for the record
	Placebo bool          // train the placebos that are missing
	Launch  launch.Options
	// Table shows the placebos' runs.
	Table func(sweepdir.Manifest) launch.Observer
}

// Run samples and trains what is missing in the folder dir, and writes the answers there. It returns the paths.
//
// [rundir.ErrInterrupted] is an audit that the same command continues, [rundir.ErrNothingSaved] one that has nothing
// yet.
func (s *Subject) Run(ctx context.Context, dir string, o Options) (*report.Audit, []string, error) {
	logs, err := rundir.ReadAudit(dir)
	if err != nil {
		return nil, nil, err
	}
	in, err := s.sample(ctx, logs, o)
	err = errors.Join(err, logs.Close())
	switch {
	case errors.Is(err, rundir.ErrInterrupted) && len(logs.Draws) == 0:
		return nil, nil, rundir.ErrNothingSaved
	case errors.Is(err, rundir.ErrInterrupted):
		return nil, nil, fmt.Errorf("%w: the same command continues (%s)", rundir.ErrInterrupted, dir)
	case err != nil:
		return nil, nil, err
	}
	notes := []string{}
	placebos, why, err := s.placebos(ctx, filepath.Join(dir, rundir.AuditPlaceboDir), o)
	if err != nil {
		return nil, nil, err
	}
	if in.Placebos = placebos; why != "" {
		notes = append(notes, why)
	}
	if len(s.Runs) == 0 {
		notes = append(notes, "These are weights without a run: what a run stores of other sets of problems is missing.")
	}
	a := report.NewAudit(analysis.NewAudit(*in), s.Title, notes, o.Command, s.Runs)
	paths, err := a.Write(dir)
	return a, paths, err
}

// sample is what the answers need of the policies.
func (s *Subject) sample(ctx context.Context, logs *rundir.AuditLogs, o Options) (*analysis.AuditInput, error) {
	opts := o.Infer
	opts.Config = s.Config
	sampled, err := infer.Audit(ctx, infer.AuditOptions{
		Options: opts, Trained: s.Trained, Split: s.Split, Problems: s.Problems, Samples: s.Samples, Logs: logs})
	if err != nil {
		return nil, err
	}
	in := &analysis.AuditInput{Split: s.Split, Base: sampled.Base}
	for i, d := range sampled.Trained {
		run := analysis.AuditedRun{Draw: d, Drift: sampled.Drift[i]}
		if i < len(s.Runs) {
			run.Run = s.Runs[i]
		}
		in.Runs = append(in.Runs, run)
	}
	return in, nil
}

// Rewards of the placebos.
const (
	randomReward   = "random"
	constantReward = "constant"
)

// placeboRequest is the recipe of c with two rewards that say nothing about the answer.
func placeboRequest(c config.Config, seeds []uint64) sweep.Request {
	arm := func(name string, more ...sweep.Setting) sweep.ArmRequest {
		more = append(more, sweep.Setting{Key: "reward.functions", Value: "[" + name + "]"},
			sweep.Setting{Key: "reward.reward_weights", Value: "[1]"})
		// Parameters of other rewards would have no effect, which is an error.
		for _, s := range config.Resets(c, "reward.noise.", "reward.cosine_", "reward.repetition_", "reward.overlong_") {
			more = append(more, sweep.Setting{Key: s.Key, Value: s.Value})
		}
		return sweep.ArmRequest{Name: name, Label: name + " reward", Control: true, Set: more}
	}
	custom := fmt.Sprintf("reward.custom.%d.", len(c.Reward.Custom))
	return sweep.Request{
		Name: "placebo", Title: "Placebo rewards", Question: "Does the recipe gain without a reward for right answers?",
		Arms: []sweep.ArmRequest{arm(randomReward), arm(constantReward,
			sweep.Setting{Key: custom + "name", Value: constantReward},
			sweep.Setting{Key: custom + "pattern", Value: "^"})}, // matches all
		Seeds: seeds,
	}
}

// placebos trains the recipe with other rewards, or finds it trained. why says what is missing; an error ends the
// audit.
func (s *Subject) placebos(ctx context.Context, dir string, o Options) (out []analysis.PlaceboRuns, why string,
	err error) {
	if len(s.Runs) == 0 {
		return nil, "The placebos are missing: these are weights without a recipe.", nil
	}
	a := s.Config.Algorithm
	if f, err := a.AdvantageFormula(); err == nil && f != nil && f.Names("right") {
		return nil, "There are no placebos: algorithm.advantage_expr names right, whatever the rewards are.", nil
	} else if a.Teacher != "" {
		return nil, "There are no placebos: the teacher teaches, whatever the rewards are.", nil
	}
	var seeds []uint64
	for _, r := range s.Runs {
		seeds = append(seeds, r.Result.Seed)
	}
	plan, err := sweep.NewPlan(placeboRequest(s.Config, seeds), sweep.PlanOptions{
		Command: "audit", Path: filepath.Join(s.Runs[0].Dir, rundir.ConfigFile), Argv: o.Command,
		Flags: []config.Flag{{Key: "launcher.type", Name: "grpo audit", Value: "local"}},
	})
	if err != nil {
		return nil, fmt.Sprintf("The placebos are missing: this recipe can't have another reward (%v).", err), nil
	}
	if o.Placebo {
		if why, err = s.train(ctx, dir, plan, o); err != nil {
			return nil, "", err
		}
	}
	sw, err := sweepdir.Open(dir)
	if err != nil || sw.Manifest.Hash != plan.Manifest.Hash {
		return nil, cmp.Or(why, "The placebos are missing: --placebo trains them."), nil
	}
	for i, arm := range sw.Manifest.Arms {
		out = append(out, analysis.PlaceboRuns{Reward: arm.Name, Runs: analysis.RunsOf(sw.OfArm(i))})
	}
	return out, why, nil
}

// train trains the runs of the plan that are missing. Runs that fail are missing on the page.
func (s *Subject) train(ctx context.Context, dir string, plan *sweep.Plan, o Options) (why string, err error) {
	if sw, err := sweepdir.Open(dir); err == nil && sw.Manifest.Hash == plan.Manifest.Hash && sw.Unfinished() == 0 {
		return "", nil
	}
	located, err := sweep.Locate(dir, plan)
	if err != nil {
		return "", err
	}
	job := &launch.Job{Dir: dir, Sweep: located, Options: o.Launch}
	job.Observer = o.Table(located.Manifest)
	_, err = launch.Run(ctx, job)
	switch {
	case errors.Is(err, rundir.ErrInterrupted):
		return "", fmt.Errorf("%w: the same command continues with the placebos (%s)", rundir.ErrInterrupted, dir)
	case err != nil:
		return "Placebos are missing: " + textutil.Printable(err.Error(), 300), nil
	}
	return "", nil
}
