package train

import "math"

// scheduledRate returns the learning rate of an update, with the highest rate
// base:
//
//	update < warmup   base · update/warmup
//	constant          base
//	linear            base · (total - update)/(total - warmup)
//	cosine            base · (1 + cos(π (update - warmup)/(total - warmup)))/2
//
// Updates are counted from 0 over the run, which has total of them. The formulas
// are those of get_constant_schedule_with_warmup, get_linear_schedule_with_warmup
// and get_cosine_schedule_with_warmup (num_cycles 0.5) in transformers'
// optimization.py. So the first update of a warm-up has rate 0, update number
// warmup the rate base, and only an update after the last would have rate 0.
func scheduledRate(scheduler string, base, update, warmup, total float64) float64 {
	if update < warmup {
		return base * (update / warmup)
	}
	switch scheduler {
	case "linear":
		return base * max(0, (total-update)/(total-warmup))
	case "cosine":
		return base * (0.5 * (1 + math.Cos(math.Pi*min(1, (update-warmup)/(total-warmup)))))
	}
	return base
}

// rate returns the learning rate of an update of the run, counted from 0, under
// the configured schedule. It depends on nothing but the number of the update, so a
// continued run has the rates of an uninterrupted one.
func (t *trainer) rate(base, update float64) float64 {
	c := t.cfg.Train
	return scheduledRate(c.LRScheduler, base, update, float64(c.WarmupSteps), t.cfg.Updates())
}
