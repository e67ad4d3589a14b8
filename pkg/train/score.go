package train

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
)

// This file decides which log-probabilities a step needs, and in which micro-batches the network
// computes them: the layouts of a rollout's numbers, micro-batches, and the scorers.

// Numbers about the N completions of a rollout have one of two layouts:
//
//	(N)    one number for each completion; group g has those of [g*G, (g+1)*G)
//	(N,T)  row-major matrix, T the longest completion: the number of completion i
//	       and token t is at i*T+t; past the end of a completion it is 0
//
// A micro-batch of B completions is a matrix (B,T) with its own T. pkg/rl and pkg/model take such
// matrices. Time-major layouts are internal to a network.

// layOut sets the rollout's shape and mask.
func (r *rollout) layOut() {
	r.shape = rl.Shape{B: len(r.completions)}
	for _, c := range r.completions {
		r.shape.T = max(r.shape.T, len(c.Tokens))
		r.tokens += len(c.Tokens)
	}
	r.mask = make([]bool, r.shape.Len())
	for i, c := range r.completions {
		for t := range c.Tokens {
			r.mask[i*r.shape.T+t] = true
		}
	}
}

// take returns the given rows of x, (N,T), as (len(rows), width), in the memory
// of into if that is large enough.
func take[E any](r *rollout, x []E, rows []int, width int, into []E) []E {
	into = into[:0]
	for _, i := range rows {
		into = append(into, x[i*r.shape.T:i*r.shape.T+width]...)
	}
	return into
}

// oldLogProbs returns the log-probabilities at sampling time of the given
// completions as (len(rows), width), in the memory of into if that is large enough.
func (r *rollout) oldLogProbs(rows []int, width int, into []float64) []float64 {
	into = into[:0]
	for _, i := range rows {
		for _, lp := range r.completions[i].LogProbs {
			into = append(into, float64(lp))
		}
		for range width - len(r.completions[i].LogProbs) {
			into = append(into, 0)
		}
	}
	return into
}

// old returns the log-probabilities at sampling time as (N,T).
func (r *rollout) old() []float64 { return r.oldLogProbs(span(0, r.shape.B), r.shape.T, nil) }

// onLastTokens returns (N,T) with the numbers of x, (N), on the completions' last tokens and 0
// elsewhere.
func (r *rollout) onLastTokens(x []float64) []float64 {
	out := make([]float64, r.shape.Len())
	for i, c := range r.completions {
		out[i*r.shape.T+len(c.Tokens)-1] = x[i]
	}
	return out
}

// batch returns the given completions as input of the network. Adjacent completions of one group
// share their prompt.
func (r *rollout) batch(rows []int) *model.Batch {
	b := &model.Batch{}
	last := -1
	for _, i := range rows {
		if g := i / r.groupSize; g != last {
			b.Prompts = append(b.Prompts, r.prompts[g])
			last = g
		}
		b.Rows = append(b.Rows, model.Row{Prompt: len(b.Prompts) - 1, Tokens: r.completions[i].Tokens,
			Kept: r.completions[i].Kept})
	}
	return b
}

// span lists the completions lo to hi-1.
func span(lo, hi int) []int {
	rows := make([]int, 0, hi-lo)
	for i := lo; i < hi; i++ {
		rows = append(rows, i)
	}
	return rows
}

// microBatch is what one pass over the network computes.
type microBatch struct {
	rows []int // completions of the rollout
	flat []int // completions before rows that are left out because their advantage is 0
}

// microBatches cuts completions lo to hi-1 into micro-batches of train_batch_size /
// gradient_accumulation_steps completions, and these into [trainer.parts]. Unless all is true it
// leaves out the completions that contribute no gradient; a micro-batch may then have no rows.
func (t *trainer) microBatches(r *rollout, lo, hi int, all bool) (out []microBatch) {
	size := t.cfg.Train.TrainBatchSize / t.cfg.Train.GradientAccumulationSteps
	for ; lo < hi; lo += size {
		rows, flat := span(lo, lo+size), []int(nil)
		if !all {
			rows, flat = t.withoutSkipped(r, rows)
		}
		next := len(out)
		for _, part := range t.parts(r, rows, 1) {
			out = append(out, microBatch{rows: part})
		}
		if len(flat) > 0 && len(rows) == 0 {
			out = append(out, microBatch{})
		}
		if len(flat) > 0 {
			out[next].flat = flat
		}
	}
	return out
}

// withoutSkipped drops the completions that contribute no gradient: truncated ones if they are
// masked, and, where updates skip them, those with advantage 0 (flat).
func (t *trainer) withoutSkipped(r *rollout, rows []int) (kept, flat []int) {
	for _, i := range rows {
		switch {
		case t.masked(r, i):
		case t.skipsFlat && !r.informative(i, i+1):
			flat = append(flat, i)
		default:
			kept = append(kept, i)
		}
	}
	return kept, flat
}

// masked reports whether completion i is left out of the loss as truncated.
func (t *trainer) masked(r *rollout, i int) bool {
	return t.cfg.Algorithm.MaskTruncatedCompletions && !r.completions[i].Ended
}

