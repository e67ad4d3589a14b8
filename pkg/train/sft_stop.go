package train

import (
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

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
	packs, err := s.packs(i, "validation", corpus, new(StageRecord))
	if err != nil {
		return nil, err
	}
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
