package hf

import "fmt"

// smollm3 is Llama with layers that don't rotate queries and keys.
var smollm3 = &architecture{name: "smollm3", title: "SmolLM3", classes: map[string]string{"smollm3": "SmolLM3"},
	permuted: true,
	tied:     true,
	defaults: map[string]defaults{"smollm3": {context: 32768, kvHeads: 4, theta: 2e6}},
	slides:   func(f *configFile, c *Config, layer int) bool { return valueOr(f.UseSliding, false) && c.NoRope[layer] },
	config: func(f *configFile, c *Config) error {
		c.NoRope = everyNth(f.Layers, f.NoRopeInterval)
		if f.NoRopeLayers == nil {
			return nil
		}
		if len(f.NoRopeLayers) != f.Layers {
			return fmt.Errorf("no_rope_layers has %d layers, num_hidden_layers is %d", len(f.NoRopeLayers), f.Layers)
		}
		for i, rotates := range f.NoRopeLayers { // in spite of the key's name
			c.NoRope[i] = rotates == 0
		}
		return nil
	},
	// llama.cpp knows no key for it.
	metadata: func(_ *metadata, c *Config) { c.NoRope = everyNth(c.Layers, nil) },
	file: func(c *Config, m map[string]any) {
		rotates := make([]int, c.Layers)
		for i, no := range c.NoRope {
			if !no {
				rotates[i] = 1
			}
		}
		m["no_rope_layers"], m["use_sliding_window"] = rotates, false
		m["attention_bias"], m["mlp_bias"] = false, false
	},
}

// everyNth marks the last of each n layers; nil is 4, transformers' default.
func everyNth(layers int, n *int) []bool {
	every, out := max(1, valueOr(n, 4)), make([]bool, max(0, min(layers, maxLayers)))
	for i := range out {
		out[i] = (i+1)%every == 0
	}
	return out
}
