package train

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rl"
)

// reward grades each completion once and computes its rewards.
func (t *trainer) reward(r *rollout, step, round int) (err error) {
	t.opts.Progress.Do("computing rewards")
	inputs := make([]gsm8k.RewardInput, len(r.completions))
	r.texts, r.verdicts = make([]string, len(inputs)), make([]gsm8k.Verdict, len(inputs))
	forEach(t.pool, len(inputs), func(i int) {
		prompt, sample := i/r.groupSize, i%r.groupSize
		noise := gsm8k.RewardNoise(t.cfg.Seed, step, round*roundStride+prompt, sample)
		inputs[i] = rewardInput(t.policy, t.cfg, r.completions[i], r.problems[prompt], &r.verdicts[i], noise)
		r.texts[i] = inputs[i].Completion
	})
	if r.byFunction, r.columns, err = t.rewards.compute(t.pool, inputs, r.groupSize, step); err != nil {
		return err
	}
	if r.rewards, err = rl.CombineRewards(r.byFunction, t.cfg.Reward.RewardWeights); err != nil {
		return fmt.Errorf("reward step %d: %w", step, err)
	}
	return nil
}

// forEach calls f for each of n completions, on any worker: f is a function of one completion.
func forEach(pool *kernel.Pool, n int, f func(i int)) {
	const chunk = 64
	pool.Run((n+chunk-1)/chunk, func(task, _ int) {
		for i := task * chunk; i < min(n, (task+1)*chunk); i++ {
			f(i)
		}
	})
}

// rewardInput decodes a completion and grades it into verdict.
func rewardInput(tok model.Tokenizer, c config.Config, x model.Completion, p gsm8k.Problem, verdict *gsm8k.Verdict,
	noise float64) gsm8k.RewardInput {
	text := tok.Decode(x.Tokens)
	*verdict = gsm8k.Grade(text, x.Ended, p.Gold)
	return gsm8k.RewardInput{
		Completion: text, TokenIDs: x.Tokens, Tokens: len(x.Tokens), MaxTokens: c.Rollout.SamplingMaxTokens,
		Ended: x.Ended, Problem: p, Verdict: verdict, Noise: noise,
	}
}

// rewardGreedy decodes each prompt greedily and computes its reward: the baseline of ReMax
// (arXiv:2310.10505).
func (t *trainer) rewardGreedy(r *rollout, step int) error {
	opt := samplingOf(t.cfg.Rollout)
	opt.Greedy = true
	opt.Watch = t.opts.Progress.Watch("sampling greedily", len(r.prompts), opt.MaxTokens, nil)
	out, err := t.rolloutSampler().Sample(r.prompts, 1, opt, model.Draws{})
	if err != nil {
		return fmt.Errorf("decode greedily in step %d: %w", step, err)
	}
	inputs := make([]gsm8k.RewardInput, len(out))
	for i, x := range out {
		noise := gsm8k.RewardNoise(t.cfg.Seed, step, i, r.groupSize) // a sample number after the group's
		inputs[i] = rewardInput(t.policy, t.cfg, x, r.problems[i], new(gsm8k.Verdict), noise)
	}
	byFunction, _, err := t.rewards.compute(t.pool, inputs, 1, step) // (F,N/G)
	if err != nil {
		return err
	}
	r.greedyRewards, err = rl.CombineRewards(byFunction, t.cfg.Reward.RewardWeights)
	return err
}

// scorers compute log-probabilities and entropies of sampled tokens. A scorer that the
// configuration does not need is nil.
type scorers struct {
	referencePolicy model.Policy // of the KL term or of pairs
	reference       model.Scorer
	teacher         model.Scorer
	policy          model.Scorer // the policy itself: for entropies before the update, and for pairs
	old             model.Scorer // the policy itself: see [trainer.scoreOld]
	half            model.Scorer // the policy at half the temperature: see [trainer.pairBatch]
}

