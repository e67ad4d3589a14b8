package config

import "slices"

// Resolve replaces what stands for the value of other keys:
//
//   - train.train_batch_size 0 is rollout.rollout_batch_size;
//   - eval.max_tokens 0 is rollout.sampling_max_tokens;
//   - an empty algorithm.length_normalization or importance_sampling_level, and a
//     dual_clip of 0, is what the loss type asks for (masked_mean, token and 0
//     unless it is a name that says otherwise: token-mean for dapo);
//   - algorithm.normalize_constant 0 is rollout.sampling_max_tokens; for luspo it
//     is 1, and for the aggregation constant the train batch's size times that;
//   - algorithm.use_std_normalization follows normalizer and scale_rewards, where
//     one of these is given;
//   - with the reward function cosine, an empty reward.cosine_correct is the first
//     function beside it that tells right from wrong, or answer;
//   - for ppo, value_learning_rate and value_epochs 0 are those of the policy.
//
// It is idempotent, and what it returns is valid if the argument is.
func Resolve[T Root](c T) T {
	resolve(&c)
	return c
}

// reason says why [Resolve] wrote a key: it took the value from another key, or
// another key asked for it.
type reason struct{ from, askedBy string }

// resolve returns the keys that it wrote, each with the reason.
func resolve(root any) map[string]reason {
	wrote := map[string]reason{}
	c, ok := root.(*Config)
	if !ok {
		return wrote
	}
	if c.Train.TrainBatchSize == 0 {
		c.Train.TrainBatchSize = c.Rollout.RolloutBatchSize
		wrote["train.train_batch_size"] = reason{from: "rollout.rollout_batch_size"}
	}
	if c.Eval.MaxTokens == 0 {
		c.Eval.MaxTokens = c.Rollout.SamplingMaxTokens
		wrote["eval.max_tokens"] = reason{from: "rollout.sampling_max_tokens"}
	}
	if r := &c.Reward; r.CosineCorrect == "" && slices.Contains(r.Functions, "cosine") {
		r.CosineCorrect = "answer"
		if i := slices.IndexFunc(r.Functions, func(f string) bool { return slices.Contains(CosineBases(), f) }); i >= 0 {
			r.CosineCorrect = r.Functions[i]
		}
		wrote["reward.cosine_correct"] = reason{askedBy: "reward.functions"}
	}
	a := &c.Algorithm
	a.resolveLoss(wrote)
	switch {
	case a.NormalizeConstant != 0:
	case a.recipe().NormalizeConstant != 0:
		a.NormalizeConstant = a.recipe().NormalizeConstant
		wrote["algorithm.normalize_constant"] = reason{askedBy: "algorithm.loss_type"}
	case a.LengthNormalization == "constant":
		a.NormalizeConstant = float64(c.Train.TrainBatchSize) * float64(c.Rollout.SamplingMaxTokens)
		wrote["algorithm.normalize_constant"] = reason{askedBy: "algorithm.length_normalization"}
	default:
		a.NormalizeConstant = float64(c.Rollout.SamplingMaxTokens)
		wrote["algorithm.normalize_constant"] = reason{from: "rollout.sampling_max_tokens"}
	}
	if by, std := a.stdAskedBy(); by != "" && a.UseStdNormalization != std {
		a.UseStdNormalization = std
		wrote["algorithm.use_std_normalization"] = reason{askedBy: by}
	}
	if a.Type == "ppo" {
		if a.ValueLearningRate == 0 {
			a.ValueLearningRate = c.Train.LearningRate
			wrote["algorithm.value_learning_rate"] = reason{from: "train.learning_rate"}
		}
		if a.ValueEpochs == 0 {
			a.ValueEpochs = c.Train.EpochsPerRolloutBatch
			wrote["algorithm.value_epochs"] = reason{from: "train.epochs_per_rollout_batch"}
		}
	}
	return wrote
}

func (a *Algorithm) resolveLoss(wrote map[string]reason) {
	l := a.recipe()
	if a.LengthNormalization == "" && l.Aggregation != "" {
		a.LengthNormalization = string(l.Aggregation)
		wrote["algorithm.length_normalization"] = reason{askedBy: "algorithm.loss_type"}
	}
	if a.ImportanceSamplingLevel == "" {
		a.ImportanceSamplingLevel = "token"
		if l.Level != "" {
			a.ImportanceSamplingLevel = string(l.Level)
			wrote["algorithm.importance_sampling_level"] = reason{askedBy: "algorithm.loss_type"}
		}
	}
	if a.DualClip == 0 && l.DualClip != 0 {
		a.DualClip = l.DualClip
		wrote["algorithm.dual_clip"] = reason{askedBy: "algorithm.loss_type"}
	}
}

// stdNormalizer is the normalizer that use_std_normalization stands for.
func (a *Algorithm) stdNormalizer() string {
	if a.Type == "ppo" {
		return "whiten_tokens"
	}
	return "group_std"
}

// stdAskedBy returns the key that decides over use_std_normalization in its
// place, if there is one, and what it asks for. no_baseline has its own sense of
// the key: it has no effect there.
func (a *Algorithm) stdAskedBy() (key string, std bool) {
	switch {
	case a.LossType == "no_baseline":
		return "", false
	case a.Normalizer != "":
		return "algorithm.normalizer", a.Normalizer == a.stdNormalizer()
	case a.ScaleRewards != "":
		return "algorithm.scale_rewards", a.ScaleRewards == "group"
	}
	return "", false
}
