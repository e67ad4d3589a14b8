package hf

import (
	"fmt"
	"slices"
)

// Which layers of a network see a window only: transformers 5 lists them in config.json, version 4 has a rule for
// each family, which is [architecture.slides].

// readWindow reads the window and the layers that have one.
func (f *configFile) readWindow(arch *architecture, c *Config) error {
	sliding := make([]bool, max(0, min(f.Layers, maxLayers)))
	if f.LayerTypes != nil && len(f.LayerTypes) != f.Layers {
		return fmt.Errorf("layer_types has %d layers, num_hidden_layers is %d", len(f.LayerTypes), f.Layers)
	}
	if f.LayerTypes != nil && f.ModelType != "mistral" { // whose class slides in all layers or none
		for i, kind := range f.LayerTypes {
			if kind != "full_attention" && kind != "sliding_attention" {
				return fmt.Errorf("layer_types: %.40q is not supported; supported are full_attention and sliding_attention",
					kind)
			}
			sliding[i] = kind == "sliding_attention"
		}
	} else if f.SlidingWindow != nil && arch.slides != nil {
		for i := range sliding {
			sliding[i] = arch.slides(f, c, i)
		}
	}
	switch {
	case !slices.Contains(sliding, true):
		return nil
	case f.SlidingWindow == nil || *f.SlidingWindow < 1:
		return fmt.Errorf("sliding_window must be at least 1: layers have sliding-window attention")
	}
	c.Window, c.Sliding = *f.SlidingWindow, sliding
	return nil
}

// lastSlide is the rule of Qwen networks: the first max_window_layers layers see everything.
func lastSlide(f *configFile, _ *Config, layer int) bool {
	return valueOr(f.UseSliding, false) && layer >= valueOr(f.MaxWindowLayers, 28)
}

// WindowOf is the number of tokens that a token sees in a layer, itself included; 0 for all before it.
func (c *Config) WindowOf(layer int) int {
	if c.Sliding == nil || !c.Sliding[layer] || c.Window >= c.Context {
		return 0
	}
	return c.Window
}

// Slides reports whether a layer has a window.
func (c *Config) Slides() bool {
	for i := range c.Sliding {
		if c.WindowOf(i) > 0 {
			return true
		}
	}
	return false
}

// layerTypes are the layers as in config.json.
func (c *Config) layerTypes() []string {
	out := make([]string, c.Layers)
	for i := range out {
		out[i] = "full_attention"
		if c.Sliding != nil && c.Sliding[i] {
			out[i] = "sliding_attention"
		}
	}
	return out
}
