package sweep

import (
	"fmt"
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
func (p *planner) rescale() {
	if !p.req.OfDefault {
		return
	}
	base, err := p.load(p.firstModel())
	if err != nil { // the arms may make it valid; if not, resolving them reports it
		return
	}
	usual, now := config.Default(), &base.Config
	scales := map[string]func(v float64) float64{}
	if had, has := usual.Rollout.RolloutBatchSize, now.Rollout.RolloutBatchSize; has != had {
		scales[trainBatchKey] = func(v float64) float64 {
			for b := max(1, int(v)*has/had); b > 0; b-- {
				if has%b == 0 && b%now.Train.GradientAccumulationSteps == 0 {
					return float64(b)
				}
			}
			return v
		}
	}
	had, has := usual.Train.LearningRate, now.Train.LearningRate
	if m, err := policy.Of(*now); err == nil && m.IsDecoder() && has != had {
		scales[analysis.RateKey] = func(v float64) float64 { return inDecimals(v / had * has) }
	}
	changed := map[string]bool{}
	scale := func(name, text string) string {
		k, err := config.FindKey(name)
		if err != nil || scales[k.Path] == nil {
			return text
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text
		}
		changed[k.Path] = true
		return canonical(k, strconv.FormatFloat(scales[k.Path](v), 'f', -1, 64))
	}
	set := func(all []Setting, given []config.Flag) []Setting {
		all = slices.Clone(all)
		for i, s := range all {
			k, err := config.FindKey(s.Key)
			if err == nil && !slices.ContainsFunc(given, func(f config.Flag) bool { return f.Key == k.Path }) {
				all[i].Value = scale(s.Key, s.Value)
			}
		}
		return all
	}
	p.req.Set, p.req.Arms, p.req.Axes = set(p.req.Set, p.given()), slices.Clone(p.req.Arms), slices.Clone(p.req.Axes)
	for i, a := range p.req.Arms {
		p.req.Arms[i].Set = set(a.Set, nil)
	}
	named := strings.Split(p.req.Reference, ",")
	reference := slices.Clone(named)
	for i, a := range p.req.Axes {
		k, err := config.FindKey(a.Key)
		if err != nil || !a.OfDefault || scales[k.Path] == nil {
			continue
		}
		p.req.Axes[i].Values = nil
		for _, text := range a.Values {
			scaled := scale(a.Key, text)
			p.req.Axes[i].Values = append(p.req.Axes[i].Values, scaled)
			if at := slices.Index(named, shortName(k.Path)+"="+canonical(k, text)); at >= 0 {
				reference[at] = shortName(k.Path) + "=" + scaled
			}
		}
	}
	p.req.Reference = strings.Join(reference, ",")
	if changed[analysis.RateKey] {
		p.notes = append(p.notes, fmt.Sprintf("The learning rates are TinyLM's, in proportion to %s: %s instead of %s.",
			analysis.RateKey, textutil.Number(has), textutil.Number(had)))
	}
	if changed[trainBatchKey] {
		p.notes = append(p.notes, fmt.Sprintf("The train batches are in proportion to rollout.rollout_batch_size: %d instead of %d.",
			now.Rollout.RolloutBatchSize, usual.Rollout.RolloutBatchSize))
	}
}

// firstModel are the settings of the first value of an axis of models.
func (p *planner) firstModel() (own []config.Flag) {
	for _, a := range p.req.Axes {
		if k, err := config.FindKey(a.Key); err == nil && k.Path == "model.init" && len(a.Values) > 0 {
			own = append(own, config.Flag{Key: k.Path, Name: a.From, Value: a.Values[0]})
		}
	}
	return own
}

// inDecimals is a number without the error of a division or multiplication: 3e-5, not 2.9999999999999997e-05.
func inDecimals(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	return v
}
