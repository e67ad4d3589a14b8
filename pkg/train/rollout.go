package train

import (
	"fmt"
	"math"
	"math/rand/v2"

	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// order draws from n things, all of them in a new random order before any comes
// again. It is a function of its stream and the position, so that a resumed run
// has to remember the position only; and since the stream depends on the seed
// alone, arms of a sweep with the same seed meet the same problems in the same
// order (as long as they draw as many: dynamic sampling draws more).
type order struct {
	stream rng.Stream
	place  uint32 // keeps the orders of one stream apart
	n      int
	epoch  int // whose permutation stands in perm
	perm   []int
}

// at returns the i-th thing drawn.
func (o *order) at(i int) int {
	if epoch := i / o.n; o.perm == nil || epoch != o.epoch {
		o.epoch = epoch
		o.perm = rand.New(o.stream.Sequence(uint32(epoch), o.place, 0)).Perm(o.n)
	}
	return o.perm[i%o.n]
}

// rollout is the batch of one step: groups of completions with their rewards.
type rollout struct {
	problems    []gsm8k.Problem // one for each group
	prompts     [][]int
	completions []model.Completion
	texts       []string
	verdicts    []gsm8k.Verdict
	rewards     []float64   // weighted sum, one for each completion
	byFunction  [][]float64 // one row for each reward function
	tokens      int
	all         whole  // the layout of all completions together
	old         ragged // log-probabilities of sampling time

	rounds        int       // of sampling (algorithm.dynamic_sampling)
	greedyRewards []float64 // one for each group, for the greedy baseline

	reference, teacher, entropies ragged // what the judges say, nil where not asked

	advantages      []float64 // one for each completion
	tokenAdvantages ragged    // in their place where not nil
	values, returns ragged    // of the critic
	stats           rl.AdvantageStats
	silent          int // groups without a learning signal
}

// gather samples and scores the step's groups. With dynamic sampling (DAPO,
// arXiv:2503.14476) groups of equal rewards are put aside and new prompts
// sampled in their place, a limited number of times; what is still missing then
// comes from those put aside.
func (t *trainer) gather(step int) (*rollout, error) {
	c, a := t.cfg.Rollout, t.cfg.Algorithm
	want := c.RolloutBatchSize / c.GroupSize
	rounds := 1
	if a.DynamicSampling {
		rounds = a.DynamicSamplingMaxRounds
	}
	kept, flat := &rollout{}, &rollout{}
	for round := range rounds {
		r, err := t.sample(step, round, want-len(kept.problems))
		if err != nil {
			return nil, err
		}
		if err := t.score(r, step, round); err != nil {
			return nil, err
		}
		kept.rounds++
		for g := range r.problems {
			to := kept
			if a.DynamicSampling && r.flat(g, c.GroupSize) {
				to = flat
			}
			to.take(r, g, c.GroupSize)
		}
		if len(kept.problems) == want {
			break
		}
	}
	if missing := want - len(kept.problems); missing > 0 {
		t.opts.Observer.Note(fmt.Sprintf("step %d: %d of %d groups still have equal rewards after %d rounds of sampling; they are used as they are", step, missing, want, kept.rounds))
		for g := range missing {
			kept.take(flat, g, c.GroupSize)
		}
	}
	for _, x := range kept.completions {
		kept.tokens += len(x.Tokens)
	}
	if err := t.checkCompletions(kept, step); err != nil {
		return nil, err
	}
	kept.all, kept.old = newWhole(kept.completions), sampledLogProbs(kept.completions)
	if baseline, _ := a.Advantages(); baseline == string(rl.BaselineGreedy) && a.Type != "ppo" {
		return kept, t.scoreGreedy(kept, step)
	}
	return kept, nil
}

// flat says whether all rewards of group g are equal.
func (r *rollout) flat(g, group int) bool {
	for i := g*group + 1; i < (g+1)*group; i++ {
		if r.rewards[i] != r.rewards[g*group] {
			return false
		}
	}
	return true
}

// take appends group g of another rollout.
func (r *rollout) take(o *rollout, g, group int) {
	lo, hi := g*group, (g+1)*group
	r.problems, r.prompts = append(r.problems, o.problems[g]), append(r.prompts, o.prompts[g])
	r.completions = append(r.completions, o.completions[lo:hi]...)
	r.texts, r.verdicts = append(r.texts, o.texts[lo:hi]...), append(r.verdicts, o.verdicts[lo:hi]...)
	r.rewards = append(r.rewards, o.rewards[lo:hi]...)
	if r.byFunction == nil {
		r.byFunction = make([][]float64, len(o.byFunction))
	}
	for f := range o.byFunction {
		r.byFunction[f] = append(r.byFunction[f], o.byFunction[f][lo:hi]...)
	}
}

// roundStride keeps the random numbers of the rounds of a step apart.
const roundStride = 1 << 20

// sample draws the next groups of problems and their completions.
func (t *trainer) sample(step, round, groups int) (*rollout, error) {
	c := t.cfg.Rollout
	r := &rollout{}
	for range groups {
		k := t.order.at(t.state.Drawn)
		t.state.Drawn++
		r.problems = append(r.problems, t.problems.Train[k])
		r.prompts = append(r.prompts, t.trainPrompts[k])
	}
	var err error
	r.completions, err = t.sampler.Sample(r.prompts, c.GroupSize, t.sampling(), model.Draws{
		Stream: rng.New(t.cfg.Seed, rng.Rollout), A: uint32(step), B: uint32(round * roundStride),
	})
	if err != nil {
		return nil, fmt.Errorf("roll out step %d: %w", step, err)
	}
	return r, nil
}

// score rewards the completions.
func (t *trainer) score(r *rollout, step, round int) error {
	n := len(r.completions)
	r.texts, r.verdicts = make([]string, n), make([]gsm8k.Verdict, n)
	r.byFunction = make([][]float64, len(t.rewards))
	for f := range r.byFunction {
		r.byFunction[f] = make([]float64, n)
	}
	// Rewards are functions of one completion: any worker may compute any.
	const chunk = 64
	t.pool.Run((n+chunk-1)/chunk, func(task, _ int) {
		for i := task * chunk; i < min(n, (task+1)*chunk); i++ {
			x, prompt, sample := r.completions[i], i/t.cfg.Rollout.GroupSize, i%t.cfg.Rollout.GroupSize
			in := t.rewardInput(x, r.problems[prompt], step, round*roundStride+prompt, sample)
			r.texts[i] = in.Completion
			r.verdicts[i] = gsm8k.Grade(in.Completion, x.Ended, in.Problem.Gold)
			for f, reward := range t.rewards {
				r.byFunction[f][i] = reward(in)
			}
		}
	})
	var err error
	if r.rewards, err = rl.CombineRewards(r.byFunction, t.cfg.Reward.RewardWeights); err != nil {
		return fmt.Errorf("reward step %d: %w", step, err)
	}
	return nil
}

func (t *trainer) rewardInput(x model.Completion, p gsm8k.Problem, step, prompt, sample int) gsm8k.RewardInput {
	return gsm8k.RewardInput{
		Completion: t.policy.Decode(x.Tokens), TokenIDs: x.Tokens, Tokens: len(x.Tokens), MaxTokens: t.cfg.Rollout.SamplingMaxTokens,
		Ended: x.Ended, Problem: p, Noise: gsm8k.RewardNoise(t.cfg.Seed, step, prompt, sample),
	}
}

// scoreGreedy decodes each prompt greedily and rewards that: the baseline of
// ReMax (arXiv:2310.10505).
func (t *trainer) scoreGreedy(r *rollout, step int) error {
	opt := t.sampling()
	opt.Greedy = true
	out, err := t.sampler.Sample(r.prompts, 1, opt, model.Draws{})
	if err != nil {
		return fmt.Errorf("decode greedily in step %d: %w", step, err)
	}
	by := make([][]float64, len(t.rewards))
	for i, x := range out {
		in := t.rewardInput(x, r.problems[i], step, i, t.cfg.Rollout.GroupSize) // a sample number of its own
		for f, reward := range t.rewards {
			by[f] = append(by[f], reward(in))
		}
	}
	r.greedyRewards, err = rl.CombineRewards(by, t.cfg.Reward.RewardWeights)
	return err
}

// metrics fills the part of a step's line that the rollout knows.
func (r *rollout) metrics(m *rundir.Metrics, names []string) {
	var tally counter
	for i, x := range r.completions {
		tally.add(r.verdicts[i], x)
	}
	counts := tally.counts()
	m.Reward = describe(r.rewards)
	m.AnswerReward, m.FormatReward = counts.AnswerReward, counts.FormatReward
	m.Rewards = map[string]rundir.Stat{}
	for f, name := range names {
		m.Rewards[name] = describe(r.byFunction[f])
	}
	m.FracRewardZeroStd = r.stats.FracRewardZeroStd
	m.Length, m.LengthRight, m.LengthWrong = counts.Length, counts.LengthRight, counts.LengthWrong
	m.FracTruncated = float64(counts.Truncated) / float64(counts.N)
	if r.rounds > 1 {
		m.SamplingRounds = r.rounds
	}
}

// describe returns mean and sample standard deviation of the scored rewards.
func describe(x []float64) rundir.Stat {
	var sum, n float64
	for _, v := range x {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	mean := sum / n
	var sq float64
	for _, v := range x {
		if !math.IsNaN(v) {
			sq += (v - mean) * (v - mean)
		}
	}
	s := rundir.Stat{Mean: mean}
	if n > 1 {
		s.Std = math.Sqrt(sq / (n - 1))
	}
	return s
}

// samples keeps the first completions of the rollout for samples.jsonl.
func (r *rollout) samples(step, n, group int, template gsm8k.Template) []rundir.Sample {
	var out []rundir.Sample
	for i := range min(n, len(r.completions)) {
		p := r.problems[i/group]
		out = append(out, rundir.Sample{
			Step: step, Split: "train", Decoding: "sampled", Problem: p.ID, Prompt: template.Render(p.Question),
			Completion: r.texts[i], Gold: p.Gold, Ended: r.completions[i].Ended, Reward: r.rewards[i],
			AnswerReward: one(r.verdicts[i].Right), FormatReward: one(r.verdicts[i].Formatted),
		})
	}
	return out
}
