package config

import (
	"cmp"
	"fmt"
	"slices"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// Resolve replaces zeros and empty strings that mean the value of other keys:
//
//   - train.train_batch_size 0 is rollout.rollout_batch_size;
//   - eval.max_tokens 0 is rollout.sampling_max_tokens;
//   - an empty algorithm.length_normalization or importance_sampling_level, and a
//     dual_clip of 0, is what the recipe of the loss type has (see pkg/rl);
//   - algorithm.normalize_constant 0 is rollout.sampling_max_tokens; for luspo it
//     is 1, and for the aggregation constant the train batch's size times that;
//   - algorithm.use_std_normalization follows normalizer and scale_rewards, if one
//     of these is given;
//   - with the reward function cosine, an empty reward.cosine_correct is the first
//     of the other functions that can decide what is right, or answer;
//   - for ppo, value_learning_rate and value_epochs 0 are those of the policy.
//
// It leaves out the custom reward functions that are not used, and puts the others in the order of
// reward.functions.
//
// It is idempotent and preserves validity.
func Resolve[T Root](c T) T {
	resolve(&c)
	return c
}

// reason is why [Resolve] wrote a key: it copied another key, or another key asked for the value.
type reason struct{ from, askedBy string }

// fill writes a field that is zero and notes the reason.
func fill[V comparable](wrote map[string]reason, key string, field *V, value V, why reason) {
	var zero V
	if *field == zero && value != zero {
		*field, wrote[key] = value, why
	}
}

// resolve returns the keys that it wrote, each with the reason.
func resolve(root any) map[string]reason {
	wrote := map[string]reason{}
	c, ok := root.(*Config)
	if !ok {
		return wrote
	}
	t, r, a := &c.Train, &c.Reward, &c.Algorithm
	longest := c.Rollout.SamplingMaxTokens
	r.Custom = r.usedCustom()
	fill(wrote, "train.train_batch_size", &t.TrainBatchSize, c.Rollout.RolloutBatchSize,
		reason{from: "rollout.rollout_batch_size"})
	fill(wrote, "eval.max_tokens", &c.Eval.MaxTokens, longest, reason{from: "rollout.sampling_max_tokens"})
	if slices.Contains(r.Functions, "cosine") {
		base := "answer"
		isBase := func(f string) bool { return slices.Contains(gsm8k.CosineBases(), f) }
		if i := slices.IndexFunc(r.Functions, isBase); i >= 0 {
			base = r.Functions[i]
		}
		fill(wrote, "reward.cosine_correct", &r.CosineCorrect, base, reason{askedBy: "reward.functions"})
	}

	recipe, byLoss := a.recipe(), reason{askedBy: "algorithm.loss_type"}
	fill(wrote, "algorithm.length_normalization", &a.LengthNormalization, recipe.Aggregation, byLoss)
	fill(wrote, "algorithm.importance_sampling_level", &a.ImportanceSamplingLevel, recipe.Level, byLoss)
	a.ImportanceSamplingLevel = cmp.Or(a.ImportanceSamplingLevel, rl.TokenLevel)
	fill(wrote, "algorithm.dual_clip", &a.DualClip, recipe.DualClip, byLoss)
	fill(wrote, "algorithm.normalize_constant", &a.NormalizeConstant, recipe.NormalizeConstant, byLoss)
	if a.LengthNormalization == rl.Constant {
		fill(wrote, "algorithm.normalize_constant", &a.NormalizeConstant,
			float64(t.TrainBatchSize)*float64(longest), reason{askedBy: "algorithm.length_normalization"})
	}
	fill(wrote, "algorithm.normalize_constant", &a.NormalizeConstant, float64(longest),
		reason{from: "rollout.sampling_max_tokens"})
	if by, std := a.stdAskedBy(); by != "" && a.UseStdNormalization != std {
		a.UseStdNormalization, wrote["algorithm.use_std_normalization"] = std, reason{askedBy: by}
	}
	if a.Type == "ppo" {
		fill(wrote, "algorithm.value_learning_rate", &a.ValueLearningRate, t.LearningRate,
			reason{from: "train.learning_rate"})
		fill(wrote, "algorithm.value_epochs", &a.ValueEpochs, t.EpochsPerRolloutBatch,
			reason{from: "train.epochs_per_rollout_batch"})
	}
	return wrote
}

// stdAskedBy returns the key that determines use_std_normalization, if any, and the value it
// implies. With no_baseline the key has no effect.
func (a *Algorithm) stdAskedBy() (key string, std bool) {
	switch {
	case a.BaseLoss() == rl.NoBaseline:
		return "", false
	case a.Normalizer != "":
		return "algorithm.normalizer", a.Normalizer == a.stdNormalizer()
	case a.ScaleRewards != "":
		return "algorithm.scale_rewards", a.ScaleRewards == "group"
	}
	return "", false
}

// useWholeFiles takes all validation and test problems of files unless a source gives a size: the
// default sizes are for generated problems, which are unlimited. Sizes in an embedded configuration
// count if they differ from the defaults, as in smoke.
func (l *Loaded[T]) useWholeFiles() {
	c, ok := any(&l.Config).(*Config)
	if !ok || c.Data.Source == "generated" {
		return
	}
	usual := Default().Data
	follow := func(key string, size *int, usual int) {
		if *size == usual && l.origins[key].Source <= SourceEmbedded {
			*size, l.origins[key] = 0, Origin{AskedBy: "data.source"}
		}
	}
	follow("data.val_size", &c.Data.ValSize, usual.ValSize)
	follow("data.test_size", &c.Data.TestSize, usual.TestSize)
}

// Checkpoint is the file named by a path in model.init or algorithm.teacher.
type Checkpoint struct {
	File                  string // the safetensors file: the path, or one in that folder
	HiddenSize, NumLayers int
	LearningRate          float64 // the default for its network; 0 = that of TinyLM
	// EvalTokens is the default of eval.max_tokens for its network, where no run is trained; 0 = that of TinyLM.
	EvalTokens int
	LoRA       *LoRA // of adapters; nil if it has all weights
}

// useCheckpoints replaces a folder in model.init and algorithm.teacher by the weights in it, and
// takes the size of the model from model.init. A different size set by the user is an error. An
// unreadable checkpoint is reported when the weights are loaded. broken collects the keys that need
// no further checks.
func (l *Loaded[T]) useCheckpoints(opts LoadOptions, broken map[string]bool) (problems []string) {
	find := opts.Checkpoint
	locate := func(key string, path *string, adapterBase string) (c Checkpoint) {
		if find == nil || *path == "" || *path == "base" || *path == "random" {
			return c
		}
		c, err := find(*path, adapterBase)
		if err != nil {
			broken[key] = true
			problems = append(problems, fmt.Sprintf("%s (%s, %s): %v", key, *path, l.origins[key], err))
			return Checkpoint{}
		}
		if c.File != "" {
			*path = c.File
		}
		return c
	}
	var m *Model
	var found Checkpoint
	switch c := any(&l.Config).(type) {
	case *Config:
		m, found = &c.Model, locate("model.init", &c.Model.Init, c.Model.AdapterBase)
		const rate = "train.learning_rate"
		if found.LearningRate > 0 && l.origins[rate].Source == SourceDefault {
			c.Train.LearningRate, l.origins[rate] = found.LearningRate, Origin{AskedBy: "model.init"}
		}
		const length = "eval.max_tokens"
		usual := l.origins[length].Source == SourceDefault && l.origins["rollout.sampling_max_tokens"].Source == SourceDefault
		if opts.Only != "" && found.EvalTokens > 0 && usual {
			c.Eval.MaxTokens, l.origins[length] = found.EvalTokens, Origin{AskedBy: "model.init"}
		}
		locate("algorithm.teacher", &c.Algorithm.Teacher, "")
	case *SFT:
		m, found = &c.Model, locate("model.init", &c.Model.Init, c.Model.AdapterBase)
	case *RewardModel:
		m, found = &c.Model, locate("model.init", &c.Model.Init, c.Model.AdapterBase)
		const rate = "learning_rate"
		if found.LearningRate > 0 && l.origins[rate].Source <= SourceEmbedded {
			c.LearningRate, l.origins[rate] = decoderRewardRate, Origin{AskedBy: "model.init"}
		}
		if found.LoRA != nil {
			return append(problems, fmt.Sprintf("model.init (%s, %s) has adapters: a reward model trains all weights (merge "+
				"them first with: grpo export --merge)", m.Init, l.origins["model.init"]))
		}
	}
	if found.File == "" {
		return problems
	}
	switch {
	case found.LoRA != nil:
		problems = append(problems, l.followAdapters(found.LoRA)...)
	case m.AdapterBase != "":
		problems = append(problems, fmt.Sprintf("model.adapter_base (%s, %s) has no effect: model.init (%s) is not a "+
			"PEFT folder", m.AdapterBase, l.origins["model.adapter_base"], m.Init))
	}
	follow := func(key string, size *int, want int) {
		o := l.origins[key]
		switch {
		case *size == want:
		case o.Source > SourceEmbedded:
			problems = append(problems, fmt.Sprintf("%s (%d, %s) contradicts model.init (%s, %s): "+
				"the model there has %d; leave %s out and it follows the checkpoint",
				key, *size, o, m.Init, l.origins["model.init"], want, key))
		default:
			*size, l.origins[key] = want, Origin{AskedBy: "model.init"}
		}
	}
	follow("model.hidden_size", &m.HiddenSize, found.HiddenSize)
	follow("model.num_layers", &m.NumLayers, found.NumLayers)
	return problems
}
