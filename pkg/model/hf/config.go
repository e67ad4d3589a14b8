// Package hf reads checkpoints of the networks in [architectures]: Hugging Face folders and
// GGUF files.
package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/pkg/elementary"
)

// Config is the shape of a decoder-only network with RMSNorm, rotary positions, grouped
// query attention and SwiGLU.
type Config struct {
	Arch      string // the family: see architectures
	Vocab     int
	Hidden    int
	FFN       int // width of the SwiGLU layer
	Layers    int
	Heads     int // of queries
	KVHeads   int // of keys and values; divides Heads
	HeadDim   int // even
	Context   int // the longest sequence the network was trained for
	RopeTheta float64
	Rope      *Llama3Rope // nil for unscaled frequencies
	Factors   []float32   // by which a GGUF file divides the frequencies; nil for none
	NormEps   float64
	Tied      bool // the head is the embedding
	// Score: the network is a reward model, with [ScoreWeight] in place of a head. Transformers calls
	// it a network for sequence classification with one label.
	Score   bool
	QKVBias bool // Qwen2
	QKNorm  bool // Qwen3: RMSNorm of each head's query and key
	// WholeQKNorm: the RMSNorms are of all queries and of all keys of a token.
	WholeQKNorm bool      `json:",omitempty"`
	Norms       Placement `json:",omitempty"`
	OffsetNorms bool      `json:",omitempty"` // the scale of every RMSNorm is 1 + its weight
	ScaledEmbed bool      `json:",omitempty"` // embeddings are multiplied by the root of Hidden
	GELU        bool      `json:",omitempty"` // GeGLU with the tanh approximation, in place of SwiGLU
	QueryScalar float64   `json:",omitempty"` // attention's scores are divided by its root; 0: HeadDim
	LocalTheta  float64   `json:",omitempty"` // RopeTheta of the layers of Sliding; 0: the same
	RopeFactor  float64   `json:",omitempty"` // linear scaling: the frequencies are divided by it; 0: none
	// Soft caps c, which make x to c·tanh(x/c): of attention's scores, and of the head's logits. 0: none.
	AttnSoftcap  float64 `json:",omitempty"`
	FinalSoftcap float64 `json:",omitempty"`
	Window       int     `json:",omitempty"` // tokens that a token sees in layers of Sliding, itself included
	Sliding      []bool  `json:",omitempty"` // nil: no layer
	NoRope       []bool  `json:",omitempty"` // the layers that don't rotate queries and keys; nil: all do
	End          []int32
	endFrom      []string // what names each end token
	Pad          int32    // the padding token; -1 without one
}

// Placement says where a layer has RMSNorms: of the input of attention and of the feed-forward network, of
// their output, or of both.
type Placement int

// The placements.
const (
	NormBefore Placement = iota
	NormAfter
	NormBoth
)

// Llama3Rope scales the rotary frequencies as Llama 3.1 does.
type Llama3Rope struct {
	Factor, LowFactor, HighFactor float64
	Original                      float64 // context length before scaling
}

// Frequencies returns the rotary frequency of each pair of a head's elements:
// theta^(-2j/HeadDim), scaled where the checkpoint says so (transformers,
// _compute_llama3_parameters).
func (c *Config) Frequencies() []float64 {
	out := make([]float64, c.HeadDim/2)
	for j := range out {
		f := elementary.Pow(c.RopeTheta, -2*float64(j)/float64(c.HeadDim))
		if s := c.Rope; s != nil {
			wave := 2 * math.Pi / f
			switch low, high := s.Original/s.LowFactor, s.Original/s.HighFactor; {
			case wave > low:
				f /= s.Factor
			case wave >= high:
				smooth := (s.Original/wave - s.LowFactor) / (s.HighFactor - s.LowFactor)
				f = (1-smooth)*f/s.Factor + float64(smooth*f)
			}
		}
		if c.RopeFactor != 0 {
			f /= c.RopeFactor
		}
		if c.Factors != nil {
			f /= float64(c.Factors[j])
		}
		out[j] = f
	}
	return out
}

