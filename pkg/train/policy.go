package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
)

// newPolicy returns the policy of a configuration on a device. Its initial parameters are the
// embedded base model ("base"), random ones by seed ("random"), or those of the checkpoint at a
// path; adapters are drawn from seed. A checkpoint of another size or with NaN or Inf is an error.
func newPolicy(c config.Model, lora config.LoRA, init string, seed uint64, on model.Device) (model.Policy, error) {
	s, err := sourceOf(init, c.AdapterBase)
	if err != nil {
		return nil, config.Invalid(err)
	}
	if s != nil {
		return s.open("the initial weights", c.Precision == bf16, lora, seed, on)
	}
	if lora.Rank > 0 {
		return nil, config.Invalid(fmt.Errorf("train.lora.rank (%d): model.init (%s) is a TinyLM, and adapters are for "+
			"Llama and Qwen checkpoints (leave train.lora out)", lora.Rank, init))
	}
	if c.Device == "cpu" && c.Precision == bf16 {
		return nil, config.Invalid(fmt.Errorf("model.precision (bf16) has no effect: %s is a TinyLM, which the CPU "+
			"computes in float32 (set model.device to cuda or auto, or leave this key out)", init))
	}
	spec := specOf(c)
	if init == "random" {
		w, err := tinylm.NewWeights(spec)
		if err != nil {
			return nil, err
		}
		w.Init(seed)
		return tinylm.New(w, on), nil
	}
	w, what, err := savedWeights(init)
	if err != nil {
		return nil, loadError("the initial weights", err)
	}
	if w.Spec != spec {
		fix := "leave model.hidden_size and model.num_layers out, and they follow the checkpoint"
		if init == "base" {
			fix = fmt.Sprintf("for a base model of this size: grpo sft --set hidden_size=%d "+
				"--set num_layers=%d --out DIR, then "+
				"--set model.init=DIR; model.init=random starts without one", spec.Hidden, spec.Layers)
		}
		return nil, config.Invalid(fmt.Errorf("load the initial weights: %s is a %v, the configuration "+
			"asks for a %v (%s)",
			what, w.Spec, spec, fix))
	}
	return tinylm.New(w, on), nil
}

// newTeacher returns the policy of a teacher's checkpoint. It may have another size than the
// student but must have the same vocabulary: it scores the student's tokens.
func newTeacher(path string, student model.Policy, on model.Device) (model.Policy, error) {
	const what = "the teacher (algorithm.teacher)"
	teacher, err := openFile(path, what, on)
	if err != nil {
		return nil, err
	}
	own, isDecoder := student.(*decoder.Policy)
	other, sameKind := teacher.(*decoder.Policy)
	if isDecoder != sameKind || isDecoder && !own.SameTokens(other.Tokenizer) { // all TinyLMs have one tokenizer
		return nil, config.Invalid(fmt.Errorf("load %s: %s (%v) has another vocabulary than the policy (%v), "+
			"whose tokens it must score: name a checkpoint with the policy's tokenizer",
			what, path, teacher.Size(), student.Size()))
	}
	return teacher, nil
}

// teacherSize is the size of a teacher's network; that of a TinyLM counts as the student's.
func teacherSize(path string, student model.Size) model.Size {
	if s, err := sourceOf(path, ""); s != nil && err == nil {
		if d, err := decoder.Describe(s.base); err == nil {
			return d.Size
		}
	}
	return student
}

// OpenPolicy opens a model: "base", or any path that model.init takes. A TinyLM may have any size.
func OpenPolicy(name string, on model.Device) (model.Policy, error) {
	file := name
	if name != "base" {
		found, err := FindCheckpoint(name, "")
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", name, err)
		}
		if found.File != "" {
			file = found.File
		}
	}
	return openFile(file, "the model", on)
}

// openFile opens "base" or the checkpoint at a path. Errors name what it is.
func openFile(file, what string, on model.Device) (model.Policy, error) {
	s, err := sourceOf(file, "")
	if err != nil {
		return nil, config.Invalid(err)
	}
	if s != nil {
		return s.open(what, false, config.LoRA{}, 0, on)
	}
	w, name, err := savedWeights(file)
	if err == nil && w.Vocab != tokenizer.VocabSize {
		err = fmt.Errorf("%s has a vocabulary of %d, the tokenizer of %d", name, w.Vocab, tokenizer.VocabSize)
	}
	if err != nil {
		return nil, loadError(what, err)
	}
	return tinylm.New(w, on), nil
}

