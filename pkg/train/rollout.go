package train

import (
	"fmt"
	"math/rand/v2"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// rollout is the batch of one step: N completions in groups of G, one group for
// each of N/G prompts. See layout.go for the layouts.
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
	greedyRewards []float64        // (N/G), for the greedy baseline

	reference, teacher []float64 // (N,T), log-probabilities; nil if not needed
	scored             []float64 // (N,T), old log-probabilities of [trainer.scoreOld]; nil: the sampler's
	entropies          []float64 // (N,T), the policy's at sampling time; nil if not needed
	values, returns    []float64 // (N,T), of the critic; nil without

	advantages      []float64 // (N), not used if tokens have their own
	tokenAdvantages []float64 // (N,T); nil if all tokens of a completion have the same
	zeroVariance    int       // groups with equal rewards
	zeroAdvantage   int       // groups that are not informative: without an advantage, or without a pair
	identicalPairs  int       // that dpo left out
}

func (r *rollout) groups() int { return len(r.problems) }

// rollout samples the groups of a step and rewards them. Dynamic sampling (DAPO, arXiv:2503.14476)
// sets aside zero-variance groups and samples new prompts instead, for a limited number of rounds;
// then the groups set aside fill up the batch.
func (t *trainer) rollout(step int) (*rollout, error) {
	c, a := t.cfg.Rollout, t.cfg.Algorithm
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
		k := t.data.order.at(t.state.Drawn)
		t.state.Drawn++
		r.problems = append(r.problems, t.data.problems.Train[k])
		r.prompts = append(r.prompts, t.data.prompts[k])
	}
	opt := samplingOf(t.cfg.Rollout)
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

// samplingOf returns the sampler's settings for rollouts.
func samplingOf(c config.Rollout) model.Sampling {
	return model.Sampling{Temperature: c.SamplingTemperature, TopP: c.SamplingTopP, TopK: c.SamplingTopK,
		MinTokens: c.SamplingMinTokens, MaxTokens: c.SamplingMaxTokens}
}

// add appends group g of another rollout.
func (r *rollout) add(o *rollout, g int) {
	lo, hi := g*r.groupSize, (g+1)*r.groupSize
	r.problems, r.prompts = append(r.problems, o.problems[g]), append(r.prompts, o.prompts[g])
	r.completions = append(r.completions, o.completions[lo:hi]...)
	r.texts, r.verdicts = append(r.texts, o.texts[lo:hi]...), append(r.verdicts, o.verdicts[lo:hi]...)
	r.rewards = append(r.rewards, o.rewards[lo:hi]...)
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

// order draws from n items without replacement, in a new random order for each pass. It depends
// only on its stream and the position, so a resumed run stores only the position. The stream
// depends on the seed alone: arms with the same seed get the same problems in the same order, as
// long as they draw equally many (dynamic sampling draws more).
type order struct {
	stream rng.Stream
	place  uint32 // distinguishes the orders of one stream
	n      int
	epoch  int   // of perm
	perm   []int // the permutation of one pass
}

// at returns the i-th item drawn.
func (o *order) at(i int) int {
	if epoch := i / o.n; o.perm == nil || epoch != o.epoch {
		o.epoch = epoch
		o.perm = rand.New(o.stream.Sequence(uint32(epoch), o.place, 0)).Perm(o.n)
	}
	return o.perm[i%o.n]
}
