package supervised

import (
	"context"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/elementary"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// sftStage is a stage at work.
type sftStage struct {
	*sft
	c     config.Stage
	packs [][]sftRow
	order rng.Epochs
	opt   *model.AdamW
	stop  *stopper // nil without early stopping
	rec   *StageRecord
}

// stage trains through stage i.
func (s *sft) stage(ctx context.Context, i int) (*StageRecord, error) {
	c := s.cfg.Stages[i]
	corpus, err := s.corpus(i)
	if err != nil {
		return nil, err
	}
	rec := &StageRecord{Name: c.Name, Corpus: c.Corpus, Examples: len(corpus)}
	for _, e := range corpus {
		if e.Right {
			rec.AnswerReward += 1 / float64(len(corpus))
		}
	}
	packs, err := s.packs(i, "training", corpus, rec)
	if err != nil {
		return nil, err
	}
	s.noteCut(i, "training", len(corpus), rec)
	stop, err := s.newStopper(i)
	if err != nil {
		return nil, err
	}
	defer stop.close()
	st := &sftStage{
		sft: s, c: c, packs: packs, stop: stop, rec: rec,
		order: s.stageOrder(i, len(packs)),
		opt:   model.NewAdamW(s.Params, model.NewAdamWOptions(c.AdamBetas, c.AdamEps, c.WeightDecay)),
	}
	st.opt.Pool = s.Pool
	defer func() { // the next stage has its own
		st.opt.M.Release()
		st.opt.V.Release()
	}()
	if err := st.loop(ctx); err != nil {
		return nil, err
	}
	if stop != nil {
		if err := stop.restore(rec); err != nil {
			return nil, err
		}
	}
	if len(s.problems.Unseen) > 0 {
		if rec.Unseen, err = s.evaluate(rundir.SplitUnseen, s.problems.Unseen, rec.Steps); err != nil {
			return nil, err
		}
	}
	if got := rec.Validation.Sampled.AnswerReward; got < c.AcceptSampledMin || got > c.AcceptSampledMax {
		accept := fmt.Sprintf("accept_sampled_min=%.2f", math.Floor(got*100)/100)
		if got > c.AcceptSampledMax {
			accept = fmt.Sprintf("accept_sampled_max=%.2f", math.Ceil(got*100)/100)
		}
		return nil, fmt.Errorf("stage %q ended at %.3f sampled validation accuracy, outside the accepted "+
			"%g to %g, and no weights were written: change the seed, stages.%d.steps or stages.%d.learning_rate, "+
			"or accept this result with --set stages.%d.%s",
			c.Name, got, c.AcceptSampledMin, c.AcceptSampledMax, i, i, i, accept)
	}
	return rec, nil
}

// loop takes the steps of the stage.
func (st *sftStage) loop(ctx context.Context) error {
	var recent []float64 // losses of the last 100 steps
	what := fmt.Sprintf("stage %q, ", st.c.Name)
	err := st.steps(ctx, what, st.c.Steps, st.c.EveryNSteps, func(n int, evaluate bool) (SFTStep, bool, error) {
		st.opts.Progress.Do("update")
		line, err := st.step(n)
		if err != nil {
			return line, false, err
		}
		if recent = append(recent, line.Loss); len(recent) > 100 {
			recent = recent[1:]
		}
		st.rec.Steps = n
		if evaluate {
			err = st.validate(&line)
		}
		return line, st.rec.StoppedEarly, err
	})
	for _, l := range recent {
		st.rec.Loss += l / float64(len(recent))
	}
	return err
}

// step trains on one batch.
func (st *sftStage) step(step int) (SFTStep, error) {
	c := st.c
	line := SFTStep{Stage: c.Name, Step: step, LearningRate: schedule(c, step)}
	var chosen []sftRow
	for k := range c.BatchSize {
		chosen = append(chosen, st.packs[st.order.At((step-1)*c.BatchSize+k)]...)
	}
	batch, weights := sftBatch(chosen)
	st.learner.ZeroGrads()
	var err error
	if line.Loss, err = st.learner.Accumulate(batch, tokenLoss(rl.SupervisedLoss(c.LossType), weights)); err != nil {
		return line, err
	}
	if line.GradNorm, err = st.opt.Step(st.Params, st.learner.Grads(), line.LearningRate, c.MaxGradNorm); err != nil {
		return line, err
	}
	if !model.IsFinite(line.Loss) || !model.IsFinite(line.GradNorm) {
		return line, fmt.Errorf("stage %q diverged at step %d: loss %v, gradient norm %v; lower its learning_rate",
			c.Name, step, line.Loss, line.GradNorm)
	}
	return line, nil
}

// validate evaluates after the step of the line, and decides whether the stage stops there.
func (st *sftStage) validate(line *SFTStep) error {
	e, err := st.evaluate(rundir.SplitVal, st.val, line.Step)
	if err != nil {
		return err
	}
	line.Validation, st.rec.Validation = &e, e
	done := st.c.StopAtSampledAccuracy > 0 && e.Sampled.AnswerReward >= st.c.StopAtSampledAccuracy
	if st.stop != nil {
		loss, over, err := st.stop.evaluate(e)
		if err != nil {
			return err
		}
		line.ValidationLoss, done = &loss, done || over
	}
	st.rec.StoppedEarly = done && line.Step < st.c.Steps
	return nil
}

// schedule is linear warm-up, then cosine decay to final_lr_ratio.
func schedule(c config.Stage, step int) float64 {
	if step <= c.WarmupSteps {
		return c.LearningRate * float64(step) / float64(c.WarmupSteps)
	}
	x := float64(step-c.WarmupSteps) / float64(max(1, c.Steps-c.WarmupSteps))
	return c.LearningRate * (c.FinalLRRatio + float64((1-c.FinalLRRatio)*0.5*(1+elementary.Cos(math.Pi*x))))
}

// tokenLoss is the weighted mean loss of the tokens of a batch. weights is ragged: one row for each
// completion, one number for each token.
func tokenLoss(kind rl.SupervisedLoss, weights [][]float64) model.Objective {
	return func(m *model.TokenMatrix) (float64, error) {
		return rl.Supervised(kind, m.LogProbs, padded(weights, m.T), 0, m.DLogProbs)
	}
}

// padded returns ragged rows as a matrix (B,T), with zeros after the end of a row.
func padded(rows [][]float64, t int) []float64 {
	out := make([]float64, len(rows)*t)
	for i, row := range rows {
		copy(out[i*t:], row)
	}
	return out
}

// stopper ends a stage whose validation loss no longer falls, as transformers' EarlyStoppingCallback
// does with load_best_model_at_end.
type stopper struct {
	s      *sft
	c      config.Stage
	scorer model.Scorer
	rows   []sftRow // of the validation problems

	loss    float64       // the lowest
	best    rundir.Eval   // the evaluation at that loss
	weights *model.Params // at that loss; nil before the first evaluation
	bad     int           // evaluations in a row without a lower loss
}

// newStopper returns nil for a stage without early stopping.
func (s *sft) newStopper(i int) (*stopper, error) {
	c := s.cfg.Stages[i]
	if c.EarlyStoppingPatience == 0 {
		return nil, nil
	}
	corpus, err := s.validationCorpus(i)
	if err != nil {
		return nil, err
	}
	rec := new(StageRecord)
	packs, err := s.packs(i, "validation", corpus, rec)
	if err != nil {
		return nil, err
	}
	s.noteCut(i, "validation", len(corpus), rec)
	scorer, err := s.Policy.NewScorer(1)
	return &stopper{s: s, c: c, scorer: scorer, rows: slices.Concat(packs...)}, err
}

func (p *stopper) close() {
	if p != nil {
		_ = p.scorer.Close() // frees memory only
	}
}

// evaluate returns the validation loss, and whether the stage is over.
func (p *stopper) evaluate(e rundir.Eval) (loss float64, over bool, err error) {
	if loss, err = p.validationLoss(); err != nil {
		return 0, false, err
	}
	if p.weights == nil || p.loss-loss > p.c.EarlyStoppingThreshold {
		p.bad = 0
	} else {
		p.bad++
	}
	if p.weights == nil || loss < p.loss {
		p.loss, p.best = loss, e
		if p.weights == nil {
			p.weights = p.s.Params.Zeros()
		}
		if err := p.weights.Set(p.s.Params); err != nil {
			return 0, false, err
		}
	}
	return loss, p.bad >= p.c.EarlyStoppingPatience, nil
}

// validationLoss is the weighted mean over all tokens of the validation examples, in nats per token.
func (p *stopper) validationLoss() (float64, error) {
	var loss, total float64
	for _, r := range p.rows {
		for _, w := range r.weights {
			total += w
		}
	}
	for lo := 0; lo < len(p.rows); lo += p.c.BatchSize {
		p.s.opts.Progress.Count("scoring the validation answers", "answer", lo, len(p.rows))
		batch, weights := sftBatch(p.rows[lo:min(len(p.rows), lo+p.c.BatchSize)])
		m, err := p.scorer.Score(batch)
		if err != nil {
			return 0, err
		}
		part, err := rl.Supervised(rl.SupervisedLoss(p.c.LossType), m.LogProbs, padded(weights, m.T), total,
			make([]float64, len(m.LogProbs)))
		if err != nil {
			return 0, err
		}
		loss += part
	}
	return loss, nil
}

// restore returns to the weights of the lowest validation loss.
func (p *stopper) restore(rec *StageRecord) error {
	loss := p.loss
	rec.BestStep, rec.ValidationLoss, rec.Validation = p.best.Step, &loss, p.best
	return p.s.Params.Set(p.weights)
}