// configFile is config.json. Transformers 4 and 5 write the rotary parameters and the
// data type under other names.
type configFile struct {
	ModelType       string      `json:"model_type"`
	Vocab           int         `json:"vocab_size"`
	Hidden          int         `json:"hidden_size"`
	FFN             int         `json:"intermediate_size"`
	Layers          int         `json:"num_hidden_layers"`
	Heads           int         `json:"num_attention_heads"`
	KVHeads         *int        `json:"num_key_value_heads"`
	HeadDim         *int        `json:"head_dim"`
	Context         int         `json:"max_position_embeddings"`
	RopeTheta       *float64    `json:"rope_theta"`
	RopeScaling     *ropeParams `json:"rope_scaling"`
	RopeParams      *ropeParams `json:"rope_parameters"`
	NormEps         float64     `json:"rms_norm_eps"`
	Tied            *bool       `json:"tie_word_embeddings"`
	Activation      string      `json:"hidden_act"`
	AttentionBias   bool        `json:"attention_bias"`
	MLPBias         bool        `json:"mlp_bias"`
	SlidingWindow   *int        `json:"sliding_window"`
	UseSliding      *bool       `json:"use_sliding_window"`
	MaxWindowLayers *int        `json:"max_window_layers"`
	Quantization    any         `json:"quantization_config"`
	EOS             intOrList   `json:"eos_token_id"`
	Pad             *int32      `json:"pad_token_id"`
	PartialRotary   *float64    `json:"partial_rotary_factor"`
	LayerTypes      []string    `json:"layer_types"`
	Experts         int         `json:"num_experts"`
	LocalExperts    int         `json:"num_local_experts"`
	RoutedExperts   int         `json:"n_routed_experts"`
	TextConfig      any         `json:"text_config"`
	VisionConfig    any         `json:"vision_config"`
	NoRopeLayers    []int       `json:"no_rope_layers"`
	NoRopeInterval  *int        `json:"no_rope_layer_interval"`

	HiddenActivation string   `json:"hidden_activation"`
	WindowPattern    *int     `json:"sliding_window_pattern"`
	QueryScalar      *float64 `json:"query_pre_attn_scalar"`
	LocalTheta       *float64 `json:"rope_local_base_freq"`
	AttnSoftcap      *float64 `json:"attn_logit_softcapping"`
	FinalSoftcap     *float64 `json:"final_logit_softcapping"`
	Bidirectional    *bool    `json:"use_bidirectional_attention"`

	Architectures []string       `json:"architectures"`
	Labels        map[string]any `json:"id2label"`
	NumLabels     *int           `json:"num_labels"`
}

type ropeParams struct {
	Type       string   `json:"rope_type"`
	OldType    string   `json:"type"`
	Theta      *float64 `json:"rope_theta"`
	Factor     float64  `json:"factor"`
	LowFactor  float64  `json:"low_freq_factor"`
	HighFactor float64  `json:"high_freq_factor"`
	Original   float64  `json:"original_max_position_embeddings"`
	// Of networks whose layers differ, in place of the others.
	Full    *ropeParams `json:"full_attention"`
	Sliding *ropeParams `json:"sliding_attention"`
}

// kind is the type of the scaling.
func (p *ropeParams) kind() string { return cmp.Or(p.Type, p.OldType, "default") }

// intOrList is a number or a list of numbers.
type intOrList []int32

const maxEnd = 256 // numbers of an intOrList

func (l *intOrList) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if len(data) > 0 && data[0] == '[' {
		err := json.Unmarshal(data, (*[]int32)(l))
		if len(*l) > maxEnd {
			return fmt.Errorf("a list of %d tokens; the limit is %d", len(*l), maxEnd)
		}
		return err
	}
	*l = make(intOrList, 1)
	return json.Unmarshal(data, &(*l)[0])
}

// ParseConfig reads config.json and, where there is one, generation_config.json. The end tokens are
// those of both. The error names the key.
func ParseConfig(config, generation []byte) (*Config, error) {
	f := newConfigFile(config)
	if err := jsonkeys.Decode(config, &f); err != nil {
		return nil, fmt.Errorf("read config.json: %w", err)
	}
	c, err := f.config()
	if err != nil {
		return nil, fmt.Errorf("read config.json: %w", err)
	}
	if generation != nil {
		var g struct {
			EOS intOrList `json:"eos_token_id"`
		}
		if err := jsonkeys.Decode(generation, &g); err != nil {
			return nil, fmt.Errorf("read %s: %w", generationName, err)
		}
		for _, id := range g.EOS {
			c.addEnd(id, generationName)
		}
	}
	for _, id := range f.EOS {
		c.addEnd(id, configName)
	}
	return c, c.check()
}

