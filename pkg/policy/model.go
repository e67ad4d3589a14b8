// Package policy resolves the model that a configuration names: a TinyLM, or the Llama or Qwen network of a
// Hugging Face folder, a PEFT folder, a GGUF file or an earlier run. A command makes one [Model] from its
// configuration and passes it on. Beside the networks themselves it is the only package that names one.
package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda/gpu"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// Model is the model of a configuration before its weights are read.
type Model struct {
	Config    config.Model
	LoRA      config.LoRA // of the adapters; its rank is 0 without
	Size      model.Size  // with these adapters
	Context   int         // tokens that the model can read; 0 for no limit
	Tokenizer model.Tokenizer

	source     *source              // nil for a TinyLM
	checkpoint *decoder.Description // nil for a TinyLM
}

// Of resolves the model of an experiment.
func Of(c config.Config) (*Model, error) { return Resolve(c.Model, c.Train.LoRA) }

// Resolve finds the checkpoint of a configuration and reads all of it but the weights. A checkpoint that is
// damaged is an error; whether a TinyLM's file exists and has the right size is checked by [Model.Open].
func Resolve(c config.Model, lora config.LoRA) (*Model, error) {
	m := Model{Config: c, Tokenizer: tinylm.Tokenizer{}}
	var err error
	if m.source, err = sourceOf(c.Init, c.AdapterBase); err != nil {
		return nil, config.Invalid(err)
	}
	if m.source != nil {
		if m.checkpoint, err = decoder.Describe(m.source.base); err != nil {
			return nil, config.Invalid(err)
		}
		m.Tokenizer, m.Context = m.checkpoint.Tokenizer, m.checkpoint.Size.Context
	}
	return m.WithLoRA(lora), nil
}

// WithLoRA returns the model with other adapters.
func (m Model) WithLoRA(lora config.LoRA) *Model {
	m.LoRA = lora
	if !m.IsDecoder() {
		m.Size = m.spec()
		return &m
	}
	size := m.checkpoint.Size
	size.BF16, size.GPU = m.Config.Precision == bf16, m.MayUseGPU()
	if lora.Rank > 0 {
		adapters := hf.LoRA(lora)
		size.LoRA = &adapters
	}
	m.Size = size
	return &m
}

func (m *Model) spec() tinylm.Spec {
	return tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: m.Config.HiddenSize, Layers: m.Config.NumLayers}
}

// IsDecoder reports whether the network is a Llama or Qwen network, not a TinyLM.
func (m *Model) IsDecoder() bool { return m.source != nil }

// HasCheckpoint reports whether weights of a decoder are in a run's checkpoint, with moments.
func (m *Model) HasCheckpoint() bool { return m.source != nil && m.source.weights != "" }

// Base is the Hugging Face folder or the GGUF file of a Llama or Qwen network; empty for a TinyLM.
func (m *Model) Base() string {
	if !m.IsDecoder() {
		return ""
	}
	return m.source.base
}

// MayUseGPU reports whether the graphs may be built in the memory of a GPU.
func (m *Model) MayUseGPU() bool { return m.Config.Device != "cpu" && gpu.Built }

const bf16 = "bf16" // of model.precision

// Kernel is the name of the kernel that computes the network on the CPU.
func (m *Model) Kernel() string {
	if m.Config.Precision == bf16 && m.IsDecoder() {
		return kernel.BF16Name()
	}
	return kernel.Name()
}

// MicroBatchTokens is the bound of micro-batches in tokens, of which 0 is the network's default; 0 = none.
func (m *Model) MicroBatchTokens(tokens int) int {
	if tokens == 0 && m.IsDecoder() {
		return decoder.MicroBatchTokens
	}
	return tokens
}

// Smaller says how to make the model smaller.
func (m *Model) Smaller() string {
	if m.IsDecoder() {
		return "take a smaller checkpoint"
	}
	return "lower model.hidden_size or model.num_layers"
}

// CheckEnd returns an error for a model whose completions can't end.
func (m *Model) CheckEnd() error {
	if err := m.Tokenizer.Special().Check(); err != nil {
		return config.Invalid(fmt.Errorf("sample from %s (model.init): %w", m.Config.Init, err))
	}
	return nil
}

