// Package config holds the typed configuration of a run: every default in one
// place, a strict loader that refuses what it does not know, validation with
// rules that name their keys, and a canonical hash that identifies a run.
//
// Names follow the assignment (Stanford CS336, assignment 5) first and TRL
// second, so that a reader finds an option by the name that its source gives it.
package config

// Config is the resolved configuration of one GRPO run. The zero value is not
// usable; start from [Default].
type Config struct {
	// Name is a label for tables and plots; it does not enter the hash.
	Name string `yaml:"name"`
	// Seed drives weights (when initialised at random), problem order and sampling.
	Seed uint64 `yaml:"seed"`

	Data      Data      `yaml:"data"`
	Model     Model     `yaml:"model"`
	Rollout   Rollout   `yaml:"rollout"`
	Reward    Reward    `yaml:"reward"`
	Algorithm Algorithm `yaml:"algorithm"`
	Train     Train     `yaml:"train"`
	Eval      Eval      `yaml:"eval"`
	Output    Output    `yaml:"output"`
}

// Data says where problems come from and how they become prompts.
type Data struct {
	// Source: "generated" (the word-problem generator), "gsm8k" (JSONL files) or "svamp".
	Source string `yaml:"source"`
	// TrainFile, ValFile and TestFile are read when Source is not "generated".
	// An empty TestFile means: no test split.
	TrainFile string `yaml:"train_file"`
	ValFile   string `yaml:"val_file"`
	TestFile  string `yaml:"test_file"`
	// SkipBad counts broken lines and goes on instead of stopping at the first.
	SkipBad bool `yaml:"skip_bad"`
	// Annotations in worked answers: "keep" (<<48/2=24>>24), "strip" (24), "equation" (48/2=24).
	Annotations string `yaml:"annotations"`
	// PromptTemplate: "plain", "question_only" or "r1_zero".
	PromptTemplate string `yaml:"prompt_template"`

	// GeneratorSeed fixes the generated problems and their split. It is apart
	// from the run's seed, so that all seeds and arms meet the same problems.
	GeneratorSeed uint64 `yaml:"generator_seed"`
	// Weights of the generated problem types add, sub and mul (relative).
	WeightAdd float64 `yaml:"weight_add"`
	WeightSub float64 `yaml:"weight_sub"`
	WeightMul float64 `yaml:"weight_mul"`
	// ValSize, TestSize and UnseenSize cap the number of problems in each
	// evaluation split. Of files, ValSize and TestSize 0 take all problems, which
	// is what [Load] makes of a size that nobody gave. Unseen problems use operand facts that no stage of
	// training saw.
	ValSize    int `yaml:"val_size"`
	TestSize   int `yaml:"test_size"`
	UnseenSize int `yaml:"unseen_size"`
	// TrainSize caps the training problems (0 = all).
	TrainSize int `yaml:"train_size"`
}

// Model says what the policy is and where its first weights come from.
type Model struct {
	HiddenSize int `yaml:"hidden_size"`
	NumLayers  int `yaml:"num_layers"`
	// Init: "base" (the embedded base model), "random", or the path of a
	// safetensors checkpoint.
	Init string `yaml:"init"`
	// Device: "cpu", "cuda" (an NVIDIA GPU, in a program that was built with
	// CUDA) or "auto" (a GPU where there is one and it pays). It enters the hash:
	// the devices' numbers differ in their last bits.
	Device string `yaml:"device"`
	// Precision of a GPU's matrix products: "float32", "tf32" or "bf16".
	Precision string `yaml:"precision" neutral:"float32"`
}

// Rollout says how completions are sampled.
type Rollout struct {
	// RolloutBatchSize is the number of completions of one step; it is a
	// multiple of GroupSize.
	RolloutBatchSize int `yaml:"rollout_batch_size"`
	GroupSize        int `yaml:"group_size"`
	// SamplingTemperature divides the logits, in sampling and in the loss alike.
	SamplingTemperature float64 `yaml:"sampling_temperature"`
	SamplingTopP        float64 `yaml:"sampling_top_p"` // 1 = off
	SamplingTopK        int     `yaml:"sampling_top_k"` // 0 = off
	SamplingMinTokens   int     `yaml:"sampling_min_tokens"`
	SamplingMaxTokens   int     `yaml:"sampling_max_tokens"`
}

// Train is the loop and the optimizer.
type Train struct {
	// NGRPOSteps counts rollout batches.
	NGRPOSteps int `yaml:"n_grpo_steps"`
	// EpochsPerRolloutBatch is num_iterations in TRL; files and --set take both
	// names.
	EpochsPerRolloutBatch int `yaml:"epochs_per_rollout_batch"`
	// TrainBatchSize is the number of completions of one optimizer update
	// (0 means rollout_batch_size).
	TrainBatchSize int `yaml:"train_batch_size"`
	// GradientAccumulationSteps splits a train batch into micro-batches. It
	// never changes the result, only the memory.
	GradientAccumulationSteps int        `yaml:"gradient_accumulation_steps"`
	LearningRate              float64    `yaml:"learning_rate"`
	AdamBetas                 [2]float64 `yaml:"adam_betas"`
	AdamEps                   float64    `yaml:"adam_eps"`
	WeightDecay               float64    `yaml:"weight_decay"`
	// MaxGradNorm clips the global gradient norm (0 = no clipping).
	MaxGradNorm float64 `yaml:"max_grad_norm"`
	// StopOnDivergence ends a run at the evaluation that finds its validation
	// reward collapsed. A number that is not finite ends it in any case.
	StopOnDivergence bool `yaml:"stop_on_divergence" neutral:"false"`
}

