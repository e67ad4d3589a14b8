package config

import "grpo/pkg/gsm8k"

// SFT is the configuration of `grpo sft`, which trains a base model by
// supervised learning in stages.
type SFT struct {
	Name  string `yaml:"name" hash:"-"`
	Seed  uint64 `yaml:"seed"`
	Data  Data   `yaml:"data"`
	Model Model  `yaml:"model"`
	LoRA  LoRA   `yaml:"lora"`
	// Extract is reward.extract of a run.
	Extract string `yaml:"extract,omitempty" neutral:"auto"`
	// Stages run in order, each from the weights of the one before.
	Stages []Stage `yaml:"stages"`
	// EvalSize is the number of validation problems of an evaluation, EvalTokens the maximum length of a completion.
	EvalSize   int `yaml:"eval_size" in:"size"`
	EvalTokens int `yaml:"eval_tokens" in:"tokens" neutral:"64"`
}

// Stage is one supervised stage of [SFT]. Its keys are documented in configs/base.yaml.
type Stage struct {
	Name             string     `yaml:"name"`
	Corpus           string     `yaml:"corpus" of:"capability|preference|answers"`
	Examples         int        `yaml:"examples" in:"[1,134217728]"`
	Steps            int        `yaml:"steps" in:"counter"`
	BatchSize        int        `yaml:"batch_size" in:"size"`
	LearningRate     float64    `yaml:"learning_rate" in:"nonNegative"`
	WarmupSteps      int        `yaml:"warmup_steps" in:"counterOrNone"`
	FinalLRRatio     float64    `yaml:"final_lr_ratio" in:"fraction"` // of the cosine decay
	AdamBetas        [2]float64 `yaml:"adam_betas" in:"belowOne"`
	AdamEps          float64    `yaml:"adam_eps" in:"positive"`
	WeightDecay      float64    `yaml:"weight_decay" in:"nonNegative"`
	MaxGradNorm      float64    `yaml:"max_grad_norm" in:"nonNegative"`
	PromptLossWeight float64    `yaml:"prompt_loss_weight" in:"nonNegative"`
	LossType         string     `yaml:"loss_type" of:"supervised-losses" neutral:"nll"`
	// MaxLength cuts longer examples at the end, in tokens of prompt and completion (0 = none may be
	// longer than the model's context). With Packing a batch has BatchSize packs of up to MaxLength
	// tokens instead of BatchSize examples; no example attends to another.
	MaxLength             int     `yaml:"max_length" in:"tokensOrNone" neutral:"0"`
	Packing               bool    `yaml:"packing" neutral:"false"`
	StopAtSampledAccuracy float64 `yaml:"stop_at_sampled_accuracy" in:"fraction"`
	EveryNSteps           int     `yaml:"every_n_steps" in:"counter"`
	// EarlyStoppingPatience ends the stage after this many evaluations in a row whose validation
	// loss is not below the lowest by more than EarlyStoppingThreshold, in nats per token; the stage
	// returns to the weights of the lowest (0 = never, and there is no validation loss).
	EarlyStoppingPatience  int     `yaml:"early_stopping_patience" in:"counterOrNone" neutral:"0"`
	EarlyStoppingThreshold float64 `yaml:"early_stopping_threshold" in:"nonNegative" neutral:"0"`
	AcceptSampledMin       float64 `yaml:"accept_sampled_min" in:"fraction"`
	AcceptSampledMax       float64 `yaml:"accept_sampled_max" in:"fraction"`
}

// DefaultSFT returns the defaults of `grpo sft`, without stages: the recipe of the embedded base
// model is configs/base.yaml, which [LoadSFT] reads by default.
func DefaultSFT() SFT {
	c := Default()
	c.Model.Init = "random"
	return SFT{Name: "sft", Seed: 1, Data: c.Data, Model: c.Model, LoRA: c.Train.LoRA, Extract: "auto", EvalSize: 1024,
		EvalTokens: 64}
}

// DefaultStage returns the defaults of a stage. Name, corpus and number of steps have no default
// and are required.
func DefaultStage() Stage {
	return Stage{
		Examples: 20000, BatchSize: 64, LearningRate: 2e-3, FinalLRRatio: 0.02,
		AdamBetas: [2]float64{0.9, 0.95}, AdamEps: 1e-8, MaxGradNorm: 1,
		PromptLossWeight: 0.1, LossType: "nll", EveryNSteps: 100, AcceptSampledMax: 1,
	}
}

// SetDefaults resets s to [DefaultStage] before a file is decoded into it.
func (s *Stage) SetDefaults() { *s = DefaultStage() }

// Answers says what a right answer is.
func (c *SFT) Answers() gsm8k.Answers { return c.Data.Answers(c.Extract) }

func (c *SFT) train() *Config {
	return &Config{Data: c.Data, Model: c.Model, Train: Train{LoRA: c.LoRA}}
}

func (c *SFT) validate(v *validator) {
	v.notEmpty(&c.Name)
	c.Data.validate(v, c.Model)
	c.Model.validate(v)
	c.LoRA.validate(v, c.Model)
	v.extraction(&c.Data, &c.Extract)
	if c.Data.ValSize != 0 {
		atMost(v, &c.EvalSize, &c.Data.ValSize)
	}
	if len(c.Stages) == 0 {
		v.reject("stages must have at least one stage")
	}
	for i := range c.Stages {
		s := &c.Stages[i]
		s.validate(v, &c.Data)
		for j := range c.Stages[:i] {
			if other := &c.Stages[j]; s.Name == other.Name {
				v.reject("%s must not be the same as %s", &s.Name, &other.Name)
				break
			}
		}
	}
}

func (s *Stage) validate(v *validator, d *Data) {
	v.notEmpty(&s.Name)
	atMost(v, &s.BatchSize, &s.Examples)
	atMost(v, &s.WarmupSteps, &s.Steps)
	atMost(v, &s.AcceptSampledMin, &s.AcceptSampledMax)
	if s.Packing && s.MaxLength == 0 {
		v.reject("%s needs the size of a pack in tokens (set max_length)", &s.Packing)
	}
	if s.EarlyStoppingPatience == 0 {
		v.noEffect(&s.EarlyStoppingPatience, "set early_stopping_patience, or leave this key out", &s.EarlyStoppingThreshold)
	}
	if s.Corpus != "answers" && !d.Generated() {
		v.reject("%s consists of generated problems and can't be combined with %s (use answers)", &s.Corpus, &d.Source)
	}
}
