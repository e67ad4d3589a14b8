package train

import (
	"fmt"
	"path/filepath"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
)

// laps returns the seconds since it was last called.
func laps(now func() time.Time) func() float64 { return newStopwatch(now).lap }

// learn is what a step learns from and by: rollout, rewards, advantages and
// updates. It fills their part of the line, seconds included.
func (t *trainer) learn(step int, m *rundir.Metrics, lap func() float64) (*rollout, error) {
	m.Step = step
	r, err := t.gather(step)
	if err != nil {
		return nil, err
	}
	m.Time.RolloutS = lap()
	if err := t.judge(r); err != nil {
		return nil, err
	}
	if err := t.advantages(r, step); err != nil {
		return nil, err
	}
	if err := t.checkAdvantages(r, step); err != nil {
		return nil, err
	}
	r.metrics(m, t.cfg.Reward.Functions)
	m.Time.RewardS = lap()
	if t.cfg.Algorithm.UseAdaptiveEntropy {
		coef := t.state.EntropyApply
		m.EntropyCoef = &coef
	}
	if err := t.update(r, m); err != nil {
		return nil, err
	}
	if err := t.afterStep(step, m.Entropy); err != nil {
		return nil, err
	}
	m.Time.UpdateS = lap()
	return r, nil
}

// step makes one step, its line and, where one is due, the evaluation.
func (t *trainer) step(step int) error {
	var m rundir.Metrics
	lap := laps(t.opts.Now)
	r, err := t.learn(step, &m, lap)
	if err != nil {
		return err
	}
	t.state.Step = step
	t.state.note(r)

	last := step == t.cfg.Train.NGRPOSteps
	due := last || step%t.cfg.Eval.EveryNSteps == 0
	if due {
		if _, err := t.evaluate(step); err != nil {
			return err
		}
		for _, s := range r.samples(step, t.cfg.Eval.SaveSamples, t.cfg.Rollout.GroupSize, t.template) {
			if err := t.files.samples.Append(s); err != nil {
				return err
			}
		}
	}
	m.Time.EvalS = lap()
	m.Time.TokensPerS = perSecond(r.tokens, m.Time.RolloutS+m.Time.UpdateS)
	m.Time.ElapsedS = t.clock.seconds() + t.state.Elapsed
	if err := t.checkLine(m); err != nil {
		return err
	}
	if err := t.files.metrics.Append(m); err != nil {
		return err
	}
	t.opts.Observer.Step(m)
	if t.checkpointDue(step, due) {
		return t.checkpoint()
	}
	if due {
		return t.writeStatus(rundir.StateRunning, "")
	}
	return nil
}

// checkpoint saves, and says that the run goes on.
func (t *trainer) checkpoint() error {
	if err := t.save(); err != nil {
		return err
	}
	return t.writeStatus(rundir.StateRunning, "")
}

func perSecond(n int, s float64) float64 {
	if s <= 0 {
		return 0
	}
	return float64(n) / s
}

// evaluate validates the policy as it stands, writes the lines, and keeps the
// best weights.
func (t *trainer) evaluate(step int) (rundir.Eval, error) {
	val, err := t.evaluateSplit("val", t.problems.Val, step)
	if err != nil {
		return val, err
	}
	if len(t.problems.Unseen) > 0 {
		unseen, err := t.evaluateSplit("unseen", t.problems.Unseen, step)
		if err != nil {
			return val, err
		}
		t.state.Unseen = &unseen
	}
	if step == 0 {
		t.state.Initial = val
	}
	t.state.Final = val
	if step == 0 || val.Sampled.AnswerReward > t.state.Best.Sampled.AnswerReward {
		t.state.Best = val
		if err := t.saveBest(step); err != nil {
			return val, err
		}
	}
	t.opts.Observer.Eval(val)
	t.judgeCollapse(val)
	return val, nil
}

func (t *trainer) evaluateSplit(split string, problems []gsm8k.Problem, step int) (rundir.Eval, error) {
	e, samples, err := Evaluate(t.policy, t.sampler, evaluationOf(t.cfg, t.template), split, problems, step)
	if err != nil {
		return e, fmt.Errorf("evaluate %s after step %d: %w", split, step, err)
	}
	if err := t.checkEval(e); err != nil {
		return e, err
	}
	if err := t.files.eval.Append(e); err != nil {
		return e, err
	}
	for _, s := range samples {
		if err := t.files.samples.Append(s); err != nil {
			return e, err
		}
	}
	return e, nil
}

// finish evaluates the test split, once, and writes the result, last of all.
func (t *trainer) finish() (*rundir.Result, error) {
	s := &t.state
	if err := t.params.Pull(); err != nil {
		return nil, err
	}
	if len(t.problems.Test) > 0 && s.Test == nil {
		test, err := t.evaluateSplit("test", t.problems.Test, s.Step)
		if err != nil {
			return nil, err
		}
		s.Test = &test
	}
	res := &rundir.Result{
		Status: rundir.StateDone, DivergedAt: s.DivergedAt, DivergedReason: s.DivergedReason,
		Name: t.cfg.Name, Seed: t.cfg.Seed, LearningRate: t.cfg.Train.LearningRate,
		Steps: s.Step, Updates: t.opt.T, Parameters: t.params.Count(),
		Initial: s.Initial, Final: s.Final, BestStep: s.Best.Step, Best: s.Best, Unseen: s.Unseen, Test: s.Test,
		WeightsSHA256: t.params.Hash(),
		WallS:         t.clock.seconds() + s.Elapsed,
		Checks:        s.Checks,
	}
	if s.DivergedAt != nil {
		res.Status = rundir.StateDiverged
	}
	res.Warnings = t.warnings()
	if err := t.save(); err != nil {
		return nil, err
	}
	if err := t.writeStatus(res.Status, ""); err != nil {
		return nil, err
	}
	res.Files = map[string]string{rundir.ConfigFile: rundir.PrefixOf(config.Marshal(t.cfg)).SHA256}
	for name, p := range t.files.prefixes() {
		res.Files[name] = p.SHA256
	}
	if err := rundir.WriteJSON(filepath.Join(t.opts.Dir, rundir.ResultFile), res); err != nil {
		return nil, err
	}
	return res, t.keepBest()
}
