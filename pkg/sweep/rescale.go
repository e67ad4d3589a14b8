package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/policy"
)

const trainBatchKey = "train.train_batch_size"

// rescale fits a request that is made for the default configuration ([Request.OfDefault]) to another one: train
// batches keep their share of the rollout batch, and learning rates, which are TinyLM's, for a checkpoint of another
// kind their ratio to the configuration's own.
func (p *planner) rescale() error {
	if !p.req.OfDefault {
		return nil
	}
	base, err := p.load(nil)
	if err != nil {
		return nil //nolint:nilerr // the arms may make it valid; if not, resolving them reports it
	}
	usual, now := config.Default(), &base.Config
	scales := map[string]func(v float64) float64{}
	if had, has := usual.Rollout.RolloutBatchSize, now.Rollout.RolloutBatchSize; has != had {
		scales[trainBatchKey] = func(v float64) float64 { return max(1, math.Floor(v*float64(has)/float64(had))) }
	}
	had, has := usual.Train.LearningRate, now.Train.LearningRate
	if m, err := policy.Of(*now); err == nil && m.IsDecoder() && has != had {
		scales[analysis.RateKey] = func(v float64) float64 { return inDecimals(v / had * has) }
	}
	scale := func(name, text string) (scaled string, changed bool) {
		k, err := config.FindKey(name)
		if err != nil || scales[k.Path] == nil {
			return text, false
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text, false
		}
		return canonical(k, strconv.FormatFloat(scales[k.Path](v), 'f', -1, 64)), true
	}
	batches := false
	set := func(all []Setting) []Setting {
		all = slices.Clone(all)
		for i, s := range all {
			var changed bool
			all[i].Value, changed = scale(s.Key, s.Value)
			batches = batches || changed
		}
		return all
	}
	p.req.Set, p.req.Arms, p.req.Axes = set(p.req.Set), slices.Clone(p.req.Arms), slices.Clone(p.req.Axes)
	for i, a := range p.req.Arms {
		p.req.Arms[i].Set = set(a.Set)
	}
	named := strings.Split(p.req.Reference, ",")
	reference := slices.Clone(named)
	for i, a := range p.req.Axes {
		if !a.OfDefault {
			continue
		}
		k, err := config.FindKey(a.Key)
		if err != nil || scales[k.Path] == nil {
			continue
		}
		p.req.Axes[i].Values = nil
		for _, text := range a.Values {
			scaled, _ := scale(a.Key, text)
			p.req.Axes[i].Values = append(p.req.Axes[i].Values, scaled)
			if at := slices.Index(named, shortName(k.Path)+"="+canonical(k, text)); at >= 0 {
				reference[at] = shortName(k.Path) + "=" + scaled
			}
		}
		if k.Path == trainBatchKey {
			batches = true
			continue
		}
		p.notes = append(p.notes, fmt.Sprintf("The learning rates are TinyLM's, in proportion to %s: %s instead of %s.",
			k.Path, textutil.Number(has), textutil.Number(had)))
	}
	p.req.Reference = strings.Join(reference, ",")
	if batches {
		p.notes = append(p.notes, fmt.Sprintf("The train batches are in proportion to rollout.rollout_batch_size: %d instead of %d.",
			now.Rollout.RolloutBatchSize, usual.Rollout.RolloutBatchSize))
	}
	return nil
}

// inDecimals is a number without the error of a division or multiplication: 3e-5, not 2.9999999999999997e-05.
func inDecimals(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	return v
}
