// Package config holds the typed configuration of a run: structs whose yaml tags are the keys, the
// sources that set them (load.go), validation (validate.go) and a canonical hash that identifies a
// run (canonical.go). The defaults are in configs/default.yaml.
//
// Names follow the assignment (Stanford CS336, assignment 5) first and TRL second. The names of
// losses, baselines, aggregations and KL estimators are pkg/rl's.
//
// A key added after the first release has a tag with its neutral value, at which it has no effect.
// See [Hash].
package config

import (
	"cmp"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"grpo/internal/yamldoc"
)

// Config is the configuration of one GRPO run. The zero value is not usable; start
// from [Default].
type Config struct {
	// Name is a label for tables and plots; not part of the hash.
	Name string `yaml:"name"`
	// Seed drives random initial weights, problem order and sampling.
	Seed uint64 `yaml:"seed"`

	Data      Data      `yaml:"data"`
	Model     Model     `yaml:"model"`
	Rollout   Rollout   `yaml:"rollout"`
	Reward    Reward    `yaml:"reward"`
	Algorithm Algorithm `yaml:"algorithm"`
	Train     Train     `yaml:"train"`
	Eval      Eval      `yaml:"eval"`
	Output    Output    `yaml:"output"`

	// Launcher is for sweeps, and not part of the hash or of a run's written configuration.
	Launcher Launcher `yaml:"launcher"`
}

// Data describes where problems come from and how they become prompts.
type Data struct {
	// Source: "generated" (the word-problem generator), or "gsm8k" or "svamp": files (JSONL, JSON, CSV, Parquet).
	Source string `yaml:"source"`
	// TrainFile, ValFile and TestFile are read when Source is not "generated".
	// An empty TestFile means: no test split.
	TrainFile string `yaml:"train_file"`
	ValFile   string `yaml:"val_file"`
	TestFile  string `yaml:"test_file"`
	// Fields are the names of the fields with the question and the answer in these files; empty
	// means those of GSM8K's or SVAMP's form.
	Fields Fields `yaml:"fields"`
	// SkipBad counts and skips broken lines instead of stopping at the first.
	SkipBad bool `yaml:"skip_bad"`
	// Annotations in worked answers: "keep" (<<48/2=24>>24), "strip" (24), "equation" (48/2=24).
	Annotations string `yaml:"annotations"`
	// PromptTemplate: "plain", "question_only", "r1_zero", or "chat" (the chat template
	// of the checkpoint).
	PromptTemplate string `yaml:"prompt_template"`
	// SystemPrompt and FewShot, the number of worked examples, begin the conversation of
	// a chat. With FewShotFile the examples are its first, and 0 means all of them.
	SystemPrompt string `yaml:"system_prompt" neutral:""`
	FewShot      int    `yaml:"few_shot" neutral:"0"`
	FewShotFile  string `yaml:"few_shot_file" neutral:""`

	// GeneratorSeed fixes the generated problems and their split. It is separate
	// from the run's seed, so that all seeds and arms see the same problems.
	GeneratorSeed uint64 `yaml:"generator_seed"`
	// Weights of the generated problem types add, sub and mul (relative).
	WeightAdd float64 `yaml:"weight_add"`
	WeightSub float64 `yaml:"weight_sub"`
	WeightMul float64 `yaml:"weight_mul"`
	// ValSize, TestSize and UnseenSize cap the number of problems in each evaluation split. For
	// files, ValSize and TestSize 0 mean all problems, the default if no source sets a size. Unseen
	// problems use operand facts that no stage of training saw.
	ValSize    int `yaml:"val_size"`
	TestSize   int `yaml:"test_size"`
	UnseenSize int `yaml:"unseen_size"`
	// TrainSize caps the training problems (0 = all).
	TrainSize int `yaml:"train_size"`
}

// Fields are names of fields in the files of problems.
type Fields struct {
	Question string `yaml:"question" neutral:""`
	Answer   string `yaml:"answer" neutral:""`
}