const bf16 = "bf16" // of model.precision

// kernelOf is the name of the kernel that computes a configuration's network on the CPU.
func kernelOf(c config.Model) string {
	if c.Precision == bf16 && isDecoder(c) {
		return kernel.BF16Name()
	}
	return kernel.Name()
}

// sizeOf is the size of a configuration's network.
func sizeOf(c config.Model, lora config.LoRA) model.Size {
	d := checkpointOf(c)
	if d == nil {
		return specOf(c)
	}
	size := d.Size
	size.BF16, size.GPU = c.Precision == bf16, mayUseGPU(c)
	if lora.Rank > 0 {
		adapters := hf.LoRA(lora)
		size.LoRA = &adapters
	}
	return size
}

// skipsFlat reports whether updates leave out completions of advantage 0: those of a decoder
// always do where that is exact, unless an earlier policy samples: its completions say nothing about
// the current policy's entropy and ratio. TinyLM computes them unless told otherwise, because the
// sums over fewer tokens have other last bits.
func skipsFlat(c config.Config) bool {
	return c.Algorithm.SkipFlatGroups || c.Algorithm.SkippingIsExact() && isDecoder(c.Model) && !c.Rollout.Stale()
}

// microBatchTokens is the bound of micro-batches in tokens, of which 0 is the network's default; 0 = none.
func microBatchTokens(tokens int, m config.Model) int {
	if tokens == 0 && isDecoder(m) {
		return decoder.MicroBatchTokens
	}
	return tokens
}

// learnerError wraps an error of making a learner.
func learnerError(err error) error {
	if errors.Is(err, model.ErrCheckpointing) {
		return config.Invalid(errors.New("train.gradient_checkpointing (true): TinyLM keeps its activations, " +
			"which are small (leave this key out; it is for Llama and Qwen checkpoints)"))
	}
	return err
}

// checkpointOf describes the checkpoint of a configuration; nil for a TinyLM, or if it
// can't be read, which loading it reports.
func checkpointOf(c config.Model) *decoder.Description {
	s, err := sourceOf(c.Init, c.AdapterBase)
	if s == nil || err != nil {
		return nil
	}
	d, err := decoder.Describe(s.base)
	if err != nil {
		return nil
	}
	return d
}

// IsDecoder reports whether a run trains a Llama or Qwen network, not a TinyLM.
func IsDecoder(cfg config.Config) bool { return isDecoder(cfg.Model) }

// templateOf turns questions into prompts. A chat is the text that the checkpoint's
// template puts around a question.
func templateOf(d config.Data, m config.Model) (gsm8k.Template, error) {
	if d.PromptTemplate != "chat" {
		return gsm8k.LookupTemplate(d.PromptTemplate)
	}
	checkpoint := checkpointOf(m)
	if checkpoint == nil {
		if _, err := os.Stat(m.Init); errors.Is(err, fs.ErrNotExist) {
			return gsm8k.Template{}, config.Invalid(fmt.Errorf("model.init (%s): no such file or folder in the working directory", m.Init))
		}
		return gsm8k.Template{}, config.Invalid(fmt.Errorf("data.prompt_template (chat): model.init (%s) is not a "+
			"Hugging Face folder or a GGUF file", m.Init))
	}
	few, err := fewShot(d)
	if err != nil {
		return gsm8k.Template{}, err
	}
	var turns []string
	for _, t := range few {
		turns = append(turns, t.Question, t.Answer)
	}
	f, err := checkpoint.ChatFrame(d.SystemPrompt, turns)
	if err != nil {
		return gsm8k.Template{}, config.Invalid(fmt.Errorf("data.prompt_template (chat): %s: %w", m.Init, err))
	}
	return gsm8k.Template{Name: "chat", Prefix: f.Before, Suffix: f.After, Trim: f.Trim, Complete: true, FewShot: len(few)}, nil
}