// Eval says when and how the policy is evaluated. How is its own setting and not
// the rollout's: runs that train at different temperatures are only comparable
// if they are evaluated at the same one.
//
// The first release evaluated as it sampled. The tag was names the rollout's key
// that it used: a key that equals it leaves the hash as it was (see [Hash]), and
// a configuration that the first release wrote is read with that value.
type Eval struct {
	// EveryNSteps: validation after each k-th step, and always before the first
	// and after the last.
	EveryNSteps int `yaml:"every_n_steps"`
	// Temperature, TopP and TopK are those of the sampled decoding.
	Temperature float64 `yaml:"temperature" was:"rollout.sampling_temperature"`
	TopP        float64 `yaml:"top_p" was:"rollout.sampling_top_p"` // 1 = off
	TopK        int     `yaml:"top_k" was:"rollout.sampling_top_k"` // 0 = off
	// MinTokens and MaxTokens bound the length, of greedy decoding too. 0 for
	// MaxTokens means rollout.sampling_max_tokens, which [Resolve] fills in.
	MinTokens int `yaml:"min_tokens" was:"rollout.sampling_min_tokens"`
	MaxTokens int `yaml:"max_tokens" was:"rollout.sampling_max_tokens"`
	// Greedy adds greedy decoding to the sampled one.
	Greedy bool `yaml:"greedy"`
	// SaveSamples is the number of completions that go into samples.jsonl at each evaluation.
	SaveSamples int `yaml:"save_samples"`
}

// Output says what a run keeps.
type Output struct {
	// CheckpointEveryNSteps: a run that is killed continues from the newest of
	// these; 0 = one after each evaluation.
	CheckpointEveryNSteps int `yaml:"checkpoint_every_n_steps"`
	// KeepCheckpoints is how many of the newest stay, beside the best weights:
	// where one is damaged, the run continues from the one before.
	KeepCheckpoints int `yaml:"keep_checkpoints"`
	// Keep: "all", or "best" to keep of a finished run the best weights only. They
	// are a fraction of the disk space that the checkpoints take, with which a
	// finished run can't do anything more.
	Keep string `yaml:"keep" neutral:"all"`
}

// Default returns the default experiment.
func Default() Config {
	return Config{
		Name: "default",
		Seed: 1,
		Data: Data{
			Source: "generated", Annotations: "keep", PromptTemplate: "plain",
			GeneratorSeed: 1, WeightAdd: 1, WeightSub: 1, WeightMul: 1,
			ValSize: 1024, TestSize: 1024, UnseenSize: 512,
		},
		Model: Model{HiddenSize: 64, NumLayers: 2, Init: "base", Device: "cpu", Precision: "float32"},
		Rollout: Rollout{
			RolloutBatchSize: 256, GroupSize: 8, SamplingTemperature: 1,
			SamplingTopP: 1, SamplingMaxTokens: 64,
		},
		Reward:    defaultReward(),
		Algorithm: defaultAlgorithm(),
		Train: Train{
			NGRPOSteps: 200, EpochsPerRolloutBatch: 1, GradientAccumulationSteps: 1,
			LearningRate: 1e-3, AdamBetas: [2]float64{0.9, 0.95}, AdamEps: 1e-8,
			MaxGradNorm: 1,
		},
		Eval:   Eval{EveryNSteps: 10, Temperature: 1, TopP: 1, Greedy: true, SaveSamples: 8},
		Output: Output{KeepCheckpoints: 2, Keep: "all"},
	}
}

// SFT is the configuration of `grpo sft`, which trains a base model by
// supervised learning in stages.
type SFT struct {
	Name  string `yaml:"name"`
	Seed  uint64 `yaml:"seed"`
	Data  Data   `yaml:"data"`
	Model Model  `yaml:"model"`
	// Stages run one after the other, each from the weights of the one before.
	Stages []Stage `yaml:"stages"`
	// EvalSize is the number of validation problems of an evaluation.
	EvalSize int `yaml:"eval_size"`
}

// Stage is one supervised stage of [SFT].
type Stage struct {
	Name string `yaml:"name"`
	// Corpus: "capability" (only annotated, right solutions), "preference" (the
	// mixture of styles that buries them), or "answers" (the worked answers of
	// the data files).
	Corpus string `yaml:"corpus"`
	// Examples in the corpus; batches are drawn from it without replacement,
	// epoch by epoch.
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
	// PromptLossWeight weighs the tokens of the prompt; completion tokens weigh 1.
	PromptLossWeight float64 `yaml:"prompt_loss_weight"`
	// StopAtSampledAccuracy ends the stage early, at an evaluation (0 = never).
	StopAtSampledAccuracy float64 `yaml:"stop_at_sampled_accuracy"`
	EveryNSteps           int     `yaml:"every_n_steps"`
	// Accept is the range of sampled validation accuracy in which the stage's
	// result must lie; outside it `grpo sft` says so and fails.
	AcceptSampledMin float64 `yaml:"accept_sampled_min"`
	AcceptSampledMax float64 `yaml:"accept_sampled_max"`
}