// Model describes the policy and its initial weights.
type Model struct {
	HiddenSize int `yaml:"hidden_size"`
	NumLayers  int `yaml:"num_layers"`
	// Init: "base" (the embedded base model), "random", or the path of a checkpoint:
	// a safetensors file of TinyLM, a Hugging Face folder, a GGUF file or a PEFT folder.
	Init string `yaml:"init"`
	// AdapterBase is the checkpoint that the PEFT adapters in Init belong to; empty means
	// the one that they name.
	AdapterBase string `yaml:"adapter_base" neutral:""`
	// Device: "cpu", "cuda" (an NVIDIA GPU, in a binary built with CUDA) or "auto" (a GPU if there
	// is one and it is faster). It is part of the hash: results differ between devices in their
	// last bits.
	Device string `yaml:"device"`
	// Precision of matmuls: "float32", "tf32" (on a GPU) or "bf16" (on a GPU, and on a CPU with
	// AVX512_BF16 for Hugging Face folders and GGUF files).
	Precision string `yaml:"precision" neutral:"float32"`
}

// Rollout configures the sampling of completions.
type Rollout struct {
	// RolloutBatchSize is the number of completions of one step, a multiple of
	// GroupSize.
	RolloutBatchSize int `yaml:"rollout_batch_size"`
	GroupSize        int `yaml:"group_size"`
	// SamplingTemperature divides the logits, in sampling and in the loss.
	SamplingTemperature float64 `yaml:"sampling_temperature"`
	SamplingTopP        float64 `yaml:"sampling_top_p"` // 1 = off
	SamplingTopK        int     `yaml:"sampling_top_k"` // 0 = off
	SamplingMinTokens   int     `yaml:"sampling_min_tokens"`
	SamplingMaxTokens   int     `yaml:"sampling_max_tokens"`
	// ResampleEveryNSteps: the policy that samples is a copy of the policy, renewed after each k-th
	// step. 1 is the policy itself; 0 is the initial policy for the whole run.
	ResampleEveryNSteps int `yaml:"resample_every_n_steps" neutral:"1"`
}

// Stale reports whether a step may sample from an earlier policy than the one it trains.
func (r *Rollout) Stale() bool { return r.ResampleEveryNSteps != 1 }

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
	// GradientAccumulationSteps splits a train batch into micro-batches: the same
	// update with less memory.
	GradientAccumulationSteps int `yaml:"gradient_accumulation_steps"`
	// MicroBatchTokens bounds the tokens of a micro-batch: one with more is cut between
	// completions. 0 is the network's default.
	MicroBatchTokens int `yaml:"micro_batch_tokens" neutral:"0"`
	// GradientCheckpointing computes activations again in the backward pass instead of keeping
	// them, with the same bits.
	GradientCheckpointing bool       `yaml:"gradient_checkpointing" neutral:"false"`
	LearningRate          float64    `yaml:"learning_rate"`
	AdamBetas             [2]float64 `yaml:"adam_betas"`
	AdamEps               float64    `yaml:"adam_eps"`
	WeightDecay           float64    `yaml:"weight_decay"`
	// MaxGradNorm clips the global gradient norm (0 = no clipping).
	MaxGradNorm float64 `yaml:"max_grad_norm"`
	// LRScheduler: "constant", "linear" or "cosine". The last two let the learning
	// rate fall to 0 at the end of the run; transformers' formulas are in
	// pkg/train/update.go. WarmupSteps is the number of optimizer updates over
	// which it first rises from 0. lr_scheduler_type is TRL's name.
	LRScheduler string `yaml:"lr_scheduler" neutral:"constant"`
	WarmupSteps int    `yaml:"warmup_steps" neutral:"0"`
	// LoRA trains adapters instead of all weights.
	LoRA LoRA `yaml:"lora"`
	// StopOnDivergence ends a run at the evaluation that finds its validation reward collapsed. NaN
	// and infinite numbers always end it.
	StopOnDivergence bool `yaml:"stop_on_divergence" neutral:"false"`
}

// UpdatesPerStep returns the number of optimizer updates on each rollout batch. It
// is the same for every step: dynamic sampling always fills the batch, and a train
// batch whose completions are all skipped still makes an update.
func (c *Config) UpdatesPerStep() int {
	r := c.Rollout.RolloutBatchSize
	return c.Train.EpochsPerRolloutBatch * (r / cmp.Or(c.Train.TrainBatchSize, r, 1))
}

// Updates returns the number of optimizer updates of the whole run, which may
// exceed an int.
func (c *Config) Updates() float64 {
	return float64(c.Train.NGRPOSteps) * float64(c.UpdatesPerStep())
}

