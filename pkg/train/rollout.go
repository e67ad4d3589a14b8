package train

import (
	"context"
	"errors"
	"fmt"

	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// rollout is the batch of one step: N completions in groups of G, one group for
// each of N/G prompts. score.go defines the layouts.
type rollout struct {
	groupSize   int                // G
	problems    []gsm8k.Problem    // (N/G)
	prompts     [][]int            // N/G rows of token ids
	completions []model.Completion // (N), each with its tokens and old log-probabilities
	rounds      int                // of sampling (algorithm.dynamic_sampling)
	rewardS     float64            // seconds of grading and of the reward functions
	// current: the policy that sampled is the one that the step's first update changes.
	current bool

	shape  rl.Shape // (N,T)
	mask   []bool   // (N,T), true on tokens
	tokens int      // of all completions

	texts         []string         // (N)
	verdicts      []gsm8k.Verdict  // (N)
	byFunction    [][]float64      // (F,N), one row for each reward function
	rewards       []float64        // (N), weighted sum of byFunction
	columns       []map[string]any // (N), of custom reward functions; nil if they log nothing
	noise         infer.Verdicts   // (N), of reward.noise
	greedyRewards []float64        // (N/G), for the greedy baseline

	reference, teacher []float64 // (N,T), log-probabilities; nil if not needed
	scored             []float64 // (N,T), old log-probabilities of [trainer.scoreOld]; nil: the sampler's
	entropies          []float64 // (N,T), the policy's at sampling time; nil if not needed
	values, returns    []float64 // (N,T), of the critic; nil without

	advantages      []float64 // (N), not used if tokens have their own
	tokenAdvantages []float64 // (N,T); nil if all tokens of a completion have the same
	zeroVariance    int       // groups with equal rewards
	zeroAdvantage   int       // groups that are not informative: without an advantage, or without a pair
	pairs           pairRows  // of dpo; nil without
	identicalPairs  int       // that dpo left out
}

func (r *rollout) groups() int { return len(r.problems) }

// trainData are the problems of a run, the training problems ready for rollouts.
type trainData struct {
	problems *dataset.Splits
	template gsm8k.Template
	prompts  [][]int    // ragged: the token ids of each training problem's prompt
	order    rng.Epochs // in which the training problems are drawn, or the pairs of a file
	// pairs and evalPairs are read from files; empty without.
	pairs, evalPairs filePairs
}

// encode fills in prompts and order from the problems and the template.
func (d *trainData) encode(tok model.Tokenizer, seed uint64) {
	d.prompts = policy.EncodePrompts(tok, d.template, d.problems.Train)
	d.order = rng.Epochs{Stream: rng.New(seed, rng.Order), N: len(d.problems.Train)}
	if d.pairs.list != nil {
		d.order.N = len(d.pairs.list)
	}
}

// rollout samples the groups of a step and rewards them. Dynamic sampling (DAPO, arXiv:2503.14476)
// sets aside zero-variance groups and samples new prompts instead, for a limited number of rounds;
// then the groups set aside fill up the batch. Dpo pairs the completions of a group, or takes the
// next pairs of a file instead.
func (t *trainer) rollout(step int) (*rollout, error) {
	c, a := t.cfg.Rollout, t.cfg.Algorithm
	if a.FromFile() {
		return t.drawPairs(), nil
	}
	want := c.RolloutBatchSize / c.GroupSize
	rounds := 1
	if a.DynamicSampling {
		rounds = a.DynamicSamplingMaxRounds
	}
	kept, aside := &rollout{groupSize: c.GroupSize}, &rollout{groupSize: c.GroupSize}
	watch := newStopwatch(t.opts.Now)
	for round := range rounds {
		r, err := t.sample(step, round, want-kept.groups())
		if err != nil {
			return nil, err
		}
		watch.lap()
		if err := t.reward(r, step, round); err != nil {
			return nil, err
		}
		kept.rewardS += watch.lap()
		kept.rounds++
		for g := range r.problems {
			to := kept
			if a.DynamicSampling && equalRewards(r.rewards[g*r.groupSize:(g+1)*r.groupSize]) {
				to = aside
			}
			to.add(r, g)
		}
		if kept.groups() == want {
			break
		}
	}
	if missing := want - kept.groups(); missing > 0 {
		t.note("step %d: %d of %d groups still have equal rewards after %d rounds of sampling; they are "+
			"used as they are",
			step, missing, want, kept.rounds)
		for g := range missing {
			kept.add(aside, g)
		}
	}
	kept.current = c.ResampleEveryNSteps == 1 || t.renewed(step-1)
	kept.layOut()
	if err := t.checkCompletions(kept, step); err != nil {
		return nil, err
	}
	if t.isDPO() {
		return kept, t.makePairs(kept, step)
	}
	if baseline, _ := a.Advantages(); baseline == rl.BaselineGreedy && a.Type != "ppo" {
		return kept, t.rewardGreedy(kept, step)
	}
	return kept, nil
}

// roundStride separates the random numbers of the rounds of a step.
const roundStride = 1 << 20

// sample draws the next groups of problems and samples their completions.
func (t *trainer) sample(step, round, groups int) (*rollout, error) {
	r := &rollout{groupSize: t.cfg.Rollout.GroupSize}
	for range groups {
		k := t.data.order.At(t.state.Drawn)
		t.state.Drawn++
		r.problems = append(r.problems, t.data.problems.Train[k])
		r.prompts = append(r.prompts, t.data.prompts[k])
	}
	opt := infer.RolloutSampling(t.cfg.Rollout, t.data.template, t.Policy)
	opt.Watch = t.opts.Progress.Watch("sampling", groups*r.groupSize, opt.MaxTokens, nil)
	var err error
	r.completions, err = t.rolloutSampler().Sample(r.prompts, r.groupSize, opt, model.Draws{
		Stream: rng.New(t.cfg.Seed, rng.Rollout), A: uint32(step), B: uint32(round * roundStride),
	})
	if err != nil {
		return nil, fmt.Errorf("roll out step %d: %w", step, err)
	}
	return r, nil
}

// add appends group g of another rollout.
func (r *rollout) add(o *rollout, g int) {
	lo, hi := g*r.groupSize, (g+1)*r.groupSize
	r.problems, r.prompts = append(r.problems, o.problems[g]), append(r.prompts, o.prompts[g])
	r.completions = append(r.completions, o.completions[lo:hi]...)
	r.texts, r.verdicts = append(r.texts, o.texts[lo:hi]...), append(r.verdicts, o.verdicts[lo:hi]...)
	r.rewards = append(r.rewards, o.rewards[lo:hi]...)
	r.noise.Append(o.noise, lo, hi)
	if r.byFunction == nil {
		r.byFunction = make([][]float64, len(o.byFunction))
	}
	if o.columns != nil || r.columns != nil {
		before := len(r.completions) - r.groupSize
		r.columns = append(r.columns, make([]map[string]any, before-len(r.columns))...)
		if o.columns == nil {
			r.columns = append(r.columns, make([]map[string]any, r.groupSize)...)
		} else {
			r.columns = append(r.columns, o.columns[lo:hi]...)
		}
	}
	for f := range o.byFunction {
		r.byFunction[f] = append(r.byFunction[f], o.byFunction[f][lo:hi]...)
	}
}

// reward grades each completion once and computes its rewards.
func (t *trainer) reward(r *rollout, step, round int) error {
	t.opts.Progress.Do("computing rewards")
	inputs, scored, err := t.rewards.Score(t.Pool, t.Policy, r.completions, r.problems, step, round*roundStride, 0)
	for _, in := range inputs {
		r.texts, r.verdicts = append(r.texts, in.Completion), append(r.verdicts, *in.Verdict)
	}
	r.byFunction, r.columns, r.rewards, r.noise = scored.ByFunction, scored.Columns, scored.Rewards, scored.Verdicts
	return err
}

// tryRewards calls the custom functions with the worked answer of the first problem, before
// anything is written: a script with a mistake should not leave a folder.
func (t *trainer) tryRewards() error {
	if len(t.cfg.Reward.Custom) == 0 {
		return nil
	}
	p := t.data.problems.Train[0]
	in := infer.RewardInput(t.model, t.cfg, t.data.template, p, p.Answer, true)
	_, err := t.rewards.Compute(t.Pool, []gsm8k.RewardInput{in}, 1, 0)
	if err == nil {
		err = infer.TryJudge(t.judge, in)
	}
	if errors.Is(err, context.Canceled) {
		return t.interruptedEarly()
	}
	return err
}

// rewardGreedy decodes each prompt greedily and computes its reward: the baseline of ReMax
// (arXiv:2310.10505).
func (t *trainer) rewardGreedy(r *rollout, step int) error {
	opt := infer.RolloutSampling(t.cfg.Rollout, t.data.template, t.Policy)
	opt.Greedy = true
	opt.Watch = t.opts.Progress.Watch("sampling greedily", len(r.prompts), opt.MaxTokens, nil)
	out, err := t.rolloutSampler().Sample(r.prompts, 1, opt, model.Draws{})
	if err != nil {
		return fmt.Errorf("decode greedily in step %d: %w", step, err)
	}
	// The sample number of the random reward and of noise is one after the group's.
	_, scored, err := t.rewards.Score(t.Pool, t.Policy, out, r.problems, step, 0, r.groupSize)
	r.greedyRewards = scored.Rewards // (N/G)
	return err
}

// oldPolicy is a copy of the policy from before some of its updates, which samples the rollouts
// (rollout.resample_every_n_steps). It is empty if the policy itself samples. Evaluations are of the
// policy itself.
type oldPolicy struct {
	policy  model.Policy
	sampler model.Sampler
}

func (t *trainer) rolloutSampler() model.Sampler {
	if t.old.sampler != nil {
		return t.old.sampler
	}
	return t.sampler
}

// renewed reports whether, after a step, the old policy is the policy itself.
func (t *trainer) renewed(step int) bool {
	k := t.cfg.Rollout.ResampleEveryNSteps
	return step == 0 || k > 0 && step%k == 0
}

// resample renews the old policy after a step if that is due.
func (t *trainer) resample(step int) error {
	if !t.cfg.Rollout.Stale() || step == 0 || !t.renewed(step) {
		return nil
	}
	return t.renewOld()
}

// renewOld makes the old policy a copy of the policy.
func (t *trainer) renewOld() error {
	if t.old.policy != nil && t.old.policy.Params().Match(t.Params) == nil {
		if err := t.old.policy.Params().Set(t.Params); err != nil {
			return err
		}
		t.old.sampler.Refresh()
		return nil
	}
	// There is none, or it is the base without adapters: see [model.Policy.Copy].
	if err := t.Params.Pull(); err != nil {
		return err
	}
	if t.old.sampler != nil {
		t.old.sampler.Close()
	}
	t.old.policy = t.Policy.Copy()
	t.old.sampler = t.old.policy.NewSampler()
	return nil
}

// hasOld reports whether the checkpoint after a step has the old policy. It does not if that is the
// initial policy or the current one.
func (t *trainer) hasOld(step int) bool {
	k := t.cfg.Rollout.ResampleEveryNSteps
	return k > 1 && step >= k && !t.renewed(step)
}

// oldParams are the parameters of the old policy, in the form of the policy's: those of a base
// without adapters are zeros.
func (t *trainer) oldParams() *model.Params {
	p := t.old.policy.Params()
	if t.Params.Match(p) != nil {
		return t.Params.Zeros()
	}
	return p
}

// adoptOld takes the old policy from a checkpoint. It overwrites the policy's parameters.
func (t *trainer) adoptOld(p *model.Params) error {
	if err := t.Params.Set(p); err != nil {
		return err
	}
	return t.renewOld()
}
