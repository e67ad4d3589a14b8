package hf

import (
	"fmt"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// Keys that a config.json leaves out have the values of transformers' classes.
func TestConfigDefaults(t *testing.T) {
	const sizes = `"vocab_size":10,"hidden_size":64,"intermediate_size":16,"num_hidden_layers":7,"num_attention_heads":32`
	for more, want := range map[string]string{
		`"model_type":"llama"`:   "kv 32, head 2, context 2048, theta 10000, eps 1e-06, tied false, window 0 []",
		`"model_type":"mistral"`: "kv 8, head 2, context 131072, theta 10000, eps 1e-06, tied false, window 4096 [0 1 2 3 4 5 6]",
		`"model_type":"mistral","layer_types":["full_attention"` + strings.Repeat(`,"full_attention"`, 6) + `]`: "kv 8, head 2, context 131072, theta 10000, eps 1e-06, " +
			"tied false, window 4096 [0 1 2 3 4 5 6]",
		`"model_type":"qwen2"`: "kv 32, head 2, context 32768, theta 10000, eps 1e-06, tied false, window 0 []",
		`"model_type":"qwen2","use_sliding_window":true,"max_window_layers":5`: "kv 32, head 2, context 32768, " +
			"theta 10000, eps 1e-06, tied false, window 4096 [5 6]",
		`"model_type":"qwen3"`:   "kv 32, head 128, context 32768, theta 10000, eps 1e-06, tied false, window 0 []",
		`"model_type":"smollm3"`: "kv 4, head 2, context 32768, theta 2e+06, eps 1e-06, tied true, window 0 []",
		`"model_type":"smollm3","use_sliding_window":true`: "kv 4, head 2, context 32768, theta 2e+06, eps 1e-06, " +
			"tied true, window 0 []",
		`"model_type":"olmo2"`: "kv 32, head 2, context 2048, theta 10000, eps 1e-05, tied false, window 0 []",
		`"model_type":"gemma3_text"`: "kv 4, head 256, context 131072, theta 1e+06, eps 1e-06, tied true, " +
			"window 4096 [0 1 2 3 4 6], scalar 256, local 10000",
		`"model_type":"gemma3_text","rope_theta":5e5,"rope_local_base_freq":500,"sliding_window_pattern":2,"head_dim":8`: "kv 4, " +
			"head 8, context 131072, theta 500000, eps 1e-06, tied true, window 4096 [0 2 4 6], scalar 256, local 500",
		`"model_type":"gemma3_text","rope_parameters":{"sliding_attention":{"rope_theta":7}}`: "kv 4, head 256, " +
			"context 131072, theta 1e+06, eps 1e-06, tied true, window 4096 [0 1 2 3 4 6], scalar 256, local 7",
		`"model_type":"qwen2","num_key_value_heads":null,"rope_parameters":{"rope_theta":5e6}`: "kv 32, head 2, context 32768, " +
			"theta 5e+06, eps 1e-06, tied false, window 0 []",
		`"model_type":"mistral","num_key_value_heads":null,"sliding_window":null`: "kv 32, head 2, context 131072, " +
			"theta 10000, eps 1e-06, tied false, window 0 []",
	} {
		c, err := ParseConfig([]byte(fmt.Sprintf("{%s,%s}", sizes, more)), nil)
		expect.OK(t, err)
		sliding := []int{}
		for i := range c.Sliding {
			if c.Sliding[i] {
				sliding = append(sliding, i)
			}
		}
		got := fmt.Sprintf("kv %d, head %d, context %d, theta %v, eps %v, tied %v, window %d %v", c.KVHeads, c.HeadDim,
			c.Context, c.RopeTheta, c.NormEps, c.Tied, c.Window, sliding)
		if strings.Contains(more, "gemma") {
			got += fmt.Sprintf(", scalar %v, local %v", c.queryScalar(), c.LocalTheta)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", more, got, want)
		}
	}
}