// tokenizerOf is the tokenizer of a configuration's network.
func tokenizerOf(c config.Model) model.Tokenizer {
	if d := checkpointOf(c); d != nil {
		return d.Tokenizer
	}
	return tinylm.Tokenizer{}
}

// specialOf is the special tokens of a configuration's prompts and answers.
func specialOf(d config.Data, m config.Model) model.SpecialTokens {
	if c := checkpointOf(m); c != nil && d.PromptTemplate == "chat" {
		if chat, err := c.Chat(); err == nil {
			return chat.Special()
		}
	}
	return tokenizerOf(m).Special()
}

// checkEnd returns an error for a model whose completions can't end.
func checkEnd(m config.Model) error {
	if err := tokenizerOf(m).Special().Check(); err != nil {
		return config.Invalid(fmt.Errorf("sample from %s (model.init): %w", m.Init, err))
	}
	return nil
}

func specOf(c config.Model) tinylm.Spec {
	return tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: c.HiddenSize, Layers: c.NumLayers}
}

// newRewardModel returns a reward model that starts with the policy's network and rewards of 0.
func newRewardModel(p model.Policy, o model.AdamWOptions, checkpointing bool) (model.Critic, error) {
	if d, ok := p.(*decoder.Policy); ok {
		return d.NewRewardModel(o, checkpointing), nil
	}
	c, err := p.NewCritic(o, checkpointing)
	return c, learnerError(err)
}

// rewardModelSize is the size of a reward model's network; nil if it can't be read.
func rewardModelSize(path string) model.Size {
	if decoder.IsCheckpoint(path) {
		if d, err := decoder.Describe(path); err == nil {
			return d.Size
		}
		return nil
	}
	if spec, err := tinylm.ReadSpec(path); err == nil {
		return spec
	}
	return nil
}

// openRewardModel opens the weights of a reward model.
func openRewardModel(path string, on *kernel.Pool) (*pairEncoder, valuer, error) {
	if !decoder.IsCheckpoint(path) {
		m, err := tinylm.OpenRewardModel(path, on)
		return &pairEncoder{tok: tinylm.Tokenizer{}}, m, err
	}
	d, err := decoder.Describe(path)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Tokenizer.Special().Check(); err != nil {
		return nil, nil, fmt.Errorf("open reward model %s: %w", path, err)
	}
	m, err := decoder.OpenRewardModel(path, on)
	chat, _ := d.Chat() // nil without a template
	return &pairEncoder{tok: d.Tokenizer, chat: chat, context: d.Size.Context}, m, err
}

// loadError wraps an error of loading weights. A missing file is a mistake in the configuration.
func loadError(what string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if err = fmt.Errorf("load %s: %w", what, err); missing {
		return config.Invalid(err)
	}
	return err
}

// savedWeights reads the embedded base model ("base") or the file at a path, and
// returns its name for errors.
func savedWeights(init string) (w *tinylm.Weights, name string, err error) {
	if init == "base" {
		w, err = base.Weights()
		return w, "the embedded base model", err
	}
	w, err = tinylm.ReadFile(init)
	return w, init, err
}

// stepWork estimates the operations per step before the policy is made. Lengths are unknown: it
// uses half the limit for prompts and for completions.
func stepWork(c config.Config) float64 {
	size, tokens := sizeOf(c.Model, c.Train.LoRA), c.Rollout.SamplingMaxTokens/2+1
	rows := c.Rollout.RolloutBatchSize
	inputs := rows*tokens + rows/max(1, c.Rollout.GroupSize)*tokens
	forward := size.Forward(inputs, rows*tokens)
	return forward.Nominal + float64(c.Train.EpochsPerRolloutBatch)*forward.Update().Nominal
}

func evaluationWork(c config.Config, problems int) float64 {
	tokens := c.Eval.MaxTokens/2 + 1
	return sizeOf(c.Model, c.Train.LoRA).Forward(2*problems*tokens, problems*tokens).Nominal
}

func sftWork(c config.SFT) float64 {
	var most float64
	for _, s := range c.Stages {
		tokens := s.BatchSize * config.Default().Rollout.SamplingMaxTokens
		most = max(most, sizeOf(c.Model, c.LoRA).Forward(tokens, tokens).Update().Nominal)
	}
	return most
}