func (t *trainer) openScorers() error {
	a, temperature := t.cfg.Algorithm, t.temperature()
	var err error
	if a.Beta != 0 || t.isDPO() && !a.FromFile() {
		t.scorers.referencePolicy = t.policy.Copy()
		if t.scorers.reference, err = t.scorers.referencePolicy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.Teacher != "" {
		t.opts.Progress.Do("opening the teacher " + a.Teacher)
		teacher, err := newTeacher(a.Teacher, t.policy, t.device.on)
		if err != nil {
			return err
		}
		t.inputs.Teacher, t.inputs.TeacherNetwork = initHash(teacher), networkHash(teacher)
		if t.scorers.teacher, err = teacher.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.TopEntropyQuantile < 1 || t.isDPO() && (a.DPO.Preference().NeedsBatch() || a.DPO.EvalPairsFile != "") {
		if t.scorers.policy, err = t.policy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if t.device.gpu != nil && isDecoder(t.cfg.Model) && t.severalUpdates() {
		if t.scorers.old, err = t.policy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if t.isDPO() && a.DPO.UseWeighting {
		if t.scorers.half, err = t.policy.NewScorer(temperature / 2); err != nil {
			return err
		}
	}
	return nil
}

func (s *scorers) close() {
	for _, x := range []model.Scorer{s.reference, s.teacher, s.policy, s.old, s.half} {
		if x != nil {
			_ = x.Close() // frees memory only
		}
	}
}

// scoreTokens fills in the log-probabilities of the reference model and the teacher, and the
// policy's entropies. A scorer's matrix of all N completions is (N,T) and valid until the next
// step.
func (t *trainer) scoreTokens(r *rollout) error {
	score := func(under string, s model.Scorer) (*model.TokenMatrix, error) {
		if s == nil {
			return new(model.TokenMatrix), nil
		}
		t.opts.Progress.Do("scoring the rollout under " + under)
		return s.Score(r.batch(span(0, r.shape.B)))
	}
	reference, err := score("the reference model", t.scorers.reference)
	if err != nil {
		return err
	}
	teacher, err := score("the teacher", t.scorers.teacher)
	if err != nil {
		return err
	}
	policy, err := score("the policy", t.scorers.policy)
	if err != nil {
		return err
	}
	r.reference, r.teacher, r.entropies = reference.LogProbs, teacher.LogProbs, policy.Entropy
	return nil
}

// scoreOld computes the old log-probabilities of a rollout again, in the micro-batches of the
// learner, so that they have the learner's bits. On a GPU a decoder's sampler differs by rounding,
// which in bf16 would move the importance ratios of unchanged weights away from 1.
func (t *trainer) scoreOld(r *rollout) error {
	r.scored = r.old()
	micro := t.cfg.Train.TrainBatchSize / t.cfg.Train.GradientAccumulationSteps
	for at := 0; at < r.shape.B; at += micro {
		t.opts.Progress.Count("scoring the rollout under the policy", "completion", at, r.shape.B)
		rows, _ := t.withoutSkipped(r, span(at, at+micro))
		for _, rows := range t.parts(r, rows, 1) {
			m, err := t.scorers.old.Score(r.batch(rows))
			if err != nil {
				return err
			}
			for k, i := range rows {
				copy(r.scored[i*r.shape.T:][:len(r.completions[i].Tokens)], m.LogProbs[k*m.T:])
			}
		}
	}
	return nil
}

// syncReference moves the reference policy towards the policy
// (algorithm.ref_model_sync_steps).
func (t *trainer) syncReference(step int) error {
	a := t.cfg.Algorithm
	if t.scorers.referencePolicy == nil || a.RefModelSyncSteps == 0 || step%a.RefModelSyncSteps != 0 {
		return nil
	}
	return model.MixInto(t.scorers.referencePolicy.Params(), t.params, a.RefModelMixupAlpha)
}
