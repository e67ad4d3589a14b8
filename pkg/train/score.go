package train

import (
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// judges are the models that look at a rollout besides the policy: the
// reference policy of a KL term, a teacher, and the policy itself where the
// entropies of sampling time are wanted.
type judges struct {
	reference       model.Policy
	referenceScorer model.Scorer
	teacherScorer   model.Scorer
	policyScorer    model.Scorer
}

func (t *trainer) prepareJudges() error {
	a, temperature := t.cfg.Algorithm, t.cfg.Rollout.SamplingTemperature
	var err error
	if a.Beta != 0 {
		t.judges.reference = t.policy.Copy()
		if t.judges.referenceScorer, err = t.judges.reference.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.Teacher != "" {
		teacher, err := newTeacher(a.Teacher, t.device.on)
		if err != nil {
			return err
		}
		t.inputs.Teacher = teacher.Params().Hash()
		if t.judges.teacherScorer, err = teacher.NewScorer(temperature); err != nil {
			return err
		}
	}
	if a.TopEntropyQuantile < 1 {
		if t.judges.policyScorer, err = t.policy.NewScorer(temperature); err != nil {
			return err
		}
	}
	return nil
}

func (j *judges) close() {
	for _, s := range []model.Scorer{j.referenceScorer, j.teacherScorer, j.policyScorer} {
		if s != nil {
			_ = s.Close() // frees memory only
		}
	}
}

// judge asks them.
func (t *trainer) judge(r *rollout) error {
	for _, s := range []struct {
		scorer  model.Scorer
		entropy bool
		to      *ragged
	}{{t.judges.referenceScorer, false, &r.reference}, {t.judges.teacherScorer, false, &r.teacher}, {t.judges.policyScorer, true, &r.entropies}} {
		if s.scorer == nil {
			continue
		}
		m, err := s.scorer.Score(r.batch(r.all.rows, t.cfg.Rollout.GroupSize))
		if err != nil {
			return err
		}
		data := m.LogProbs
		if s.entropy {
			data = m.Entropy
		}
		*s.to = fromMatrix(r.completions, m.T, data)
	}
	return nil
}

// afterStep moves what follows the policy: the reference and the entropy
// coefficient.
func (t *trainer) afterStep(step int, entropy float64) error {
	a := t.cfg.Algorithm
	if t.judges.reference != nil && a.RefModelSyncSteps > 0 && step%a.RefModelSyncSteps == 0 {
		if err := model.MixInto(t.judges.reference.Params(), t.params, a.RefModelMixupAlpha); err != nil {
			return err
		}
	}
	if a.UseAdaptiveEntropy {
		t.state.EntropyCoef, t.state.EntropyApply = rl.AdaptEntropyCoef(t.state.EntropyCoef, entropy,
			a.EntropyTarget, a.EntropyCoefDelta, a.EntropyCoefMin, a.EntropyCoefMax)
	}
	return nil
}

// lossConfig is the loss of the update at hand.
func (t *trainer) lossConfig() rl.LossConfig {
	a := t.cfg.Algorithm
	c := rl.LossConfig{
		Loss: rl.LossType(a.BaseLoss()), Aggregation: rl.Aggregation(a.LengthNormalization), NormalizeConstant: a.NormalizeConstant,
		Epsilon: a.Cliprange, EpsilonHigh: a.EpsilonHigh, Delta: a.Delta, DualClip: a.DualClip, Level: rl.ImportanceLevel(a.ImportanceSamplingLevel),
		SAPOTempPos: a.SAPOTemperaturePos, SAPOTempNeg: a.SAPOTemperatureNeg,
		VESPOKPos: a.VESPOKPos, VESPOLambdaPos: a.VESPOLambdaPos, VESPOKNeg: a.VESPOKNeg, VESPOLambdaNeg: a.VESPOLambdaNeg,
		EntropyCoef: a.EntropyCoef, EntropyOverAll: a.EntropyOverAll(),
		OffPolicyMask: a.OffPolicyMask, OffPolicyMaskThreshold: a.OffPolicyMaskThreshold,
	}
	if a.Beta != 0 && a.KLIn == "loss" {
		c.Beta, c.KL, c.KLBiasCorrection = a.Beta, rl.KLEstimator(a.KLEstimator), a.UseBiasCorrectionKL
	}
	if a.UseAdaptiveEntropy {
		c.EntropyCoef = t.state.EntropyApply
	}
	return c
}
