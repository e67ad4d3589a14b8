package train

import (
	"fmt"
	"math"
	"math/rand/v2"

	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/tokenizer"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// order draws from n things, all of them in a new random order before any comes
// again. It is a function of its stream and the position, so that a resumed run
// needs no memory; and since the stream depends on the seed alone, arms of a
// sweep with the same seed meet the same problems in the same order.
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
	advantages  []float64
	stats       rl.AdvantageStats
	tokens      int
}

func (t *trainer) sample(step int) (*rollout, error) {
	c := t.cfg.Rollout
	groups := c.RolloutBatchSize / c.GroupSize
	r := &rollout{}
	for i := range groups {
		k := t.order.at((step-1)*groups + i)
		r.problems = append(r.problems, t.problems.Train[k])
		r.prompts = append(r.prompts, t.trainPrompts[k])
	}
	stream := rng.New(t.cfg.Seed, rng.Rollout)
	var err error
	r.completions, err = t.sampler.Sample(r.prompts, c.GroupSize, t.sampling(), func(prompt, sample, token int) float64 {
		return stream.Float64(uint32(step), uint32(prompt), uint32(sample), uint32(token))
	})
	if err != nil {
		return nil, fmt.Errorf("roll out step %d: %w", step, err)
	}
	for _, x := range r.completions {
		r.tokens += len(x.Tokens)
	}
	return r, nil
}

// score rewards the completions and computes their advantages.
func (t *trainer) score(r *rollout, step int) error {
	c := t.cfg
	n := len(r.completions)
	r.texts, r.verdicts = make([]string, n), make([]gsm8k.Verdict, n)
	r.byFunction = make([][]float64, len(t.rewards))
	for f := range r.byFunction {
		r.byFunction[f] = make([]float64, n)
	}
	for i, x := range r.completions {
		prompt, sample := i/c.Rollout.GroupSize, i%c.Rollout.GroupSize
		p := r.problems[prompt]
		r.texts[i] = tokenizer.Decode(x.Tokens)
		r.verdicts[i] = gsm8k.Grade(r.texts[i], x.Ended, p.Gold)
		in := gsm8k.RewardInput{
			Completion: r.texts[i], Tokens: len(x.Tokens), MaxTokens: c.Rollout.SamplingMaxTokens, Ended: x.Ended,
			Problem: p, Noise: gsm8k.RewardNoise(c.Seed, step, prompt, sample),
		}
		for f, reward := range t.rewards {
			r.byFunction[f][i] = reward(in)
		}
	}
	var err error
	if r.rewards, err = rl.CombineRewards(r.byFunction, c.Reward.RewardWeights); err != nil {
		return fmt.Errorf("reward step %d: %w", step, err)
	}
	opt := rl.AssignmentAdvantages(rl.LossType(c.Algorithm.LossType), c.Algorithm.UseStdNormalization, c.Algorithm.AdvantageEps)
	if r.advantages, r.stats, err = rl.GroupAdvantages(r.rewards, c.Rollout.GroupSize, opt); err != nil {
		return fmt.Errorf("advantages of step %d: %w", step, err)
	}
	return nil
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
