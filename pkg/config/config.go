// Package config holds the typed configuration of a run: structs whose fields are the keys, the
// sources that set them (load.go), checks (validate.go, needs.go) and a canonical hash that identifies a
// run (canonical.go).
//
// A key is declared once, by a field with these tags (see [declaration]):
//
//	yaml     its name
//	in       the range of a number, or of the elements of a list: an interval, or one of [ranges]
//	of       the values of a string, a|b, or one of [lists]; a | at the end allows ""
//	needs    what it needs to have an effect: names in needs.go
//	neutral  the value without effect, of a key added after the first release (see [Hash])
//	was      the key that the first release used in its place
//	hash     "-": the key changes no result, and is not part of the hash
//
// Its line in configs/default.yaml is its default and its documentation. What relates several keys is in
// validate.go; what 0 or "" derive from other keys is in [Resolve].
//
// Names follow the assignment (Stanford CS336, assignment 5) first and TRL second. The names of
// losses, baselines, aggregations and KL estimators are pkg/rl's, those of rewards are pkg/gsm8k's.
package config

import (
	"cmp"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"grpo/internal/yamldoc"
	"grpo/pkg/gsm8k"
	"grpo/pkg/stats"
)

// Config is the configuration of one GRPO run. The zero value is not usable; start
// from [Default].
type Config struct {
	Name string `yaml:"name" hash:"-"`
	Seed uint64 `yaml:"seed"`

	Data      Data      `yaml:"data"`
	Model     Model     `yaml:"model"`
	Rollout   Rollout   `yaml:"rollout"`
	Reward    Reward    `yaml:"reward"`
	Algorithm Algorithm `yaml:"algorithm"`
	Train     Train     `yaml:"train"`
	Eval      Eval      `yaml:"eval"`
	Output    Output    `yaml:"output"`
	Report    Report    `yaml:"report"`

	// Launcher is for sweeps, and not part of the hash or of a run's written configuration.
	Launcher Launcher `yaml:"launcher"`
}

// Data describes where problems come from and how they become prompts.
type Data struct {
	Source    string `yaml:"source" of:"sources"`
	TrainFile string `yaml:"train_file"`
	ValFile   string `yaml:"val_file"`
	TestFile  string `yaml:"test_file"`
	// Answer is a [gsm8k.Kind].
	Answer         string `yaml:"answer,omitempty" of:"kinds" neutral:"number" needs:"answers"`
	IgnoreCase     bool   `yaml:"ignore_case,omitempty" neutral:"false" needs:"text"`
	Fields         Fields `yaml:"fields"`
	SkipBad        bool   `yaml:"skip_bad" needs:"lines"`
	Annotations    string `yaml:"annotations" of:"keep|strip|equation" needs:"worked-answers"`
	PromptTemplate string `yaml:"prompt_template" of:"plain|question_only|r1_zero|few_shot|chat" needs:"own-text"`
	SystemPrompt   string `yaml:"system_prompt" neutral:"" needs:"chat"`
	FewShot        int    `yaml:"few_shot" in:"counterOrNone" neutral:"0" needs:"examples"`
	FewShotFile    string `yaml:"few_shot_file" neutral:"" needs:"examples"`
	// Stop has texts that end a completion, beside end tokens.
	Stop []yamldoc.Text `yaml:"stop,omitempty" neutral:"[]"`
	// GeneratorSeed is separate from the run's seed, so that all seeds and arms see the same problems.
	GeneratorSeed uint64  `yaml:"generator_seed" needs:"generated"`
	WeightAdd     float64 `yaml:"weight_add" in:"nonNegative" needs:"word-problems"`
	WeightSub     float64 `yaml:"weight_sub" in:"nonNegative" needs:"word-problems"`
	WeightMul     float64 `yaml:"weight_mul" in:"nonNegative" needs:"word-problems"`
	// Difficulty is that of a built-in task; 0 is the task's default.
	Difficulty int  `yaml:"difficulty,omitempty" in:"[0,100]" neutral:"0" needs:"task"`
	Task       Task `yaml:"task,omitempty"`
	// For files, ValSize and TestSize 0 mean all problems, the default if no source sets a size.
	ValSize    int `yaml:"val_size" in:"sizeOrNone"`
	TestSize   int `yaml:"test_size" in:"sizeOrNone"`
	UnseenSize int `yaml:"unseen_size" in:"sizeOrNone" needs:"generated"`
	TrainSize  int `yaml:"train_size" in:"sizeOrNone"`
}

