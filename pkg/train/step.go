package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/rundir"
)

// This file is the training loop, from top to bottom:
//
//	loop       all steps of a run
//	step       one train step, with its evaluation, its line of metrics and its checkpoint
//	trainStep  rollout -> score -> advantages -> update -> metrics
//
// Each part is in the file of its name: rollout.go, score.go, advantage.go and update.go; ppo.go has
// the critic, dpo.go pairs. checks.go has the invariants that are checked on the way.

// loop runs the remaining steps.
func (t *trainer) loop() (*rundir.Result, error) {
	steps := t.cfg.Train.NGRPOSteps
	t.opts.Observer.Begin(t.state.Step, steps)
	t.savedAt = t.clock.start
	for _, n := range append(t.notes, t.Device.Notes...) {
		t.opts.Observer.Note(n)
	}
	t.sampler = t.Policy.NewSampler()
	if t.state.Initial.Split == "" { // not evaluated yet
		if t.ctx.Err() != nil {
			return nil, rundir.ErrNothingSaved
		}
		t.noteObstacles()
		if err := t.evaluate(0); err != nil {
			return nil, err
		}
		if err := t.checkpoint(rundir.StateRunning); err != nil {
			return nil, err
		}
	}
	for step := t.state.Step + 1; step <= steps && !t.stopped(); step++ {
		if t.ctx.Err() != nil {
			return nil, t.interrupt()
		}
		before := t.state
		if err := t.step(step); err != nil {
			var d *divergence
			switch {
			case errors.Is(err, context.Canceled): // while a reward function was at work: no weight has moved
				t.state = before
				return nil, t.interrupt()
			case !errors.As(err, &d):
				return nil, err
			}
			t.diverge(step, d)
		}
	}
	return t.finish()
}

// interrupt saves a checkpoint after the last step.
func (t *trainer) interrupt() error {
	if err := t.checkpoint(rundir.StateInterrupted); err != nil {
		return err
	}
	return t.interruptedAfter(t.state.Step)
}

// interruptedAfter is the error of a run that has a checkpoint after a step.
func (t *trainer) interruptedAfter(step int) error {
	return fmt.Errorf("%w after step %d of %d; the same command continues",
		rundir.ErrInterrupted, step, t.cfg.Train.NGRPOSteps)
}

// step makes one train step, then evaluates and saves a checkpoint if due.
func (t *trainer) step(step int) error {
	lap := newStopwatch(t.opts.Now).lap
	r, m, err := t.trainStep(step, lap)
	if err != nil {
		return err
	}
	t.state.Step = step
	t.state.count(r)

	// Evaluate.
	evaluate := step == t.cfg.Train.NGRPOSteps || step%t.cfg.Eval.EveryNSteps == 0
	due := t.checkpointDue(step, evaluate)
	if evaluate || due {
		t.opts.Progress.Do("waiting for the disk")
		if err := t.disk.wait(); err != nil { // one set of files at a time
			return err
		}
	}
	if evaluate {
		if err := t.evaluate(step); err != nil {
			return err
		}
		for _, s := range r.samples(step, t.cfg.Eval.SaveSamples, t.data.template) {
			if err := t.logs[rundir.SamplesFile].Append(s); err != nil {
				return err
			}
		}
	}
	m.Time.EvalS = lap()

	// Log.
	if s := m.Time.RolloutS + m.Time.UpdateS; s > 0 {
		m.Time.TokensPerS = float64(r.tokens) / s
	}
	m.Time.ElapsedS = t.clock.seconds() + t.state.Elapsed
	if err := t.checkLine(m); err != nil {
		return err
	}
	if err := t.append(rundir.MetricsFile, m); err != nil {
		return err
	}
	t.opts.Observer.Step(m)

	// Save.
	if due {
		return t.checkpoint(rundir.StateRunning)
	}
	if evaluate || t.opts.Now().Sub(t.statusAt) >= statusEvery {
		return t.writeStatus(rundir.StateRunning, "")
	}
	return nil
}

// trainStep samples a batch of completions and trains the policy on them. It
// returns the rollout and its metrics.
func (t *trainer) trainStep(step int, lap func() float64) (*rollout, rundir.Metrics, error) {
	m := rundir.Metrics{Step: step}

	// Rollout: sample groups of completions, grade and reward each completion; or take pairs of a file.
	r, err := t.rollout(step)
	if err != nil {
		return nil, m, err
	}
	m.Time.RolloutS = max(0, lap()-r.rewardS)

	// Score: log-probabilities under the reference policy and the teacher.
	if err := t.scoreTokens(r); err != nil {
		return nil, m, err
	}

	// Advantages: compare the rewards of each group.
	if err := t.advantages(r, step); err != nil {
		return nil, m, err
	}
	r.addMetrics(&m, t.cfg.Reward.Functions)
	m.Time.RewardS = r.rewardS + lap()

	// Update: passes over the rollout in train batches and micro-batches.
	u, err := t.update(r, step)
	if err != nil {
		return nil, m, err
	}
	u.addMetrics(&m)
	m.Updates = t.opt.T
	if t.isDPO() {
		t.addPreference(&m, r, u)
	}
	if t.cfg.Algorithm.UseAdaptiveEntropy {
		coef := t.state.EntropyApply
		m.EntropyCoef = &coef
	}
	if err := t.syncReference(step); err != nil {
		return nil, m, err
	}
	if err := t.resample(step); err != nil {
		return nil, m, err
	}
	t.adaptEntropy(u.bonusEntropy(m.Entropy))
	m.Time.UpdateS = lap()
	return r, m, nil
}

