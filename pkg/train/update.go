package train

import (
	"fmt"
	"math"

	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// updater turns a rollout into optimizer updates.
//
// A rollout is cut into train batches of whole sequences in their order, a
// train batch into micro-batches; the totals by which a loss divides are those
// of the train batch, so that micro-batches add up to exactly its gradient.
// Old log-probabilities are those of sampling, kept for all passes. With one
// pass over one train batch the policy has not moved since sampling: the
// update is on-policy, the ratio is 1, and nothing can be clipped.
type updater struct {
	res              rl.Result
	old, ref, tokens []float64 // reused
}

// passStats is what the updates of a step add up to.
type passStats struct {
	stats         rl.Stats
	loss, norm    float64
	updates       int
	entropy       float64 // sum over the tokens of the first pass
	entropyTokens int
	maxDiff       float64 // sampler against graph, before the first update
}

func (t *trainer) onPolicy() bool {
	return t.cfg.Train.EpochsPerRolloutBatch == 1 && t.cfg.Train.TrainBatchSize == t.cfg.Rollout.RolloutBatchSize
}

// update makes the updates of one step and fills its part of the line. It
// stops at the first loss or gradient that is not finite.
func (t *trainer) update(r *rollout, m *rundir.Metrics) error {
	c := t.cfg.Train
	var s passStats
	for epoch := range c.EpochsPerRolloutBatch {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			if err := t.updateOnce(r, span(lo, lo+c.TrainBatchSize), epoch == 0, &s); err != nil {
				return err
			}
			if s.updates == 1 {
				if err := t.checkSampler(m.Step, &s); err != nil {
					return err
				}
			}
		}
	}
	if t.critic != nil {
		if err := t.updateCritic(r, m); err != nil {
			return err
		}
	}
	if name, ok := t.params.Finite(); !ok {
		return &divergence{fmt.Sprintf("%s holds a number that is not finite", name)}
	}
	t.passed(1 + 2*s.updates) // weights; loss and gradient norm of each update
	t.sampler.Refresh()
	m.Updates = t.opt.T
	m.Loss, m.GradNorm = s.loss/float64(s.updates), s.norm/float64(s.updates)
	if s.entropyTokens > 0 {
		m.Entropy = s.entropy / float64(s.entropyTokens)
	}
	m.ClipFraction, m.RatioMean, m.ApproxKL, m.ReferenceKL = s.stats.ClipFraction(), s.stats.MeanRatio(), s.stats.ApproxKL(), s.stats.MeanRefKL()
	m.LearningRate = c.LearningRate
	m.SamplerDiff = s.maxDiff
	return nil
}