// Fields are names of fields in the files of problems.
type Fields struct {
	Question string `yaml:"question" neutral:"" needs:"files"`
	Answer   string `yaml:"answer" neutral:"" needs:"files"`
	Solution string `yaml:"solution,omitempty" neutral:"" needs:"files"`
}

// Answers says what a right answer is; extract is reward.extract. The section must be valid.
func (d *Data) Answers(extract string) gsm8k.Answers {
	a, _ := d.answers(extract)
	return a
}

func (d *Data) answers(extract string) (gsm8k.Answers, error) {
	return gsm8k.NewAnswers(gsm8k.AnswerOptions{Kind: gsm8k.Kind(d.Answer), IgnoreCase: d.IgnoreCase, Extract: extract,
		Template: d.PromptTemplate})
}

// Answers says what a right answer is.
func (c *Config) Answers() gsm8k.Answers { return c.Data.Answers(c.Reward.Extract) }

// Model describes the policy and its initial weights.
type Model struct {
	HiddenSize  int    `yaml:"hidden_size" in:"[1,32768]"`
	NumLayers   int    `yaml:"num_layers" in:"[1,256]"`
	Init        string `yaml:"init"`
	AdapterBase string `yaml:"adapter_base" neutral:"" needs:"checkpoint"`
	// Device is part of the hash: results differ between devices in their last bits.
	Device    string `yaml:"device" of:"cpu|cuda|auto"`
	Precision string `yaml:"precision" of:"float32|tf32|bf16" neutral:"float32" needs:"device"`
}

// Rollout configures the sampling of completions.
type Rollout struct {
	RolloutBatchSize    int     `yaml:"rollout_batch_size" in:"size"`
	GroupSize           int     `yaml:"group_size" in:"size" needs:"rollouts"`
	SamplingTemperature float64 `yaml:"sampling_temperature" in:"temperature" needs:"rollouts"`
	SamplingTopP        float64 `yaml:"sampling_top_p" in:"share" needs:"rollouts"`
	SamplingTopK        int     `yaml:"sampling_top_k" in:"sizeOrNone" needs:"rollouts"`
	SamplingMinTokens   int     `yaml:"sampling_min_tokens" in:"tokensOrNone" needs:"rollouts"`
	SamplingMaxTokens   int     `yaml:"sampling_max_tokens" in:"tokens" needs:"rollouts"`
	LogProbs            string  `yaml:"logprobs" of:"full|sampled" neutral:"full" needs:"rollouts advantages cut"`
	ResampleEveryNSteps int     `yaml:"resample_every_n_steps" in:"counterOrNone" neutral:"1" needs:"sampling second-step"`
}

// Cuts reports whether some tokens can't be sampled, whatever their probability.
func (r *Rollout) Cuts() bool {
	return r.SamplingTopP < 1 || r.SamplingTopK > 0 || r.SamplingMinTokens > 0
}

// Stale reports whether a step may sample from an earlier policy than the one it trains.
func (r *Rollout) Stale() bool { return r.ResampleEveryNSteps != 1 }