func (f *configFile) config() (*Config, error) {
	switch {
	case f.ModelType == "gemma3":
		return nil, errors.New("Gemma3ForConditionalGeneration, which has a vision tower, is not supported; supported is " +
			"its text model, Gemma3ForCausalLM (model_type gemma3_text), such as Gemma 3 270M and 1B")
	case f.VisionConfig != nil || f.TextConfig != nil:
		return nil, fmt.Errorf("vision_config: networks with a vision tower (%.40q) are not supported", f.ModelType)
	case f.Experts > 0 || f.LocalExperts > 0 || f.RoutedExperts > 0:
		return nil, fmt.Errorf("mixtures of experts (%.40q) are not supported", f.ModelType)
	}
	arch, err := byType(f.ModelType)
	if err != nil {
		return nil, err
	}
	c := arch.new()
	activation := "silu"
	if c.GELU {
		activation = "gelu_pytorch_tanh"
		f.Activation = cmp.Or(f.HiddenActivation, f.Activation)
	}
	switch {
	case f.Activation != activation:
		return nil, fmt.Errorf("hidden_act %.40q is not supported; supported is %s", f.Activation, activation)
	case f.AttentionBias && !arch.biases, f.MLPBias:
		return nil, fmt.Errorf("attention_bias and mlp_bias are not supported for %s", arch.name)
	case f.Quantization != nil:
		return nil, fmt.Errorf("quantization_config: quantised weights are supported in GGUF files only")
	case valueOr(f.PartialRotary, 1) != 1:
		return nil, fmt.Errorf("partial_rotary_factor %v is not supported", *f.PartialRotary)
	}
	c.Vocab, c.Hidden, c.FFN, c.Layers, c.Context = f.Vocab, f.Hidden, f.FFN, f.Layers, f.Context
	c.Heads, c.KVHeads, c.NormEps = f.Heads, valueOr(f.KVHeads, f.Heads), f.NormEps
	c.RopeTheta, c.Tied, c.Pad = valueOr(f.RopeTheta, 10000), valueOr(f.Tied, arch.tied), valueOr(f.Pad, c.Pad)
	if slices.ContainsFunc(f.Architectures, func(s string) bool { return strings.HasSuffix(s, classifier) }) {
		if n := f.labels(); n != 1 {
			return nil, fmt.Errorf("it is a classifier of %d labels; supported is one label, the reward", n)
		}
		c.Score, c.Tied = true, true
	}
	if f.HeadDim != nil {
		c.HeadDim = *f.HeadDim
	} else if f.Heads > 0 {
		c.HeadDim = f.Hidden / f.Heads
	}
	for _, p := range []*ropeParams{f.RopeScaling, f.RopeParams} {
		if p == nil {
			continue
		}
		if p.Full != nil { // of networks whose layers differ
			p = p.Full
		}
		c.RopeTheta = valueOr(p.Theta, c.RopeTheta)
		switch kind := p.kind(); kind {
		case "default":
		case "linear":
			if c.RopeFactor = p.Factor; !positive(p.Factor) {
				return nil, fmt.Errorf("the factor of linear rope scaling is %v, want a positive number", p.Factor)
			}
		case "llama3":
			c.Rope = &Llama3Rope{p.Factor, p.LowFactor, p.HighFactor, p.Original}
		default:
			return nil, fmt.Errorf("rope scaling %.40q is not supported; supported are default, linear and llama3", kind)
		}
	}
	if arch.config != nil {
		if err := arch.config(f, c); err != nil {
			return nil, err
		}
	}
	return c, f.readWindow(arch, c)
}

// Ropes are the frequencies with which layers rotate queries and keys: see [Config.RopeOf].
func (c *Config) Ropes() [][]float64 {
	out := [][]float64{c.Frequencies()}
	if c.LocalTheta != 0 {
		local := Config{HeadDim: c.HeadDim, RopeTheta: c.LocalTheta}
		out = append(out, local.Frequencies())
	}
	return out
}