func (r *rollout) addMetrics(m *rundir.Metrics, rewardFunctions []string) {
	if r.problems == nil {
		r.addPairMetrics(m)
		return
	}
	var tally infer.Counter
	for i, x := range r.completions {
		tally.Add(r.verdicts[i], x)
	}
	counts := tally.Counts()
	m.Reward = describe(r.rewards)
	m.AnswerReward, m.FormatReward = counts.AnswerReward, counts.FormatReward
	m.Rewards = map[string]rundir.Stat{}
	for f, name := range rewardFunctions {
		m.Rewards[name] = describe(r.byFunction[f])
	}
	m.Columns, m.Noise = columnStats(r.columns), r.noiseMetrics()
	m.FracRewardZeroStd = float64(r.zeroVariance) / float64(r.groups())
	m.Length, m.LengthRight, m.LengthWrong = counts.Length, counts.LengthRight, counts.LengthWrong
	m.FracTruncated = float64(counts.Truncated) / float64(counts.N)
	m.KeptMass = r.keptMass()
	if r.rounds > 1 {
		m.SamplingRounds = r.rounds
	}
}

// noiseMetrics are what reward.noise did to the verdicts; nil without.
func (r *rollout) noiseMetrics() map[string]float64 {
	if r.noise.True == nil {
		return nil
	}
	m := map[string]float64{
		"true_answer_reward": mean(scored(r.noise.True)), "noisy_answer_reward": mean(scored(r.noise.Noisy)),
		"false_positives": 0, "false_negatives": 0,
	}
	for i, right := range r.noise.True {
		switch r.noise.Noisy[i] - right {
		case 1:
			m["false_positives"]++
		case -1:
			m["false_negatives"]++
		}
	}
	flat := 0
	for lo := 0; lo < len(r.noise.True); lo += r.groupSize {
		if zeroVariance(r.noise.True[lo : lo+r.groupSize]) {
			flat++
		}
	}
	m["frac_true_reward_zero_std"] = float64(flat) / float64(r.groups())
	return m
}

// columnStats are the mean and the standard deviation of the numbers in columns.
func columnStats(columns []map[string]any) map[string]rundir.Stat {
	numbers := map[string][]float64{}
	for _, c := range columns {
		for name, v := range c {
			if x, ok := v.(float64); ok {
				numbers[name] = append(numbers[name], x)
			}
		}
	}
	var out map[string]rundir.Stat
	for name, x := range numbers {
		if out == nil {
			out = map[string]rundir.Stat{}
		}
		out[name] = describe(x)
	}
	return out
}

func (s *updateStats) addMetrics(m *rundir.Metrics) {
	m.Loss, m.GradNorm = s.loss/float64(s.updates), s.norm/float64(s.updates)
	m.LearningRate = s.rate
	m.Entropy = s.entropy / float64(s.entropyTokens) // NaN without tokens
	m.ClipFraction, m.RatioMean = s.policy.ClipFraction(), s.policy.MeanRatio()
	m.ApproxKL, m.ReferenceKL = s.policy.ApproxKL(), s.policy.MeanRefKL()
	m.ValueLoss = s.valueLoss
	m.SamplerDiff = s.maxDiff
}

// describe returns the mean and the sample standard deviation of the values that
// are not NaN; NaN if there are none.
func describe(x []float64) rundir.Stat {
	x = scored(x)
	s := rundir.Stat{Mean: mean(x)}
	if len(x) == 0 {
		s.Std = math.NaN()
	}
	if n := float64(len(x)); n > 1 {
		var sq float64
		for _, v := range x {
			sq += float64((v - s.Mean) * (v - s.Mean))
		}
		s.Std = math.Sqrt(sq / (n - 1))
	}
	return s
}

// scored are the rewards that are not NaN.
func scored(rewards []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(rewards), math.IsNaN)
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// samples returns the first n completions of the rollout for samples.jsonl.
func (r *rollout) samples(step, n int, template gsm8k.Template) []rundir.Sample {
	var out []rundir.Sample
	if r.problems == nil { // pairs of a file
		return nil
	}
	for i := range min(n, len(r.completions)) {
		out = append(out, infer.NewSample(template, r.problems[i/r.groupSize], r.completions[i], r.texts[i], r.verdicts[i]))
		out[i].Step, out[i].Split, out[i].Decoding, out[i].Reward = step, "train", "sampled", r.rewards[i]
		if r.columns != nil {
			out[i].Columns = r.columns[i]
		}
	}
	return out
}