// Train is the loop and the optimizer.
type Train struct {
	NGRPOSteps                int        `yaml:"n_grpo_steps" in:"counter"`
	EpochsPerRolloutBatch     int        `yaml:"epochs_per_rollout_batch" in:"counter"`
	TrainBatchSize            int        `yaml:"train_batch_size" in:"sizeOrNone"` // 0 = rollout_batch_size
	GradientAccumulationSteps int        `yaml:"gradient_accumulation_steps" in:"size"`
	MicroBatchTokens          int        `yaml:"micro_batch_tokens" in:"sizeOrNone" neutral:"0"`
	GradientCheckpointing     bool       `yaml:"gradient_checkpointing" neutral:"false" hash:"-"`
	LearningRate              float64    `yaml:"learning_rate" in:"nonNegative"`
	AdamBetas                 [2]float64 `yaml:"adam_betas" in:"belowOne"`
	AdamEps                   float64    `yaml:"adam_eps" in:"positive"`
	WeightDecay               float64    `yaml:"weight_decay" in:"nonNegative"`
	MaxGradNorm               float64    `yaml:"max_grad_norm" in:"nonNegative"`
	// LRScheduler follows transformers' formulas: see pkg/train/update.go.
	LRScheduler      string `yaml:"lr_scheduler" of:"constant|linear|cosine" neutral:"constant" needs:"schedule rate"`
	WarmupSteps      int    `yaml:"warmup_steps" in:"counterOrNone" neutral:"0" needs:"rate"`
	LoRA             LoRA   `yaml:"lora"`
	StopOnDivergence bool   `yaml:"stop_on_divergence" neutral:"false"`
}

// LoRA trains low-rank adapters of a Llama or Qwen checkpoint instead of its weights (Hu
// et al., 2021). Names and defaults are PEFT's and TRL's.
type LoRA struct {
	Rank  int     `yaml:"rank" in:"[0,4096]" neutral:"0"` // 0 = all weights are trained
	Alpha float64 `yaml:"alpha" in:"positive" neutral:"32" needs:"lora"`
	// Targets are the linear layers that get an adapter.
	Targets   []string `yaml:"targets" of:"lora-targets" neutral:"[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]" needs:"lora"`
	UseRSLoRA bool     `yaml:"use_rslora" neutral:"false" needs:"lora"`
}

