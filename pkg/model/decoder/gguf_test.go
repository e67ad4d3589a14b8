package decoder

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/model/hf"
)

// asGGUF writes a folder's network as llama.cpp's converter does: its own keys and names, rows of query and key
// heads interleaved for some architectures, and Gemma's norms with the 1 added.
func asGGUF(t *testing.T, net *Network) string {
	c := net.Config
	u := func(n int) uint32 { return uint32(n) }
	metadata := map[string]any{
		"block_count": u(c.Layers), "context_length": u(c.Context), "embedding_length": u(c.Hidden),
		"feed_forward_length": u(c.FFN), "attention.head_count": u(c.Heads), "attention.head_count_kv": u(c.KVHeads),
		"attention.key_length": u(c.HeadDim), "attention.layer_norm_rms_epsilon": float32(c.NormEps),
		"rope.freq_base": float32(c.RopeTheta),
	}
	if c.Window > 0 {
		metadata["attention.sliding_window"] = u(c.Window)
	}
	if c.AttnSoftcap != 0 {
		metadata["attn_logit_softcapping"] = float32(c.AttnSoftcap)
	}
	if c.FinalSoftcap != 0 {
		metadata["final_logit_softcapping"] = float32(c.FinalSoftcap)
	}
	tokens := []string{}
	for i := range 100 {
		tokens = append(tokens, string(rune('!'+i%94))+strings.Repeat("!", i/94))
	}
	all := map[string]any{"general.architecture": c.Arch, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": slices.Repeat([]int32{1}, 100),
		"tokenizer.ggml.merges": []string{}, "tokenizer.ggml.eos_token_id": u(1), "tokenizer.ggml.padding_token_id": u(1)}
	for key, v := range metadata {
		all[c.Arch+"."+key] = v
	}
	data, tensors := map[string][]float32{}, map[string]decodertest.GGUFTensor{}
	for _, x := range net.Params.Tensors() {
		data[x.Name] = slices.Clone(x.Data)
	}
	for _, x := range c.Tensors() {
		d := data[x.Name]
		if strings.HasSuffix(x.Name, "norm.weight") && c.Arch == "gemma3" {
			for i := range d {
				d[i]++
			}
		}
		qk := strings.Contains(x.Name, "q_proj") || strings.Contains(x.Name, "k_proj")
		if qk && (c.Arch == "llama" || c.Arch == "smollm3") {
			from := slices.Clone(d)
			for row := range x.Shape[0] { // row 2j+p of a head is its row p·dim/2+j
				head, at := row/c.HeadDim*c.HeadDim, row%c.HeadDim
				src := head + at%2*c.HeadDim/2 + at/2
				copy(d[row*c.Hidden:(row+1)*c.Hidden], from[src*c.Hidden:])
			}
		}
		tensors[x.GGUF] = decodertest.GGUFTensor{Shape: x.Shape, Data: d}
	}
	return decodertest.WriteGGUF(t, all, tensors)
}

// A network in a GGUF file is that of its folder, and so is the folder that is exported of the file.
func TestGoldenFolderAsGGUF(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		if net.Config.QKVBias || net.Config.Rope != nil {
			t.Skip("its converter writes more than this test does")
		}
		checkpoint, err := hf.Open(asGGUF(t, net))
		expect.OK(t, err)
		defer checkpoint.Close()
		got, err := Load(checkpoint)
		expect.OK(t, err)
		for i, x := range net.Params.Tensors() {
			for j, v := range got.Params.Tensors()[i].Data {
				if d := v - x.Data[j]; d > 1e-7 || d < -1e-7 {
					t.Fatalf("%s: element %d is %v, want %v", x.Name, j, v, x.Data[j])
				}
			}
		}
		// Files don't have a window's pattern: llama.cpp knows that of each architecture.
		want, have := *net.Config, *checkpoint.Config
		want.Sliding, have.Sliding, want.QueryScalar, have.QueryScalar = nil, nil, 0, 0
		sameConfig(t, "the file's", want, have)
		files, err := checkpoint.Folder()
		expect.OK(t, err)
		exported, err := hf.ParseConfig(files["config.json"], files["generation_config.json"])
		expect.OK(t, err)
		sameConfig(t, "the export's", *checkpoint.Config, *exported)
		var class struct{ Architectures []string }
		expect.OK(t, json.Unmarshal(files["config.json"], &class))
		if want := map[string]string{"llama": "Llama", "qwen3": "Qwen3", "smollm3": "SmolLM3", "olmo2": "Olmo2",
			"gemma3": "Gemma3"}[net.Config.Arch] + "ForCausalLM"; !slices.Equal(class.Architectures, []string{want}) {
			t.Errorf("class %v, want %s", class.Architectures, want)
		}
	})
}

// sameConfig compares what JSON has of two configurations, but for the last bits of metadata in float32.
func sameConfig(t *testing.T, what string, want, have hf.Config) {
	t.Helper()
	fields := func(c hf.Config) map[string]any {
		out := map[string]any{}
		c.NormEps = float64(float32(c.NormEps))
		data, _ := json.Marshal(c)
		expect.OK(t, json.Unmarshal(data, &out))
		delete(out, "End")
		return out
	}
	a, b := fields(want), fields(have)
	maps.DeleteFunc(a, func(k string, v any) bool { return reflect.DeepEqual(v, b[k]) })
	for k, v := range a {
		t.Errorf("%s %s is %v, want %v", what, k, b[k], v)
	}
}
