package hf

import (
	"fmt"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// The windows of layers are those of transformers' classes, of its versions 4 and 5.
func TestWindows(t *testing.T) {
	const sizes = `"vocab_size":10,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":4,"num_attention_heads":2,"num_key_value_heads":2,
		"max_position_embeddings":8192,"rms_norm_eps":1e-5,"hidden_act":"silu"`
	for config, want := range map[string][]int{
		`"model_type":"mistral","sliding_window":32`:                                                {32, 32, 32, 32},
		`"model_type":"mistral"`:                                                                    {4096, 4096, 4096, 4096},
		`"model_type":"mistral","sliding_window":null`:                                              {0, 0, 0, 0},
		`"model_type":"mistral","sliding_window":8192`:                                              {0, 0, 0, 0},
		`"model_type":"llama","sliding_window":32`:                                                  {0, 0, 0, 0},
		`"model_type":"qwen2","sliding_window":32,"use_sliding_window":true,"max_window_layers":3`:  {0, 0, 0, 32},
		`"model_type":"qwen2","sliding_window":32,"use_sliding_window":true`:                        {0, 0, 0, 0},
		`"model_type":"qwen3","sliding_window":32,"use_sliding_window":false,"max_window_layers":0`: {0, 0, 0, 0},
		`"model_type":"qwen3","sliding_window":32,"layer_types":["full_attention","sliding_attention","full_attention","sliding_attention"]`: {0, 32, 0, 32},
		`"model_type":"smollm3","sliding_window":32,"use_sliding_window":true,"no_rope_layers":[1,0,1,0]`:                                    {0, 32, 0, 32},
		`"model_type":"smollm3","sliding_window":32`: {0, 0, 0, 0},
		`"model_type":"olmo2","sliding_window":32`:   {0, 0, 0, 0},
	} {
		c, err := ParseConfig([]byte(fmt.Sprintf("{%s,%s}", sizes, config)), nil)
		expect.OK(t, err)
		var got []int
		for i := range c.Layers {
			got = append(got, c.WindowOf(i))
		}
		if !slices.Equal(got, want) || c.Slides() != (slices.Max(want) > 0) {
			t.Errorf("%s: windows %v, want %v", config, got, want)
		}
	}
	for config, says := range map[string]string{
		`"sliding_window":0`:                      "sliding_window",
		`"layer_types":["sliding_attention"]`:     "layer_types has 1 layers",
		`"sliding_window":4,"no_rope_layers":[1]`: "no_rope_layers",
	} {
		_, err := ParseConfig([]byte(fmt.Sprintf(`{%s,"model_type":"smollm3","use_sliding_window":true,%s}`, sizes, config)), nil)
		expect.Error(t, err, says)
	}
}
