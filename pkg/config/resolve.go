package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

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
// reward.functions, with that of eval.reward last.
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
	r.Custom = r.usedCustom(c.Eval.Reward)
	fill(wrote, "train.train_batch_size", &t.TrainBatchSize, c.Rollout.RolloutBatchSize,
		reason{from: "rollout.rollout_batch_size"})
	fill(wrote, "eval.max_tokens", &c.Eval.MaxTokens, longest, reason{from: "rollout.sampling_max_tokens"})
	if slices.Contains(r.Functions, "cosine") {
		fill(wrote, "reward.cosine_correct", &r.CosineCorrect, r.cosineBase(), reason{askedBy: "reward.functions"})
	}

	recipe, byLoss := a.recipe(), reason{askedBy: "algorithm.loss_type"}
	fill(wrote, "algorithm.length_normalization", &a.LengthNormalization, recipe.Aggregation, byLoss)
	fill(wrote, "algorithm.importance_sampling_level", &a.ImportanceSamplingLevel, recipe.Level, byLoss)
	a.ImportanceSamplingLevel = cmp.Or(a.ImportanceSamplingLevel, rl.TokenLevel)
	if a.LossExpr == "" {
		fill(wrote, "algorithm.dual_clip", &a.DualClip, recipe.DualClip, byLoss)
	}
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

// adopt gives a key the value that the key by asks for, unless a source stronger than limit set it.
func (l *Loaded[T]) adopt(path string, value any, by string, limit Source) bool {
	if l.origins[path].Source > limit {
		return false
	}
	keysOf(&l.Config).find(path).value.Set(reflect.ValueOf(value))
	l.origins[path] = Origin{AskedBy: by}
	return true
}

// useWholeFiles takes all validation and test problems of files unless a source gives a size: the
// default sizes are for generated problems, which are unlimited. Sizes in an embedded configuration
// count if they differ from the defaults, as in smoke.
func (l *Loaded[T]) useWholeFiles() {
	c, ok := any(&l.Config).(*Config)
	if !ok || c.Data.Generated() {
		return
	}
	usual := Default().Data
	if c.Data.ValSize == usual.ValSize {
		l.adopt("data.val_size", 0, "data.source", SourceEmbedded)
	}
	if c.Data.TestSize == usual.TestSize {
		l.adopt("data.test_size", 0, "data.source", SourceEmbedded)
	}
}

// useValSize lets a command that trains nothing evaluate as many validation problems as its user asks for, not those
// of a run's last evaluation.
func (l *Loaded[T]) useValSize(only string) {
	const path = "data.val_size"
	c, ok := any(&l.Config).(*Config)
	if by := l.origins[path].Source; ok && only != "" && by >= SourceEnv && c.Eval.FinalSize > 0 {
		l.adopt("eval.final_size", 0, path, by-1)
	}
}

// loraRate is how much higher the learning rate of adapters is than that of all weights
// (Schulman and Thinking Machines Lab, "LoRA without regret", 2025).
const loraRate = 10

// useLoRARate raises the default learning rate under LoRA. A rate of the source that sets
// a rank, or of a stronger one, is meant for the adapters.
func (l *Loaded[T]) useLoRARate() {
	c, ok := any(&l.Config).(*Config)
	if !ok || c.Train.LoRA.Rank == 0 {
		return
	}
	const path = "train.learning_rate"
	rate, rank := l.origins[path], l.origins["train.lora.rank"]
	if rank.AskedBy != "" {
		rank = l.origins[rank.AskedBy]
	}
	if rate.Source <= SourceEmbedded && rate.Source < rank.Source && !(rate.Source == SourceEmbedded && l.adapters) {
		rate.AskedBy = "train.lora.rank"
		c.Train.LearningRate, l.origins[path] = loraRate*c.Train.LearningRate, rate
	}
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
// takes the size of the model and the form of adapters from model.init. Different ones set by the user are
// errors. An unreadable checkpoint is reported when the weights are loaded. broken collects the keys that need
// no further checks.
func (l *Loaded[T]) useCheckpoints(opts LoadOptions, broken map[string]bool) (problems []string) {
	keys := keysOf(&l.Config)
	show := func(path string) string {
		return fmt.Sprintf("%s (%v, %s)", path, keys.find(path).value, l.origins[path])
	}
	locate := func(path, adapterBase string) (c Checkpoint) {
		name := keys.find(path).value
		if opts.Checkpoint == nil || name.String() == "" || name.String() == "base" || name.String() == "random" {
			return c
		}
		c, err := opts.Checkpoint(name.String(), adapterBase)
		if err != nil {
			broken[path] = true
			problems = append(problems, fmt.Sprintf("%s: %v", show(path), err))
			return Checkpoint{}
		}
		if c.File != "" {
			name.SetString(c.File)
		}
		return c
	}
	const init = "model.init"
	found := locate(init, keys.find("model.adapter_base").value.String())
	lora := "lora"
	switch any(&l.Config).(type) {
	case *Config:
		lora = "train.lora"
		if found.LearningRate > 0 {
			l.adopt("train.learning_rate", found.LearningRate, init, SourceDefault)
		}
		if opts.Only != "" && found.EvalTokens > 0 && l.origins["rollout.sampling_max_tokens"].Source == SourceDefault {
			l.adopt("eval.max_tokens", found.EvalTokens, init, SourceDefault)
		}
		locate("algorithm.teacher", "")
	case *RewardModel:
		if found.LearningRate > 0 {
			l.adopt("learning_rate", decoderRewardRate, init, SourceEmbedded)
		}
		if found.LoRA != nil {
			return append(problems, show(init)+" has adapters: a reward model trains all weights (merge them first with: "+
				"grpo export --merge)")
		}
	}
	if found.File == "" {
		return problems
	}
	switch base := keys.find("model.adapter_base"); {
	case found.LoRA != nil:
		for _, want := range keysOf(found.LoRA) {
			path := lora + "." + want.path
			have := keys.find(path)
			same := have.format() == want.format()
			if a, ok := have.value.Interface().([]string); ok {
				same = sameSet(a, found.LoRA.Targets)
			}
			if !same && !l.adopt(path, want.value.Interface(), init, SourceEmbedded) {
				problems = append(problems, fmt.Sprintf("%s (%s) contradicts model.init (%s): the adapters there are trained "+
					"further as they are; leave %s out, or merge them into their base first",
					path, l.origins[path], keys.find(init).value, lora))
			}
			have.value.Set(want.value)
		}
	case base.value.String() != "":
		problems = append(problems, fmt.Sprintf("%s has no effect: model.init (%s) has no adapters",
			show("model.adapter_base"), keys.find(init).value))
	}
	for i, path := range []string{"model.hidden_size", "model.num_layers"} {
		want := []int{found.HiddenSize, found.NumLayers}[i]
		if keys.find(path).value.Interface() != want && !l.adopt(path, want, init, SourceEmbedded) {
			problems = append(problems, fmt.Sprintf("%s contradicts %s: the model there has %d; leave %s out and it "+
				"follows the checkpoint", show(path), show(init), want, path))
		}
	}
	return problems
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
