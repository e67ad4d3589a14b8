package decoder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/safetensors"
)

// storiesFolder converts a checkpoint of llama2.c (legacy format: seven int32, then float32
// tensors) to a Hugging Face folder.
func storiesFolder(t *testing.T, data []byte) string {
	t.Helper()
	var h struct{ Dim, Hidden, Layers, Heads, KVHeads, Vocab, Context int32 }
	r := bytes.NewReader(data)
	expect.OK(t, binary.Read(r, binary.LittleEndian, &h))
	config, err := json.Marshal(map[string]any{
		"model_type": "llama", "vocab_size": h.Vocab, "hidden_size": h.Dim, "intermediate_size": h.Hidden, "num_hidden_layers": h.Layers,
		"num_attention_heads": h.Heads, "num_key_value_heads": h.KVHeads, "max_position_embeddings": h.Context, "rms_norm_eps": 1e-5,
		"hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": 2, "rope_theta": 10000,
	})
	expect.OK(t, err)
	c, err := hf.ParseConfig(config, nil)
	expect.OK(t, err)
	names, shapes := c.Shapes()
	// The file has each kind of tensor for all layers together, in this order.
	var order []string
	for _, kind := range []string{"embed_tokens", "input_layernorm", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm",
		"gate_proj", "down_proj", "up_proj", "model.norm"} {
		for _, name := range names {
			if strings.Contains(name, kind) {
				order = append(order, name)
			}
		}
	}
	var tensors []safetensors.Tensor
	for _, name := range order {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		x := make([]float32, n)
		if err := binary.Read(r, binary.LittleEndian, x); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(name, "q_proj") || strings.Contains(name, "k_proj") {
			x = halves(x, c.HeadDim, c.Hidden)
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: shapes[name], Data: x})
	}
	if rest := r.Len(); len(tensors) != len(names) || rest != 4*int(h.Context)*c.HeadDim { // the rotary table
		t.Fatalf("%d tensors of %d, %d bytes left", len(tensors), len(names), rest)
	}
	weights, err := safetensors.Encode(tensors, nil)
	expect.OK(t, err)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": weights} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return dir
}

// halves reorders the rows of query or key heads: llama2.c rotates neighbours, Hugging Face the
// two halves of a head.
func halves(x []float32, dim, width int) []float32 {
	out := make([]float32, len(x))
	for row := range len(x) / width {
		head, j := row/dim*dim, row%dim
		to := head + j%2*dim/2 + j/2
		copy(out[to*width:(to+1)*width], x[row*width:(row+1)*width])
	}
	return out
}

// pieces reads tok512.bin: the longest length, then a score, a length and a text for each token.
func pieces(t *testing.T, data []byte) []string {
	t.Helper()
	var out []string
	for data = data[4:]; len(data) > 0; {
		n := int(binary.LittleEndian.Uint32(data[4:]))
		out = append(out, string(data[8:8+n]))
		data = data[8+n:]
	}
	return out
}

// The greedy story of a small trained Llama is the one that llama2.c prints (doc/stories260K.md).
func TestGoldenStories260K(t *testing.T) {
	c, err := hf.OpenWeights(storiesFolder(t, golden.File(t, "models", "stories260K", "stories260K.bin")))
	expect.OK(t, err)
	net, err := Load(c)
	expect.OK(t, err)
	pool := kernel.NewPool(2)
	defer pool.Close()
	const begin = 1
	out, err := newSampler(net, pool, &arena{}, []int{begin, 2}).Sample([][]int{{begin}}, 1, model.Sampling{Greedy: true, TopP: 1, MaxTokens: 256}, model.Draws{})
	expect.OK(t, err)
	texts := pieces(t, golden.File(t, "models", "stories260K", "tok512.bin"))
	var story strings.Builder
	for _, id := range out[0].Tokens {
		text := texts[id]
		if hex, ok := strings.CutPrefix(text, "<0x"); ok {
			b, err := strconv.ParseUint(strings.TrimSuffix(hex, ">"), 16, 8)
			expect.OK(t, err)
			text = string([]byte{byte(b)})
		}
		story.WriteString(text)
	}
	const want = `Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. She said, "I want to play with your ball, but I can't find it."
Lily was sad and didn't know what to do. She said, "I'm sorry, Lily. I didn't know what to do."
Lily didn't want to help her mom, so she said, "I'm sorry, mom. I didn't know what to do." Her mom said, "Don't worry, Lily. We can help you.`
	if got := strings.TrimPrefix(story.String(), " "); got != want {
		t.Errorf("the story is\n%s\nwant\n%s", got, want)
	}
}