// Eval configures evaluation. It has its own sampling settings: runs that train at different
// temperatures are only comparable if evaluated at the same one.
//
// The first release evaluated with the settings of the rollout. The tag was names the key that it
// used: its value is the neutral one (see [Hash]) and the value of this key in a configuration of
// the first release.
type Eval struct {
	// EveryNSteps: validation after each k-th step, and always before the first
	// and after the last.
	EveryNSteps int `yaml:"every_n_steps"`
	// Temperature, TopP and TopK are for sampled decoding.
	Temperature float64 `yaml:"temperature" was:"rollout.sampling_temperature"`
	TopP        float64 `yaml:"top_p" was:"rollout.sampling_top_p"` // 1 = off
	TopK        int     `yaml:"top_k" was:"rollout.sampling_top_k"` // 0 = off
	// MinTokens and MaxTokens bound the length, also of greedy decoding. MaxTokens 0
	// means rollout.sampling_max_tokens, which [Resolve] fills in.
	MinTokens int `yaml:"min_tokens" was:"rollout.sampling_min_tokens"`
	MaxTokens int `yaml:"max_tokens" was:"rollout.sampling_max_tokens"`
	// Greedy adds greedy decoding to the sampled one.
	Greedy bool `yaml:"greedy"`
	// SaveSamples is the number of completions that each evaluation writes to
	// samples.jsonl.
	SaveSamples int `yaml:"save_samples"`
	// Sets are the problems of evaluations, besides the test split: [SetValidation] (required),
	// [SetUnseen], [SetSVAMP] or the path of a problem file. SVAMPFile is where SetSVAMP is.
	Sets      []string `yaml:"sets" neutral:"[validation, unseen]"`
	SVAMPFile string   `yaml:"svamp_file" neutral:""`
	// SetSize caps the problems of SVAMP and of each file (0 = all). They are evaluated before the
	// first step, after the last, and after each SetsEveryNSteps-th (0 = none).
	SetSize         int `yaml:"set_size" neutral:"0"`
	SetsEveryNSteps int `yaml:"sets_every_n_steps" neutral:"0"`
}

// Names in eval.sets.
const (
	SetValidation = "validation"
	SetUnseen     = "unseen"
	SetSVAMP      = "svamp"
)

// SetFile is a set of evaluation problems that is read from a file.
type SetFile struct {
	Name string // in tables and files: "svamp", or the file's name without folder and extension
	Path string
}

// SetFiles are the sets in eval.sets that are read from files, in their order.
func (e *Eval) SetFiles() []SetFile {
	var out []SetFile
	for _, s := range e.Sets {
		switch s {
		case SetValidation, SetUnseen:
		case SetSVAMP:
			out = append(out, SetFile{s, e.SVAMPFile})
		default:
			base := filepath.Base(s)
			out = append(out, SetFile{strings.TrimSuffix(base, filepath.Ext(base)), s})
		}
	}
	return out
}

// FigureFormats are the file formats of figures.
var FigureFormats = []string{"png", "svg", "pdf"}

// Output configures the files that a run keeps.
type Output struct {
	// CheckpointEveryNSteps: a killed run continues from its newest checkpoint; 0 =
	// one after each evaluation.
	CheckpointEveryNSteps int `yaml:"checkpoint_every_n_steps"`
	// CheckpointEveryMinutes: also one when the last is so old; 0 = 10 for a Llama or Qwen network,
	// no limit for TinyLM.
	CheckpointEveryMinutes float64 `yaml:"checkpoint_every_minutes,omitempty" neutral:"0"`
	// KeepCheckpoints is how many of the newest are kept, besides the best weights. If one is
	// damaged, the run continues from the previous one.
	KeepCheckpoints int `yaml:"keep_checkpoints"`
	// Keep: "all", or "best" to keep only the best weights of a finished run, which
	// take a fraction of the disk space of its checkpoints.
	Keep string `yaml:"keep" neutral:"all"`
	// TensorBoard writes scalars and figures to an event file.
	TensorBoard bool `yaml:"tensorboard" neutral:"false"`
	// Formats of figures: "png" (always written), "svg" and "pdf".
	Formats []string `yaml:"formats" neutral:"[png]"`
}

// Default returns the default experiment, configs/default.yaml.
func Default() Config {
	c, _ := defaults()
	for _, f := range leaves(&c) {
		if v := f.value; v.Kind() == reflect.Slice { // no caller may change another's
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		}
	}
	return c
}

var defaults = sync.OnceValues(func() (c Config, doc *yamldoc.Document) {
	text, err := readEmbedded("default")
	if err != nil {
		panic("config: " + err.Error()) // cannot happen with go:embed
	}
	if doc = formOf(c).Decode("default.yaml", text, &c); len(doc.Problems) > 0 {
		panic("config: " + doc.Problems[0]) // a test reads the file
	}
	return c, doc
})
