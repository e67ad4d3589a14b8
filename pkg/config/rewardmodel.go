package config

import (
	"cmp"

	"grpo/internal/jsonschema"
)

// RewardModel is the configuration of `grpo reward-model`, which trains a network with one output on
// preference pairs. The defaults are in configs/reward-model.yaml.
type RewardModel struct {
	Name string `yaml:"name" hash:"-"`
	Seed uint64 `yaml:"seed"`
	// Pairs and EvalPairs are files of package preference. Without EvalPairs, the pairs of EvalShare
	// of the prompts are held out.
	Pairs     string  `yaml:"pairs"`
	EvalPairs string  `yaml:"eval_pairs"`
	EvalShare float64 `yaml:"eval_share" in:"belowOne" neutral:"0.1"`
	SkipBad   bool    `yaml:"skip_bad"`
	Model     Model   `yaml:"model"`
	// UseMargin and CenterRewardsCoefficient: see rl.RewardPairs.
	UseMargin                bool    `yaml:"use_margin"`
	CenterRewardsCoefficient float64 `yaml:"center_rewards_coefficient" in:"nonNegative"`

	Epochs    int `yaml:"epochs" in:"counter"`
	BatchSize int `yaml:"batch_size" in:"size"` // pairs of one update
	// MicroBatchTokens and GradientCheckpointing are those of [Train].
	MicroBatchTokens      int        `yaml:"micro_batch_tokens" in:"sizeOrNone"`
	GradientCheckpointing bool       `yaml:"gradient_checkpointing"`
	LearningRate          float64    `yaml:"learning_rate" in:"nonNegative"`
	WarmupSteps           int        `yaml:"warmup_steps" in:"counterOrNone"`
	FinalLRRatio          float64    `yaml:"final_lr_ratio" in:"fraction"` // of the cosine decay
	AdamBetas             [2]float64 `yaml:"adam_betas" in:"belowOne"`
	AdamEps               float64    `yaml:"adam_eps" in:"positive"`
	WeightDecay           float64    `yaml:"weight_decay" in:"nonNegative"`
	MaxGradNorm           float64    `yaml:"max_grad_norm" in:"nonNegative"`
	EveryNSteps           int        `yaml:"every_n_steps" in:"counter"`
}

// rewardModelName is the embedded configuration of `grpo reward-model`.
const rewardModelName = "reward-model"

// decoderRewardRate is the default learning rate for a Llama or Qwen checkpoint, TRL's: the head starts
// at zero, so a reward model needs a higher rate than a policy.
const decoderRewardRate float64 = 1e-4

// NamesRewardModel lists the embedded configurations for `grpo reward-model -c NAME`.
func NamesRewardModel() []string { return []string{rewardModelName} }

// LoadRewardModel resolves the configuration of `grpo reward-model` as [Load] does that of a run.
// The defaults are the embedded configuration of that name.
func LoadRewardModel(opts LoadOptions) (*Loaded[RewardModel], error) {
	opts.Path = cmp.Or(opts.Path, rewardModelName)
	defaults, _ := defaultsIn[RewardModel](rewardModelName)
	return load(opts, NamesRewardModel(), defaults)
}

func (c *RewardModel) train() *Config { return &Config{Model: c.Model} }

func (c *RewardModel) validate(v *validator) {
	v.notEmpty(&c.Name)
	v.notEmpty(&c.Pairs)
	c.Model.validate(v)
	if c.EvalPairs != "" {
		v.noEffect(&c.EvalPairs, "its pairs are held out; leave this key out", &c.EvalShare)
	}
}

// SchemaRewardModel is [Schema] for the configurations of `grpo reward-model`.
func SchemaRewardModel() jsonschema.Schema {
	c, doc := defaultsIn[RewardModel](rewardModelName)
	return document("configuration of grpo reward-model", schemaOf(&c, doc.Comments))
}