// parts cuts the completions of a micro-batch into runs whose inputs have at most
// train.micro_batch_tokens tokens: what all prompts of the rollout begin with once, the rest of
// each prompt once, and the completions without their last tokens. It cuts between units of
// completions of one prompt, such as the two of a pair; a unit that is longer by itself is a part
// of its own. The cut depends on nothing but the configuration and the completions, so a run has
// the same bits on a machine with less memory.
func (t *trainer) parts(r *rollout, rows []int, unit int) (parts [][]int) {
	if len(rows) == 0 {
		return nil
	}
	if t.microTokens == 0 {
		return [][]int{rows}
	}
	shared := model.SharedPrefix(r.prompts)
	first, tokens := 0, 0
	for at := 0; at < len(rows); at += unit {
		group := rows[at] / r.groupSize
		prompt, more := len(r.prompts[group])-shared, 0
		for _, i := range rows[at : at+unit] {
			more += len(r.completions[i].Tokens) - 1
		}
		whole := prompt + more
		if at == first || rows[at-1]/r.groupSize != group {
			more = whole
		}
		if at > first && shared+tokens+more > t.microTokens {
			parts = append(parts, rows[first:at])
			first, tokens, more = at, 0, whole
		}
		tokens += more
	}
	return append(parts, rows[first:])
}

// scorers compute log-probabilities and entropies of sampled tokens. A scorer that the
// configuration does not need is nil.
type scorers struct {
	referencePolicy model.Policy // of the KL term, a formula or pairs
	reference       model.Scorer
	teacher         model.Scorer
	policy          model.Scorer // the policy itself: for entropies before the update, and for pairs
	old             model.Scorer // the policy itself: see [trainer.scoreOld]
	half            model.Scorer // the policy at half the temperature: see [rollout.preferenceBatch]
}

func (t *trainer) openScorers() error {
	a, temperature := t.cfg.Algorithm, t.temperature()
	var err error
	if a.NeedsReference() || t.isDPO() && !a.FromFile() {
		t.scorers.referencePolicy = t.Policy.Copy()
		if t.scorers.reference, err = t.scorers.referencePolicy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.Teacher != "" {
		t.opts.Progress.Do("opening the teacher " + a.Teacher)
		teacher, err := policy.OpenTeacher(a.Teacher, t.Policy, t.Device.On)
		if err != nil {
			return err
		}
		t.inputs.Teacher, t.inputs.TeacherNetwork = policy.InitHash(teacher), policy.NetworkHash(teacher)
		if t.scorers.teacher, err = teacher.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.TopEntropyQuantile < 1 || t.isDPO() && (a.DPO.Preference().NeedsBatch() || a.DPO.EvalPairsFile != "") {
		if t.scorers.policy, err = t.Policy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if t.Device.GPU != nil && t.model.IsDecoder() && t.severalUpdates() && !t.isDPO() {
		if t.scorers.old, err = t.Policy.NewScorer(temperature); err != nil {
			return err
		}
	}
	if t.isDPO() && a.DPO.UseWeighting {
		if t.scorers.half, err = t.Policy.NewScorer(temperature / 2); err != nil {
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
// policy's entropies; for dpo only those of the pairs under the reference, which the pairs of a file
// have already. A scorer's matrix of all N completions is (N,T) and valid until the next step.
func (t *trainer) scoreTokens(r *rollout) (err error) {
	if t.isDPO() {
		if r.reference == nil && len(r.pairs) > 0 {
			r.reference, err = t.logProbs(t.scorers.reference, r, []microBatch{{rows: r.pairs}},
				"scoring the pairs under the reference model")
		}
		return err
	}
	score := func(under string, s model.Scorer) *model.TokenMatrix {
		if s == nil || err != nil {
			return new(model.TokenMatrix)
		}
		t.opts.Progress.Do("scoring the rollout under " + under)
		var x *model.TokenMatrix
		if x, err = s.Score(r.batch(span(0, r.shape.B))); err != nil {
			return new(model.TokenMatrix)
		}
		return x
	}
	r.reference = score("the reference model", t.scorers.reference).LogProbs
	r.teacher = score("the teacher", t.scorers.teacher).LogProbs
	r.entropies = score("the policy", t.scorers.policy).Entropy
	return err
}

// scoreOld computes the old log-probabilities of a rollout again, in the micro-batches of the
// learner, so that they have the learner's bits. On a GPU a decoder's sampler differs by rounding,
// which in bf16 would move the importance ratios of unchanged weights away from 1.
func (t *trainer) scoreOld(r *rollout) (err error) {
	parts := t.microBatches(r, 0, r.shape.B, false)
	r.scored, err = t.logProbs(t.scorers.old, r, parts, "scoring the rollout under the policy")
	return err
}

// logProbs returns the log-probabilities of the completions in parts as (N,T), one part at a time;
// those of other completions are 0.
func (t *trainer) logProbs(s model.Scorer, r *rollout, parts []microBatch, doing string) ([]float64, error) {
	out := make([]float64, r.shape.Len())
	for i, part := range parts {
		t.opts.Progress.Count(doing, "micro-batch", i, len(parts))
		if len(part.rows) == 0 {
			continue
		}
		x, err := s.Score(r.batch(part.rows))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		for k, i := range part.rows {
			n := len(r.completions[i].Tokens)
			copy(out[i*r.shape.T:][:n], x.LogProbs[k*x.T:])
		}
	}
	return out, nil
}

// syncReference moves the reference policy towards the policy
// (algorithm.ref_model_sync_steps).
func (t *trainer) syncReference(step int) error {
	a := t.cfg.Algorithm
	if t.scorers.referencePolicy == nil || a.RefModelSyncSteps == 0 || step%a.RefModelSyncSteps != 0 {
		return nil
	}
	return model.MixInto(t.scorers.referencePolicy.Params(), t.Params, a.RefModelMixupAlpha)
}
