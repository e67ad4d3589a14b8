package hf

import (
	"errors"
	"fmt"
	"math"
)

// gemma3 is Gemma 3's text model: RMSNorms before and after attention and the feed-forward network, with scales of
// 1 + w, q/k norms, a scaled embedding, GELU, and layers with a window and rotations of their own.
var gemma3 = &architecture{name: "gemma3", title: "Gemma 3's text model",
	classes:    map[string]string{"gemma3_text": "Gemma3"},
	classifier: "Gemma3Text",
	tied:       true,
	defaults: map[string]defaults{
		"gemma3_text": {context: 131072, kvHeads: 4, headDim: 256, theta: 1e6, window: 4096, queryScalar: 256},
	},
	parts: func(c *Config) {
		c.Norms, c.QKNorm, c.OffsetNorms, c.ScaledEmbed, c.GELU = NormBoth, true, true, true, true
		c.LocalTheta = 10000
	},
	slides: func(f *configFile, _ *Config, layer int) bool { return slidesInGemma(layer, f.WindowPattern) },
	config: func(f *configFile, c *Config) error {
		if valueOr(f.Bidirectional, false) {
			return errors.New("use_bidirectional_attention is not supported: the network is no language model")
		}
		for _, softcap := range []struct {
			key  string
			from *float64
			to   *float64
		}{
			{"attn_logit_softcapping", f.AttnSoftcap, &c.AttnSoftcap},
			{"final_logit_softcapping", f.FinalSoftcap, &c.FinalSoftcap},
		} {
			if softcap.from == nil {
				continue
			}
			if *softcap.to = *softcap.from; *softcap.to == 0 {
				return fmt.Errorf("%s is 0, want a positive number, or null for none", softcap.key)
			}
		}
		c.QueryScalar, c.LocalTheta = valueOr(f.QueryScalar, c.QueryScalar), valueOr(f.LocalTheta, c.LocalTheta)
		if f.RopeParams == nil || f.RopeParams.Sliding == nil {
			return nil
		}
		sliding := f.RopeParams.Sliding
		if kind := sliding.kind(); kind != "default" {
			return fmt.Errorf("rope scaling %.40q of sliding_attention is not supported", kind)
		}
		c.LocalTheta = valueOr(sliding.Theta, c.LocalTheta)
		return nil
	},
	metadata: func(m *metadata, c *Config) {
		c.AttnSoftcap = m.number("gemma3.attn_logit_softcapping", 0) // 0: none, as in llama.cpp
		c.FinalSoftcap = m.number("gemma3.final_logit_softcapping", 0)
		c.LocalTheta = m.number("gemma3.rope.freq_base_swa", c.LocalTheta)
		c.Window = m.integer("gemma3.attention.sliding_window", 0)
		for i := range min(c.Layers, maxLayers) {
			c.Sliding = append(c.Sliding, c.Window > 0 && slidesInGemma(i, nil))
		}
		if c.Layers == 62 && c.Heads > 0 { // as in llama.cpp: the scalar of the network of 27 billion parameters
			c.QueryScalar = float64(c.Hidden / c.Heads)
		}
	},
	file: func(c *Config, m map[string]any) {
		delete(m, "hidden_act")
		m["model_type"], m["hidden_activation"], m["attention_bias"] = "gemma3_text", "gelu_pytorch_tanh", false
		m["query_pre_attn_scalar"], m["rope_local_base_freq"] = c.queryScalar(), c.LocalTheta
		m["layer_types"], m["sliding_window"] = c.layerTypes(), c.Window
		m["attn_logit_softcapping"], m["final_logit_softcapping"] = unlessZero(c.AttnSoftcap), unlessZero(c.FinalSoftcap)
	},
}

// slidesInGemma reports whether a layer has a window: all but the last of each pattern, by default 6.
func slidesInGemma(layer int, pattern *int) bool {
	return (layer+1)%max(1, valueOr(pattern, 6)) != 0
}

// queryScalar is the number whose root divides the scores of attention.
func (c *Config) queryScalar() float64 {
	if c.QueryScalar != 0 {
		return c.QueryScalar
	}
	return float64(c.HeadDim)
}

// AttentionScale multiplies the scores of attention.
func (c *Config) AttentionScale() float32 { return float32(1 / math.Sqrt(c.queryScalar())) }

// EmbedScale multiplies embeddings.
func (c *Config) EmbedScale() float32 {
	if !c.ScaledEmbed {
		return 1
	}
	return float32(math.Sqrt(float64(c.Hidden)))
}