// Special is the special tokens of prompts and answers under a configured template.
func (m *Model) Special(d config.Data) model.SpecialTokens {
	if m.IsDecoder() && d.PromptTemplate == "chat" {
		if chat, err := m.checkpoint.Chat(); err == nil {
			return chat.Special()
		}
	}
	return m.Tokenizer.Special()
}

// Template turns questions into prompts, and says which texts end their completions. A chat is the text that the
// checkpoint's template puts around a question.
func (m *Model) Template(d config.Data) (gsm8k.Template, error) {
	t, err := m.frame(d)
	for _, s := range d.Stop {
		t.Stop = append(t.Stop, string(s))
	}
	return t, err
}

func (m *Model) frame(d config.Data) (gsm8k.Template, error) {
	switch d.PromptTemplate {
	case "few_shot":
		few, err := fewShot(d)
		return gsm8k.FewShotTemplate(few), err
	case "chat":
		return m.chat(d)
	default:
		return gsm8k.LookupTemplate(d.PromptTemplate)
	}
}

func (m *Model) chat(d config.Data) (gsm8k.Template, error) {
	init := m.Config.Init
	if !m.IsDecoder() {
		if _, err := os.Stat(init); errors.Is(err, fs.ErrNotExist) {
			return gsm8k.Template{}, config.Invalid(fmt.Errorf("model.init (%s): no such file or folder in the "+
				"working directory", init))
		}
		return gsm8k.Template{}, config.Invalid(fmt.Errorf("data.prompt_template (chat): model.init (%s) is not a "+
			"Hugging Face folder or a GGUF file", init))
	}
	few, err := fewShot(d)
	if err != nil {
		return gsm8k.Template{}, err
	}
	var turns []string
	for _, t := range few {
		turns = append(turns, t.Question, t.Answer)
	}
	f, err := m.checkpoint.ChatFrame(d.SystemPrompt, turns)
	if err != nil {
		return gsm8k.Template{}, config.Invalid(fmt.Errorf("data.prompt_template (chat): %s: %w", init, err))
	}
	return gsm8k.Template{Name: "chat", Prefix: f.Before, Suffix: f.After, Answer: f.Answer, Trim: f.Trim,
		Complete: true, Examples: few}, nil
}

// KnownCharacter reports whether TinyLM's vocabulary has a token for a character.
func KnownCharacter(r rune) bool { return tokenizer.Known(r) }

// fewShot returns the worked examples before the question of a chat or of few_shot: those of
// data.few_shot_file, or built-in ones.
func fewShot(d config.Data) ([]gsm8k.Turn, error) {
	if d.FewShotFile == "" {
		return gsm8k.Worked(d.FewShot), nil
	}
	turns, err := gsm8k.ReadTurns(d.FewShotFile, d.FewShot)
	if err != nil {
		return nil, config.Invalid(fmt.Errorf("%w (data.few_shot_file)", err))
	}
	if d.FewShot > len(turns) {
		return nil, config.Invalid(fmt.Errorf("data.few_shot (%d): %s (data.few_shot_file) has %d worked examples",
			d.FewShot, d.FewShotFile, len(turns)))
	}
	for i := range turns {
		turns[i].Answer = gsm8k.AnnotationMode(d.Annotations).Apply(turns[i].Answer)
	}
	return turns, nil
}

// EncodePrompts returns the tokens of each question's prompt under a template, with the start tokens. A special
// token in a question is plain text: it must not end a turn.
func EncodePrompts(tok model.Tokenizer, t gsm8k.Template, problems []gsm8k.Problem) [][]int {
	ids := make([][]int, len(problems))
	for i, p := range problems {
		if !t.Complete {
			ids[i] = tok.Start()
		}
		ids[i] = append(ids[i], tok.EncodeAround(t.Parts(p.Question))...)
	}
	return ids
}

// PromptLengths counts the tokens of each prompt.
func PromptLengths(tok model.Tokenizer, t gsm8k.Template, problems []gsm8k.Problem) []int {
	out := make([]int, len(problems))
	for i, ids := range EncodePrompts(tok, t, problems) {
		out[i] = len(ids)
	}
	return out
}
