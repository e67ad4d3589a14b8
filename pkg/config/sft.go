package config

// SFT is the configuration of `grpo sft`, which trains a base model by
// supervised learning in stages.
type SFT struct {
	Name  string `yaml:"name"`
	Seed  uint64 `yaml:"seed"`
	Data  Data   `yaml:"data"`
	Model Model  `yaml:"model"`
	// LoRA trains adapters instead of all weights.
	LoRA LoRA `yaml:"lora"`
	// Stages run in order, each from the weights of the one before.
	Stages []Stage `yaml:"stages"`
	// EvalSize is the number of validation problems of an evaluation.
	EvalSize int `yaml:"eval_size"`
	// EvalTokens is the maximum number of tokens of a completion of an evaluation.
	EvalTokens int `yaml:"eval_tokens" neutral:"64"`
}

// Stage is one supervised stage of [SFT].
type Stage struct {
	Name string `yaml:"name"`
	// Corpus: "capability" (only annotated, right solutions), "preference" (the
	// mixture of styles that hides them), or "answers" (the worked answers of the
	// data files).
	Corpus string `yaml:"corpus"`
	// Examples in the corpus; batches are drawn without replacement, epoch by epoch.
	Examples     int        `yaml:"examples"`
	Steps        int        `yaml:"steps"`
	BatchSize    int        `yaml:"batch_size"`
	LearningRate float64    `yaml:"learning_rate"`
	WarmupSteps  int        `yaml:"warmup_steps"`
	FinalLRRatio float64    `yaml:"final_lr_ratio"` // of the cosine decay
	AdamBetas    [2]float64 `yaml:"adam_betas"`
	AdamEps      float64    `yaml:"adam_eps"`
	WeightDecay  float64    `yaml:"weight_decay"`
	MaxGradNorm  float64    `yaml:"max_grad_norm"`
	// PromptLossWeight weighs the tokens of the prompt; completion tokens weigh 1. With 0 the loss is
	// of the completion alone (TRL: completion_only_loss).
	PromptLossWeight float64 `yaml:"prompt_loss_weight"`
	// LossType is "nll" or "dft", one of rl.SupervisedLosses.
	LossType string `yaml:"loss_type" neutral:"nll"`
	// MaxLength cuts longer examples at the end, in tokens of prompt and completion (0 = none may be
	// longer than the model's context). With Packing a batch has BatchSize packs of up to MaxLength
	// tokens instead of BatchSize examples; no example attends to another.
	MaxLength int  `yaml:"max_length" neutral:"0"`
	Packing   bool `yaml:"packing" neutral:"false"`
	// StopAtSampledAccuracy ends the stage early, at an evaluation (0 = never).
	StopAtSampledAccuracy float64 `yaml:"stop_at_sampled_accuracy"`
	EveryNSteps           int     `yaml:"every_n_steps"`
	// EarlyStoppingPatience ends the stage after this many evaluations in a row whose validation
	// loss is not below the lowest by more than EarlyStoppingThreshold, in nats per token; the stage
	// returns to the weights of the lowest (0 = never, and there is no validation loss).
	EarlyStoppingPatience  int     `yaml:"early_stopping_patience" neutral:"0"`
	EarlyStoppingThreshold float64 `yaml:"early_stopping_threshold" neutral:"0"`
	// The stage's final sampled validation accuracy must be in this range; otherwise `grpo sft`
	// fails.
	AcceptSampledMin float64 `yaml:"accept_sampled_min"`
	AcceptSampledMax float64 `yaml:"accept_sampled_max"`
}

// DefaultSFT returns the defaults of `grpo sft`, without stages: the recipe of the embedded base
// model is configs/base.yaml, which [LoadSFT] reads by default.
func DefaultSFT() SFT {
	c := Default()
	c.Model.Init = "random"
	return SFT{Name: "sft", Seed: 1, Data: c.Data, Model: c.Model, LoRA: c.Train.LoRA, EvalSize: 1024, EvalTokens: 64}
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
