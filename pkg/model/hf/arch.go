package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
)

// architecture is a family of networks: what sets it apart from Llama. A nil function adds nothing.
type architecture struct {
	name  string // of [Config.Arch] and of general.architecture in GGUF files
	title string
	// classes are transformers' classes by model_type, without ForCausalLM.
	classes map[string]string
	// parts sets what all networks of the family have.
	parts func(c *Config)
	// config reads the family's own keys of config.json, and metadata those of a GGUF file. file writes them to a
	// config.json.
	config   func(f *configFile, c *Config) error
	metadata func(m *metadata, c *Config)
	file     func(c *Config, m map[string]any)
	// permuted says that llama.cpp's converter interleaves the two halves of each query and key head.
	permuted bool
	// slides is transformers' rule for the layers with a window, if config.json does not list them; nil: none.
	slides func(f *configFile, c *Config, layer int) bool
	// classifier is the class for sequence classification, if it has another name.
	classifier string
	// tied says that networks without tie_word_embeddings are tied.
	tied bool
	// biases says that attention_bias is not refused.
	biases bool
	// defaults are by model_type.
	defaults map[string]defaults
}

var architectures = []*architecture{
	{name: "llama", title: "Llama (with SmolLM2, TinyLlama and Mistral)",
		classes:  map[string]string{"llama": "Llama", "mistral": "Mistral"},
		permuted: true,
		slides:   func(f *configFile, _ *Config, _ int) bool { return f.ModelType == "mistral" },
		defaults: map[string]defaults{"llama": {context: 2048}, "mistral": {context: 131072, kvHeads: 8, window: 4096}},
		file:     func(_ *Config, m map[string]any) { m["attention_bias"], m["mlp_bias"] = false, false },
	},
	{name: "qwen2", title: "Qwen2", classes: map[string]string{"qwen2": "Qwen2"},
		parts: func(c *Config) { c.QKVBias = true }, biases: true, slides: lastSlide,
		defaults: map[string]defaults{"qwen2": {context: 32768, kvHeads: 32, window: 4096}},
		file:     func(_ *Config, m map[string]any) { m["use_sliding_window"] = false },
	},
	{name: "qwen3", title: "Qwen3", classes: map[string]string{"qwen3": "Qwen3"},
		parts: func(c *Config) { c.QKNorm = true }, slides: lastSlide,
		defaults: map[string]defaults{"qwen3": {context: 32768, kvHeads: 32, headDim: 128, window: 4096}},
		file:     func(_ *Config, m map[string]any) { m["use_sliding_window"], m["attention_bias"] = false, false },
	},
	smollm3,
	{name: "olmo2", title: "OLMo-2", classes: map[string]string{"olmo2": "Olmo2"},
		// RMSNorms of what attention and the feed-forward network return, in place of what they get
		parts:    func(c *Config) { c.Norms, c.QKNorm, c.WholeQKNorm = NormAfter, true, true },
		defaults: map[string]defaults{"olmo2": {context: 2048, eps: 1e-5}},
		file:     func(_ *Config, m map[string]any) { m["attention_bias"] = false },
	},
	gemma3,
}

// find is the architecture that is accepts; name is what a file calls it.
func find(name string, is func(*architecture) bool) (*architecture, error) {
	if i := slices.IndexFunc(architectures, is); i >= 0 {
		return architectures[i], nil
	}
	var titles []string
	for _, a := range architectures {
		titles = append(titles, a.title)
	}
	return nil, fmt.Errorf("architecture %.40q is not supported; supported are %s", name, strings.Join(titles, ", "))
}

// byType is the architecture of a model_type.
func byType(modelType string) (*architecture, error) {
	return find(modelType, func(a *architecture) bool { return a.classes[modelType] != "" })
}

// byName is the architecture of a [Config.Arch].
func byName(name string) (*architecture, error) {
	return find(name, func(a *architecture) bool { return a.name == name })
}

// new is the configuration of a network of the family, with the parts that all of them have.
func (a *architecture) new() *Config {
	c := &Config{Arch: a.name, Pad: -1}
	if a.parts != nil {
		a.parts(c)
	}
	return c
}

// class is transformers' class of a config.json, with an ending. "mistral" has the architecture of Llama, but its own
// class.
func (c *Config) class(file map[string]any, ending string) string {
	modelType := c.Arch
	kind, _ := file["model_type"].(json.RawMessage)
	_ = json.Unmarshal(kind, &modelType)
	if a, err := byType(modelType); err == nil {
		if ending == classifier && a.classifier != "" {
			return a.classifier + ending
		}
		return a.classes[modelType] + ending
	}
	return modelType + ending
}

// defaults are the values of keys that a config.json leaves out, in transformers 5.24. Sizes that every network has
// of its own have none, nor have end tokens: those of the classes belong to one tokenizer, and folders name theirs.
type defaults struct {
	context     int
	kvHeads     int     // 0: as many as heads
	headDim     int     // 0: hidden_size / num_attention_heads
	theta       float64 // 0: 10000
	eps         float64 // 0: 1e-6
	window      int     // 0: none
	queryScalar float64 // 0: the head's size
}

// newConfigFile is a config.json of the model_type of data before its keys are read. A null is no default: it stands
// for the same as in [defaults] 0.
func newConfigFile(data []byte) configFile {
	var kind struct {
		ModelType string `json:"model_type"`
	}
	_ = jsonkeys.Decode(data, &kind) // reading the keys says what is wrong
	f := configFile{NormEps: 1e-6, Activation: "silu"}
	arch, err := byType(kind.ModelType)
	if err != nil {
		return f
	}
	if arch.new().GELU {
		f.Activation = "gelu_pytorch_tanh"
	}
	d := arch.defaults[kind.ModelType]
	f.Context, f.NormEps = d.context, cmp.Or(d.eps, f.NormEps)
	f.KVHeads, f.HeadDim, f.SlidingWindow = unlessZero(d.kvHeads), unlessZero(d.headDim), unlessZero(d.window)
	f.RopeTheta, f.QueryScalar = unlessZero(d.theta), unlessZero(d.queryScalar)
	return f
}

// valueOr is the value of a key; without the key it is fallback.
func valueOr[T any](key *T, fallback T) T {
	if key == nil {
		return fallback
	}
	return *key
}

func unlessZero[T comparable](x T) *T {
	if x == *new(T) {
		return nil
	}
	return &x
}
