package hf

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// Tensors of the GGUF file, dequantised, renamed and with their rows in order, equal
// those of the reference.
func TestGoldenSmolLM2Tensors(t *testing.T) {
	c, err := Open(golden.SmolLM2(t))
	expect.OK(t, err)
	defer c.Close()
	if c.ChatTemplate == "" || !slices.Equal(c.Config.End, []int32{2, 0}) || c.Config.RopeTheta != 100000 || !c.Config.Tied {
		t.Errorf("%+v", c.Config)
	}
	var want struct {
		Tensors map[string]struct {
			Shape     []int
			Norm, Sum float64
			Entries   [][2]float64
		}
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "decoder", "smollm2", "gguf_tensors.json"), &want, "gguf_sha256",
		"safetensors_fp32_sha256", "wheel_sha256")
	for name, w := range want.Tensors {
		x, err := c.Read(name)
		if err != nil {
			t.Error(err)
			continue
		}
		var sum, square float64
		for _, v := range x {
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		if norm := math.Sqrt(square); math.Abs(norm-w.Norm) > 1e-6*w.Norm || math.Abs(sum-w.Sum) > 1e-6*(w.Norm+math.Abs(w.Sum)) {
			t.Errorf("%s: norm %v and sum %v, want %v and %v", name, norm, sum, w.Norm, w.Sum)
		}
		for _, e := range w.Entries {
			if got := float64(x[int(e[0])]); math.Abs(got-e[1]) > 1e-7*max(1, math.Abs(e[1])) {
				t.Errorf("%s: element %v is %v, want %v", name, e[0], got, e[1])
			}
		}
	}
}

func TestGoldenSmolLM2Tokens(t *testing.T) {
	c, err := Open(golden.SmolLM2(t))
	expect.OK(t, err)
	defer c.Close()
	var want struct {
		Tokenizer []struct {
			Text string
			IDs  []int32
		}
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "decoder", "smollm2", "case.json"), &want, "chat", "model", "decoded")
	if len(want.Tokenizer) == 0 {
		t.Fatal("no strings")
	}
	for _, s := range want.Tokenizer {
		if got := c.Tokenizer.Encode(s.Text); !slices.Equal(got, s.IDs) {
			t.Errorf("%q\n got %v\nwant %v", s.Text, got, s.IDs)
		}
	}
}