// RopeOf is the index of a layer's frequencies in [Config.Ropes]; -1 for a layer that does not rotate.
func (c *Config) RopeOf(layer int) int {
	if c.NoRope != nil && c.NoRope[layer] {
		return -1
	}
	if c.LocalTheta != 0 && c.Sliding != nil && c.Sliding[layer] {
		return 1
	}
	return 0
}

// positive reports whether x is positive and finite as a float32.
func positive(x float64) bool { return float32(x) > 0 && !math.IsInf(float64(float32(x)), 1) }

const maxLayers = 1 << 10

// check refuses shapes that no network has, so that no later size can overflow.
func (c *Config) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("read the model's configuration: "+format, args...)
	}
	for _, s := range []struct {
		key         string
		value, most int
	}{
		{"vocab_size", c.Vocab, 1 << 21}, {"hidden_size", c.Hidden, 1 << 16}, {"intermediate_size", c.FFN, 1 << 18},
		{"num_hidden_layers", c.Layers, maxLayers}, {"num_attention_heads", c.Heads, 1 << 10},
		{"num_key_value_heads", c.KVHeads, 1 << 10}, {"head_dim", c.HeadDim, 1 << 12},
		{"max_position_embeddings", c.Context, 1 << 28},
	} {
		if s.value < 1 || s.value > s.most {
			return fail("%s is %d, want 1 to %d", s.key, s.value, s.most)
		}
	}
	switch r := c.Rope; {
	case c.Heads%c.KVHeads != 0:
		return fail("%d query heads are no multiple of %d key heads", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fail("head_dim %d is odd", c.HeadDim)
	case !positive(c.RopeTheta) || !positive(c.NormEps):
		return fail("rope_theta is %v and rms_norm_eps %v, want positive numbers in the range of float32",
			c.RopeTheta, c.NormEps)
	case c.LocalTheta != 0 && !positive(c.LocalTheta), c.QueryScalar != 0 && !positive(c.QueryScalar),
		c.RopeFactor != 0 && !positive(c.RopeFactor):
		return fail("the base of local rotations is %v, query_pre_attn_scalar %v and the factor of rope scaling %v, want "+
			"positive numbers in the range of float32", c.LocalTheta, c.QueryScalar, c.RopeFactor)
	case c.AttnSoftcap != 0 && !positive(c.AttnSoftcap), c.FinalSoftcap != 0 && !positive(c.FinalSoftcap):
		return fail("attn_logit_softcapping is %v and final_logit_softcapping %v, want positive numbers in the range of "+
			"float32", c.AttnSoftcap, c.FinalSoftcap)
	case r != nil && !(positive(r.Factor) && positive(r.LowFactor) && positive(r.Original) &&
		r.HighFactor > r.LowFactor && positive(r.HighFactor)):
		return fail("rope_scaling %+v is not valid", *r)
	}
	if slices.ContainsFunc(c.Factors, func(x float32) bool { return !positive(float64(x)) }) {
		return fail("the factors %v... of rope_freqs.weight must be positive", c.Factors[:min(4, len(c.Factors))])
	}
	for _, id := range c.End {
		if id < 0 || int(id) >= c.Vocab {
			return fail("eos_token_id %d is outside the vocabulary of %d", id, c.Vocab)
		}
	}
	return nil
}

// llama3Factors returns the scaling from which llama.cpp's converter made the factors, if they are
// those of a Llama 3 model: these differ in the factor only.
func (c *Config) llama3Factors() *Llama3Rope {
	if c.HeadDim < 2 || len(c.Factors) != c.HeadDim/2 || !(c.RopeTheta > 0) {
		return nil
	}
	scaled, plain := *c, *c
	scaled.Factors, plain.Factors = nil, nil
	scaled.Rope = &Llama3Rope{Factor: float64(slices.Max(c.Factors)), LowFactor: 1, HighFactor: 4, Original: 8192}
	want, base := scaled.Frequencies(), plain.Frequencies()
	for j, f := range c.Factors {
		if got := base[j] / float64(f); !(math.Abs(got-want[j]) <= 1e-5*want[j]) {
			return nil
		}
	}
	return scaled.Rope
}
