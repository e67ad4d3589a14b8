package train

import "grpo/pkg/model"

// oldPolicy is a copy of the policy from before some of its updates, which samples the rollouts
// (rollout.resample_every_n_steps). It is empty if the policy itself samples. Evaluations are of the
// policy itself.
type oldPolicy struct {
	policy  model.Policy
	sampler model.Sampler
}

// rolloutSampler samples the rollouts.
func (t *trainer) rolloutSampler() model.Sampler {
	if t.old.sampler != nil {
		return t.old.sampler
	}
	return t.sampler
}

// renewed reports whether, after a step, the old policy is the policy itself.
func (t *trainer) renewed(step int) bool {
	k := t.cfg.Rollout.ResampleEveryNSteps
	return step == 0 || k > 0 && step%k == 0
}

// resample renews the old policy after a step if that is due.
func (t *trainer) resample(step int) error {
	if !t.cfg.Rollout.Stale() || step == 0 || !t.renewed(step) {
		return nil
	}
	return t.renewOld()
}

// renewOld makes the old policy a copy of the policy.
func (t *trainer) renewOld() error {
	if t.old.policy != nil && t.old.policy.Params().Match(t.params) == nil {
		if err := t.old.policy.Params().Set(t.params); err != nil {
			return err
		}
		t.old.sampler.Refresh()
		return nil
	}
	// There is none, or it is the base without adapters: see [model.Policy.Copy].
	if err := t.params.Pull(); err != nil {
		return err
	}
	if t.old.sampler != nil {
		t.old.sampler.Close()
	}
	t.old.policy = t.policy.Copy()
	t.old.sampler = t.old.policy.NewSampler()
	return nil
}

// hasOld reports whether the checkpoint after a step has the old policy. It does not if that is the
// initial policy or the current one.
func (t *trainer) hasOld(step int) bool {
	k := t.cfg.Rollout.ResampleEveryNSteps
	return k > 1 && step >= k && !t.renewed(step)
}

// oldParams are the parameters of the old policy, in the form of the policy's: those of a base
// without adapters are zeros.
func (t *trainer) oldParams() *model.Params {
	p := t.old.policy.Params()
	if t.params.Match(p) != nil {
		return t.params.Zeros()
	}
	return p
}

// adoptOld takes the old policy from a checkpoint. It overwrites the policy's parameters.
func (t *trainer) adoptOld(p *model.Params) error {
	if err := t.params.Set(p); err != nil {
		return err
	}
	return t.renewOld()
}