// Every folder of the reference data has the shapes that its configuration gives.
func TestGoldenFolders(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(golden.Path(t, "golden", "decoder"), "*", "config.json"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folders: %v", err)
	}
	for _, file := range folders {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			data, err := os.ReadFile(file)
			expect.OK(t, err)
			config, err := ParseConfig(data, nil)
			expect.OK(t, err)
			s, err := newShards(dir)
			expect.OK(t, err)
			c := &Checkpoint{Config: config, read: s.read}
			names, _ := config.Shapes()
			for _, name := range names {
				if _, err := c.Read(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	good := map[string]any{
		"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
		"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
	}
	tests := []struct {
		key   string
		value any
		says  string
	}{
		{"model_type", "gpt_neox", "Qwen3"}, {"hidden_act", "gelu", "gelu"}, {"vocab_size", -1, "vocab_size"}, {"num_attention_heads", 0, "num_attention_heads"},
		{"num_key_value_heads", 3, "multiple"}, {"head_dim", 3, "odd"}, {"rms_norm_eps", 0, "rms_norm_eps"},
		{"rms_norm_eps", 1e308, "rms_norm_eps"}, {"rms_norm_eps", 1e-300, "rms_norm_eps"}, {"rope_theta", 1e300, "rope_theta"},
		{"rope_scaling", map[string]any{"rope_type": "yarn", "factor": 4}, "yarn"}, {"rope_scaling", map[string]any{"type": "dynamic"}, "dynamic"},
		{"rope_scaling", map[string]any{"rope_type": "longrope", "type": "longrope"}, "longrope"},
		{"rope_parameters", map[string]any{"rope_type": "linear", "factor": 0}, "factor"},
		{"model_type", "gemma3", "gemma3_text"}, {"vision_config", map[string]any{}, "vision tower"},
		{"num_experts", 8, "experts"}, {"n_routed_experts", 8, "experts"},
		{"layer_types", []string{"chunked_attention"}, "chunked_attention"}, {"layer_types", []string{}, "layer_types"},
		{"quantization_config", map[string]any{"bits": 4}, "GGUF"}, {"num_local_experts", 8, "experts"}, {"eos_token_id", 10, "eos_token_id"}, {"eos_token_id", make([]int, 257), "limit"},
		{"hidden_size", 1 << 40, "hidden_size"}, {"attention_bias", true, "attention_bias"},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			changed := map[string]any{}
			for k, v := range good {
				changed[k] = v
			}
			data, _ := json.Marshal(changed)
			expect.OK(t, expect.Err(ParseConfig(data, nil)))
			changed[tt.key] = tt.value
			data, _ = json.Marshal(changed)
			expect.Error(t, expect.Err(ParseConfig(data, nil)), tt.says)
		})
	}
	if c, err := ParseConfig([]byte(`{"model_type":"mistral","vocab_size":10,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":2,
		"num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5,"hidden_act":"silu","sliding_window":null,"eos_token_id":2}`), []byte(`{"eos_token_id":[3,4]}`)); err != nil || !slices.Equal(c.End, []int32{3, 4, 2}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Llama 3's factors in a GGUF file give the frequencies of its scaling, and are recognised, so that
// config.json can hold them; others are not.
func TestLlama3Factors(t *testing.T) {
	plain := Config{HeadDim: 64, RopeTheta: 500000}
	for _, factor := range []float64{8, 32} {
		scaled, gguf := plain, plain
		scaled.Rope = &Llama3Rope{factor, 1, 4, 8192}
		want := scaled.Frequencies()
		for j, f := range plain.Frequencies() {
			gguf.Factors = append(gguf.Factors, float32(f/want[j]))
		}
		for j, f := range gguf.Frequencies() {
			if math.Abs(f-want[j]) > 1e-6*want[j] {
				t.Errorf("factor %v: frequency %d is %v, want %v", factor, j, f, want[j])
			}
		}
		if got := gguf.llama3Factors(); got == nil || *got != *scaled.Rope {
			t.Errorf("factor %v: %+v", factor, got)
		}
		gguf.Factors[20] *= 1.01
		if got := gguf.llama3Factors(); got != nil {
			t.Errorf("other factors are taken for %+v", got)
		}
		expect.Error(t, expect.Err(gguf.file()), "rope_freqs")
	}
}

// A soft cap is a positive number or null.
func TestSoftCaps(t *testing.T) {
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		for value, says := range map[string]string{"null": "", "30": "", "0": "null for none", "-1": "positive", "1e300": "positive"} {
			_, err := ParseConfig([]byte(`{"model_type": "gemma3_text", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48,
				"num_hidden_layers": 2, "num_attention_heads": 4, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
				"`+key+`": `+value+`}`), nil)
			if says == "" {
				expect.OK(t, err)
			} else {
				expect.Error(t, err, key, says)
			}
		}
	}
}

// The config.json that is written for a shape is read as that shape.
func TestConfigFile(t *testing.T) {
	for _, c := range []Config{
		{Arch: "llama", HeadDim: 8, Heads: 4, KVHeads: 2, Rope: &Llama3Rope{8, 1, 4, 8192}, Tied: true},
		{Arch: "qwen2", HeadDim: 8, Heads: 4, KVHeads: 4, QKVBias: true},
		{Arch: "qwen3", HeadDim: 16, Heads: 2, KVHeads: 1, QKNorm: true, Tied: true},
		{Arch: "smollm3", HeadDim: 8, Heads: 4, KVHeads: 2, NoRope: []bool{true, false, true}, Tied: true},
		{Arch: "olmo2", HeadDim: 8, Heads: 4, KVHeads: 2, Norms: NormAfter, QKNorm: true, WholeQKNorm: true},
		{Arch: "gemma3", HeadDim: 8, Heads: 4, KVHeads: 2, Norms: NormBoth, QKNorm: true, OffsetNorms: true, ScaledEmbed: true,
			GELU: true, QueryScalar: 14, LocalTheta: 100, RopeFactor: 8, AttnSoftcap: 50, FinalSoftcap: 30, Window: 12,
			Sliding: []bool{true, false, true}, Tied: true},
	} {
		c.Vocab, c.Hidden, c.FFN, c.Layers, c.Context, c.RopeTheta, c.Pad = 50, 32, 48, 3, 64, 123456.5, -1
		c.NormEps = float64(float32(1e-5))
		m, err := c.file()
		expect.OK(t, err)
		data, _ := json.Marshal(m)
		got, err := ParseConfig(data, nil)
		expect.OK(t, err)
		want, _ := json.Marshal(c)
		if have, _ := json.Marshal(got); string(have) != string(want) {
			t.Errorf("%s\nbecame %s", want, have)
		}
	}
}