// updateOnce makes one optimizer update of the given completions.
func (t *trainer) updateOnce(r *rollout, batch []int, firstPass bool, s *passStats) error {
	c, u := t.cfg.Train, &t.updater
	policyMask, totals, err := t.totals(r, batch)
	if err != nil {
		return err
	}
	cfg := t.lossConfig()
	t.learner.ZeroGrads()
	micro := c.TrainBatchSize / c.GradientAccumulationSteps
	var loss float64
	for at := 0; at < len(batch); at += micro {
		rows := t.kept(r, batch[at:at+micro])
		if len(rows) == 0 {
			continue
		}
		part, err := t.learner.Accumulate(r.batch(rows, t.cfg.Rollout.GroupSize), func(x *model.TokenMatrix) (float64, error) {
			u.old = r.old.matrix(rows, x.T, u.old)
			if firstPass {
				if err := t.checkMask(r, rows, x); err != nil {
					return 0, err
				}
				s.look(x, u.old)
			}
			b := rl.Batch{Shape: rl.Shape{B: x.B, T: x.T}, LogProbs: x.LogProbs, Entropies: x.Entropy, Mask: x.Mask, Totals: totals}
			if !t.onPolicy() {
				b.OldLogProbs = u.old
			}
			if cfg.Beta != 0 {
				u.ref = r.reference.matrix(rows, x.T, u.ref)
				b.RefLogProbs = u.ref
			}
			if u.tokens = r.tokenAdvantages.matrix(rows, x.T, u.tokens); r.tokenAdvantages != nil {
				b.Advantages = u.tokens
			} else {
				for _, i := range rows {
					b.Advantages = append(b.Advantages, r.advantages[i])
				}
			}
			if policyMask != nil {
				b.PolicyMask = policyMask.matrix(rows, x.T)
			}
			if err := rl.LossInto(cfg, b, &u.res); err != nil {
				return 0, err
			}
			copy(x.DLogProbs, u.res.Grad)
			copy(x.DEntropy, u.res.GradEntropy)
			s.stats.Add(u.res.Stats)
			return u.res.Loss, nil
		})
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		loss += part
	}
	norm, err := t.opt.Step(t.params, t.learner.Grads(), c.LearningRate, c.MaxGradNorm)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	s.loss, s.norm = s.loss+loss, s.norm+norm
	s.updates++
	if notFinite(loss) {
		return &divergence{fmt.Sprintf("loss is %v", loss)}
	}
	if notFinite(norm) {
		return &divergence{fmt.Sprintf("gradient norm is %v", norm)}
	}
	return nil
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// look compares the sampler's log-probabilities with the graph's and adds the
// entropies up.
func (s *passStats) look(x *model.TokenMatrix, old []float64) {
	for i, in := range x.Mask {
		if !in {
			continue
		}
		if s.updates == 0 {
			s.maxDiff = math.Max(s.maxDiff, math.Abs(old[i]-x.LogProbs[i]))
		}
		s.entropy += x.Entropy[i]
		s.entropyTokens++
	}
}

// masks is a mask for each completion by its number.
type masks map[int][]bool

func (m masks) matrix(rows []int, width int) []bool {
	out := make([]bool, len(rows)*width)
	for k, i := range rows {
		copy(out[k*width:(k+1)*width], m[i])
	}
	return out
}

// totals returns what the loss of a train batch divides by, and its mask of
// the tokens of highest entropy, if one is asked for. Truncated completions
// that are masked out have no tokens, but count as sequences; those that are
// skipped because they have no signal count in full.
func (t *trainer) totals(r *rollout, batch []int) (masks, rl.Totals, error) {
	var totals rl.Totals
	for _, i := range batch {
		totals = totals.Add(r.rowTotals(i, !t.masked(r, i)))
	}
	if r.entropies == nil {
		return nil, totals, nil
	}
	// The quantile is over the entropies of sampling time, so that it does not
	// depend on how the batch is cut.
	var width int
	for _, i := range batch {
		width = max(width, len(r.completions[i].Tokens))
	}
	shape := rl.Shape{B: len(batch), T: width}
	mask := make([]bool, shape.Len())
	for k, i := range batch {
		for tok := range r.completions[i].Tokens {
			mask[k*width+tok] = !t.masked(r, i)
		}
	}
	top, err := rl.TopEntropyMask(shape, r.entropies.matrix(batch, width, nil), mask, t.cfg.Algorithm.TopEntropyQuantile)
	if err != nil {
		return nil, totals, err
	}
	out := masks{}
	totals.Kept = 0
	for k, i := range batch {
		out[i] = top[k*width : k*width+len(r.completions[i].Tokens)]
		for _, in := range out[i] {
			if in {
				totals.Kept++
			}
		}
	}
	return out, totals, nil
}

// rowTotals is what completion i adds to the totals, with or without tokens.
func (r *rollout) rowTotals(i int, tokens bool) rl.Totals {
	if !tokens {
		return rl.Totals{Sequences: 1}
	}
	n := len(r.completions[i].Tokens)
	return rl.Totals{Sequences: 1, NonEmpty: 1, Tokens: n, Kept: n}
}

// masked says whether completion i is left out of the loss as truncated.
func (t *trainer) masked(r *rollout, i int) bool {
	return t.cfg.Algorithm.MaskTruncatedCompletions && !r.completions[i].Ended
}

// kept are the completions that the graph has to see.
func (t *trainer) kept(r *rollout, rows []int) []int {
	if !t.cfg.Algorithm.MaskTruncatedCompletions && !t.cfg.Algorithm.SkipFlatGroups {
		return rows
	}
	var out []int
	for _, i := range rows {
		if t.masked(r, i) || t.cfg.Algorithm.SkipFlatGroups && !r.hasSignal(i) {
			continue
		}
		out = append(out, i)
	}
	return out
}

// batch builds the graph's batch of the given completions; a prompt stands in
// it once for all of its completions.
func (r *rollout) batch(rows []int, group int) *model.Batch {
	b := &model.Batch{}
	last := -1
	for _, i := range rows {
		if g := i / group; g != last {
			b.Prompts = append(b.Prompts, r.prompts[g])
			last = g
		}
		b.Rows = append(b.Rows, model.Row{Prompt: len(b.Prompts) - 1, Tokens: r.completions[i].Tokens})
	}
	return b
}