// LoRATargets lists the linear layers of a block, by PEFT's names.
func LoRATargets() []string {
	return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
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

// offPolicy: not every importance ratio is 1.
func (c *Config) offPolicy() bool {
	stale := c.Rollout.Stale() && c.Train.NGRPOSteps > 1
	return c.Train.EpochsPerRolloutBatch > 1 || c.smallBatches() || stale
}

func (c *Config) smallBatches() bool {
	n := c.Train.TrainBatchSize
	return n != 0 && n != c.Rollout.RolloutBatchSize
}

// Eval configures evaluation. It has its own sampling settings: runs that train at different
// temperatures are only comparable if evaluated at the same one.
//
// The first release evaluated with the settings of the rollout. The tag was names the key that it
// used: its value is the neutral one (see [Hash]) and the value of this key in a configuration of
// the first release.
type Eval struct {
	EveryNSteps int     `yaml:"every_n_steps" in:"counter"`
	Temperature float64 `yaml:"temperature" in:"temperature" was:"rollout.sampling_temperature"`
	TopP        float64 `yaml:"top_p" in:"share" was:"rollout.sampling_top_p"`
	TopK        int     `yaml:"top_k" in:"sizeOrNone" was:"rollout.sampling_top_k"`
	// MinTokens and MaxTokens also bound greedy decoding.
	MinTokens   int  `yaml:"min_tokens" in:"tokensOrNone" was:"rollout.sampling_min_tokens"`
	MaxTokens   int  `yaml:"max_tokens" in:"tokensOrNone" was:"rollout.sampling_max_tokens"`
	Greedy      bool `yaml:"greedy"`
	SaveSamples int  `yaml:"save_samples" in:"sizeOrNone"`
	// Sets are the problems of evaluations, besides the test split: [SetValidation] (required),
	// [SetUnseen], [SetSVAMP] or the path of a problem file.
	Sets            []string `yaml:"sets" neutral:"[validation, unseen]"`
	SVAMPFile       string   `yaml:"svamp_file" neutral:"" needs:"svamp"`
	SetSize         int      `yaml:"set_size" in:"sizeOrNone" neutral:"0" needs:"set-files"`
	SetsEveryNSteps int      `yaml:"sets_every_n_steps" in:"counterOrNone" neutral:"0" needs:"set-files"`
	// FinalSize is the number of validation problems of the last evaluation, and FinalSamples that of the
	// completions of each of these and of each test problem, if more than Samples.
	FinalSize    int `yaml:"final_size" in:"sizeOrNone" neutral:"0"`
	FinalSamples int `yaml:"final_samples" in:"size" neutral:"1"`
	// Samples is the number of completions of a problem; PassAt and MajorityAt are the k of pass@k and maj@k. See
	// [Eval.PassKs] and [Eval.MajorityKs].
	Samples    int   `yaml:"samples" in:"[1,1000]" neutral:"1"`
	PassAt     []int `yaml:"pass_at" in:"size" neutral:"[]" needs:"several-samples"`
	MajorityAt []int `yaml:"majority_at" in:"size" neutral:"[]" needs:"several-samples"`
	// Reward is the reward function that decides what is right in evaluations; empty = the answer of the problem.
	Reward string `yaml:"reward,omitempty" neutral:""`
}

// LastSamples is the number of completions of a validation or test problem at the last evaluation.
func (e *Eval) LastSamples() int { return max(e.Samples, e.FinalSamples) }

// PassKs lists the k of pass@k for an evaluation with n completions of a problem: none for one completion, those of
// pass_at up to n, or 1, 2, 4 and so on up to n, and n.
func (e *Eval) PassKs(n int) []int { return upTo(n, e.PassAt) }

// MajorityKs is [Eval.PassKs] for maj@k: those of majority_at, or else of pass_at. Above [stats.MaxChoose] completions
// there are none.
func (e *Eval) MajorityKs(n int) []int {
	if n > stats.MaxChoose {
		return nil
	}
	if len(e.MajorityAt) == 0 {
		return e.PassKs(n)
	}
	return upTo(n, e.MajorityAt)
}

func upTo(n int, chosen []int) []int {
	switch {
	case n <= 1:
		return nil
	case len(chosen) == 0:
		return stats.Doubled(1, n)
	}
	return slices.DeleteFunc(slices.Clone(chosen), func(k int) bool { return k > n })
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
	CheckpointEveryNSteps  int     `yaml:"checkpoint_every_n_steps" in:"counterOrNone" hash:"-"`
	CheckpointEveryMinutes float64 `yaml:"checkpoint_every_minutes,omitempty" in:"nonNegative" neutral:"0" hash:"-"`
	KeepCheckpoints        int     `yaml:"keep_checkpoints" in:"size" hash:"-"`
	// Keep "best" keeps only the best weights of a finished run, which take a fraction of the disk space of its
	// checkpoints.
	Keep        string   `yaml:"keep" of:"all|best" neutral:"all" hash:"-"`
	TensorBoard bool     `yaml:"tensorboard" neutral:"false" hash:"-"`
	Formats     []string `yaml:"formats" of:"figure-formats" neutral:"[png]" hash:"-"`
}

// Report configures what reports on sweeps say.
type Report struct {
	// Margin is the difference in the final reward that counts as none: two arms are called the same within it.
	Margin float64 `yaml:"margin" in:"(0,1)" neutral:"0.02" hash:"-"`
}

// Default returns the default experiment, configs/default.yaml.
func Default() Config {
	c, _ := defaults()
	for _, k := range keysOf(&c) {
		if v := k.value; v.Kind() == reflect.Slice { // no caller may change another's
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		}
	}
	return c
}

var defaults = sync.OnceValues(func() (Config, *yamldoc.Document) { return defaultsIn[Config]("default") })

// defaultsIn reads an embedded configuration that has every key, with the comments on them.
func defaultsIn[T Root](name string) (c T, doc *yamldoc.Document) {
	text, err := readEmbedded(name)
	if err != nil {
		panic("config: " + err.Error()) // cannot happen with go:embed
	}
	if doc = formOf(c).Decode(name+".yaml", text, &c); len(doc.Problems) > 0 {
		panic("config: " + doc.Problems[0]) // a test reads the file
	}
	return c, doc
}
