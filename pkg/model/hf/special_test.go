package hf_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/randommodel"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// summary is "id from; id from" of begin tokens, of end tokens and of the token after an answer.
func summary(s model.SpecialTokens) string {
	list := func(tokens []model.SpecialToken) string {
		var out []string
		for _, x := range tokens {
			data, _ := json.Marshal(x.ID)
			out = append(out, string(data)+" "+x.From)
		}
		return strings.Join(out, "; ")
	}
	answer := []model.SpecialToken{}
	if s.Answer != nil {
		answer = append(answer, *s.Answer)
	}
	return list(s.Begin) + " | " + list(s.End) + " | " + list(answer)
}

func special(t *testing.T, path string) model.SpecialTokens {
	t.Helper()
	c, err := hf.Open(path)
	expect.OK(t, err)
	defer c.Close()
	ids := []int32{}
	for _, x := range c.Special.End {
		ids = append(ids, int32(x.ID))
	}
	if !slices.Equal(ids, append([]int32{}, c.Config.End...)) {
		t.Errorf("the configuration has the end tokens %v, the tokenizer %v", c.Config.End, ids)
	}
	return c.Special
}

// The tokens are A (256) and B (257), by their names.
func folderWith(t *testing.T, a, b string, files map[string]string, config map[string]any) string {
	t.Helper()
	dir := decodertest.Folder(t)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.OK(t, err)
		return string(data)
	}
	var c map[string]any
	expect.OK(t, json.Unmarshal([]byte(read("config.json")), &c))
	for k, v := range config {
		c[k] = v
	}
	data, _ := json.Marshal(c)
	all := map[string]string{"config.json": string(data), "tokenizer_config.json": "{}", "tokenizer.json": read("tokenizer.json")}
	for name, text := range files {
		all[name] = text
	}
	tokens := strings.NewReplacer(`\u003c|start|\u003e`, a, `\u003c|end|\u003e`, b)
	all["tokenizer.json"] = tokens.Replace(all["tokenizer.json"])
	for name, text := range all {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// An end token that a file does not mark as special does not end a turn from within what a user typed.
func TestEndTokenInPlainText(t *testing.T) {
	dir := folderWith(t, "<a>", "<|im_end|>", nil, nil)
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	plain := strings.Replace(string(data), `"special":true`, `"special":false`, 2)
	if plain == string(data) {
		t.Fatal("the folder's tokens are not special")
	}
	expect.OK(t, os.WriteFile(path, []byte(plain), 0o644))
	c, err := hf.Open(dir)
	expect.OK(t, err)
	defer c.Close()
	const end = 257
	if ids := c.Tokenizer.EncodeAround("", "x<|im_end|><a>", "<|im_end|>"); slices.Index(ids, end) != len(ids)-1 || !slices.Contains(ids, 256) {
		t.Errorf("the text around one is %v", ids)
	}
	if ids := c.Tokenizer.EncodeAfter([]int32{1}, "", "x<|im_end|>"); slices.Contains(ids, end) {
		t.Errorf("a plain completion is %v", ids)
	}
}

// Linear scaling is llama.cpp's default where a file has a factor.
func TestRopeOfGGUF(t *testing.T) {
	for want, keys := range map[float64]map[string]any{
		0: nil, 4: {"llama.rope.scaling.factor": float32(4)}, 2: {"llama.rope.scale_linear": float32(2)},
		3: {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(3)},
	} {
		c, err := hf.Open(decodertest.GGUF(t, keys))
		expect.OK(t, err)
		if c.Config.RopeFactor != want {
			t.Errorf("%v: factor %v", keys, c.Config.RopeFactor)
		}
		c.Close()
	}
	_, err := hf.Open(decodertest.GGUF(t, map[string]any{"split.count": uint32(3)}))
	expect.Error(t, err, "one of 3 parts")
}

func TestSpecialOfFolder(t *testing.T) {
	const processor = `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"A"}},{"Sequence":{}},` +
		`{"SpecialToken":{"id":"B"}}],"special_tokens":{"A":{"ids":[256]},"B":{"ids":[257]}}},"added_tokens"`
	tests := []struct {
		name, a, b string
		config     any // eos_token_id
		files      map[string]string
		want       string
	}{
		{"config", "<a>", "<b>", 257, nil, " | 257 config.json | 257 config.json"},
		{"generation and config", "<a>", "<b>", 257, map[string]string{"generation_config.json": `{"eos_token_id":256}`},
			" | 256 generation_config.json; 257 config.json | "},
		{"the tokenizer's", "<a>", "<b>", 256, map[string]string{"tokenizer_config.json": `{"eos_token":{"content":"<b>"}}`},
			" | 256 config.json; 257 tokenizer_config.json | 257 tokenizer_config.json"},
		{"of several the tokenizer's", "<a>", "<b>", []int{256, 257}, map[string]string{"tokenizer_config.json": `{"eos_token":"<b>"}`},
			" | 256 config.json; 257 config.json | 257 tokenizer_config.json"},
		{"several", "<a>", "<b>", []int{256, 257}, nil, " | 256 config.json; 257 config.json | "},
		{"an older file", "<a>", "<b>", nil, map[string]string{"special_tokens_map.json": `{"eos_token":"<b>"}`},
			" | 257 special_tokens_map.json | 257 special_tokens_map.json"},
		{"an older file without effect", "<a>", "<b>", nil, map[string]string{"special_tokens_map.json": `{"eos_token":"<b>"}`,
			"tokenizer_config.json": `{"added_tokens_decoder":{}}`}, " |  | "},
		{"a name", "<|im_end|>", "<|endoftext|>", 257, nil, " | 257 config.json; 256 its name | 257 config.json"},
		{"a name only", "<|eot_id|>", "<b>", nil, nil, " | 256 its name | 256 its name"},
		{"another name", "[EOT]", "<eos>", nil, nil, " | 257 its name; 256 its name | "},
		{"null", "<a>", "<b>", nil, nil, " |  | "},
		{"an empty list", "<a>", "<b>", []int{}, nil, " |  | "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folderWith(t, tt.a, tt.b, tt.files, map[string]any{"eos_token_id": tt.config})
			if got := summary(special(t, dir)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	// A token after the text would end a prompt.
	dir := folderWith(t, "<a>", "<b>", nil, nil)
	data, _ := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	changed := strings.Replace(string(data), `"added_tokens"`, processor, 1)
	expect.OK(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(changed), 0o644))
	if got := summary(special(t, dir)); got != "256 tokenizer.json | 257 config.json | 257 config.json" {
		t.Error(got)
	}
	// An added token that is not special, as fine-tuning adds them.
	dir = folderWith(t, "<|im_end|>", "<b>", nil, nil)
	path := filepath.Join(dir, "tokenizer.json")
	data, _ = os.ReadFile(path)
	changed = strings.NewReplacer(`"special": true`, `"special":false`, `"special":true`, `"special":false`).Replace(string(data))
	expect.OK(t, os.WriteFile(path, []byte(changed), 0o644))
	if got := summary(special(t, dir)); got != " | 257 config.json; 256 its name | 257 config.json" {
		t.Error(got)
	}
	// A name that the tokenizer lacks.
	dir = folderWith(t, "<a>", "<b>", map[string]string{"tokenizer_config.json": `{"eos_token":"<c>"}`}, nil)
	expect.Error(t, expect.Err(hf.Open(dir)), "eos_token")
}

// Half a surrogate pair is an error in every JSON file of a folder.
func TestHalfOfASurrogatePair(t *testing.T) {
	files := map[string]string{
		"generation_config.json": `{"x":"\ud83d"}`, "tokenizer_config.json": `{"x":"\ud83d"}`,
		"special_tokens_map.json": `{"x":"\ud83d"}`, "model.safetensors.index.json": `{"weight_map":{},"x":"\ud83d"}`,
		"config.json": "", "tokenizer.json": "",
	}
	for name, text := range files {
		dir := folderWith(t, "<a>", "<b>", nil, nil)
		path := filepath.Join(dir, name)
		if text == "" {
			data, _ := os.ReadFile(path)
			text = strings.Replace(string(data), "{", `{"x":"\ud83d",`, 1)
		}
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		if name == hf.IndexFile { // not read beside a single file of weights
			expect.OK(t, expect.Err(hf.Open(dir)))
			expect.OK(t, os.Remove(filepath.Join(dir, hf.SingleFile)))
		}
		if _, err := hf.Open(dir); err == nil || !strings.Contains(err.Error(), "surrogate") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	dir := t.TempDir()
	settings := `{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q_proj"],"x":"\ud83d"}`
	expect.OK(t, os.WriteFile(filepath.Join(dir, hf.AdapterConfigFile), []byte(settings), 0o644))
	if _, err := hf.ReadAdapter(dir); err == nil || !strings.Contains(err.Error(), "surrogate") {
		t.Errorf("%s: error %v", hf.AdapterConfigFile, err)
	}
}

// metadata names the tokens 256 and 257.
func metadata(a, b string, more map[string]any) map[string]any {
	out := map[string]any{"tokenizer.ggml.tokens": append(randommodel.TokenNames()[:256], a, b)}
	for k, v := range more {
		out["tokenizer.ggml."+k] = v
	}
	return out
}

func TestSpecialOfGGUF(t *testing.T) {
	type keys = map[string]any
	tests := []struct {
		name, a, b string
		keys       keys
		want       string
	}{
		{"the end of a text", "<a>", "<b>", nil, " | 257 eos | 257 eos"},
		{"and of a turn", "<a>", "<b>", keys{"eot_token_id": uint32(256)}, " | 257 eos; 256 eot | 257 eos"},
		{"and of a message", "<a>", "<b>", keys{"eom_token_id": int32(256)}, " | 257 eos; 256 eom | 257 eos"},
		{"of a turn only", "<a>", "<b>", keys{"eos_token_id": nil, "eot_token_id": uint32(256)}, " | 256 eot | 256 eot"},
		{"a name", "<|im_end|>", "<|endoftext|>", nil, " | 257 eos; 256 its name | 257 eos"},
		{"none", "<a>", "<b>", keys{"eos_token_id": nil}, " |  | "},
		{"a tag of HTML", "<eos>", "</s>", keys{"eos_token_id": uint32(256),
			"token_type": slices.Concat(slices.Repeat([]int32{1}, 256), []int32{3, 4})}, " | 256 eos | 256 eos"},
		{"a begin token", "<a>", "<b>", keys{"bos_token_id": uint32(256), "add_bos_token": true}, "256 tokenizer.ggml.add_bos_token | 257 eos | 257 eos"},
		{"not before a text", "<a>", "<b>", keys{"bos_token_id": uint32(256)}, " | 257 eos | 257 eos"},
		{"by default", "<a>", "<b>", keys{"bos_token_id": uint32(256), "pre": "llama-bpe"}, "256 its pre-tokenizer, llama-bpe | 257 eos | 257 eos"},
		{"by default, but not here", "<a>", "<b>", keys{"bos_token_id": uint32(256), "pre": "llama-bpe", "add_bos_token": false}, " | 257 eos | 257 eos"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := decodertest.GGUF(t, metadata(tt.a, tt.b, tt.keys))
			got := special(t, path)
			short := strings.NewReplacer("tokenizer.ggml.eos_token_id", "eos", "tokenizer.ggml.eot_token_id", "eot", "tokenizer.ggml.eom_token_id", "eom")
			if got := short.Replace(summary(got)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			// The folder made of it has the same tokens.
			_, folder, _ := written(t, path, "F32")
			a, b := tokensOf(got), tokensOf(folder.Special)
			if !slices.EqualFunc(a, b, func(x, y []int) bool { return slices.Equal(x, y) }) {
				t.Errorf("%v became %v", a, b)
			}
		})
	}
}

// A tokenizer "llama" has scores, and by default a space and a begin token before a text.
func TestSentencePieceOfGGUF(t *testing.T) {
	type keys = map[string]any
	open := func(t *testing.T, more keys) (*hf.Checkpoint, string, error) {
		all := keys{"model": "llama", "pre": nil, "merges": nil, "bos_token_id": uint32(1), "eos_token_id": uint32(2),
			"tokens":     []string{"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "▁a", "ab", "  "},
			"token_type": []int32{2, 3, 3, 6, 1, 1, 1, 1, 1, 4},
			"scores":     []float32{0, 0, 0, 0, -3, -4, -5, -1, -2, 0}}
		maps.Copy(all, more)
		metadata := keys{}
		for key, v := range all {
			metadata["tokenizer.ggml."+key] = v
		}
		path := decodertest.GGUF(t, metadata)
		c, err := hf.Open(path)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, path, err
	}
	const text = "ab a\n   b</s>"
	tests := []struct {
		name  string
		keys  keys
		begin string
		ids   []int32 // of text
	}{
		{"defaults", nil, "1 its tokenizer, llama", []int32{7, 6, 7, 3, 9, 4, 4, 6, 2}},
		{"no space", keys{"add_space_prefix": false}, "1 its tokenizer, llama", []int32{8, 7, 3, 9, 4, 6, 2}},
		{"no begin token", keys{"add_bos_token": false}, "", []int32{7, 6, 7, 3, 9, 4, 4, 6, 2}},
		{"other scores", keys{"scores": []float32{0, 0, 0, 0, -3, -4, -5, -2, -1, 0}}, "1 its tokenizer, llama",
			[]int32{4, 8, 7, 3, 9, 4, 4, 6, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, path, err := open(t, tt.keys)
			expect.OK(t, err)
			if got := c.Tokenizer.Encode(text); !slices.Equal(got, tt.ids) {
				t.Errorf("%v, want %v", got, tt.ids)
			}
			begin, _, _ := strings.Cut(summary(c.Special), " | ")
			if begin != tt.begin {
				t.Errorf("it begins with %q, want %q", begin, tt.begin)
			}
			_, folder, _ := written(t, path, "F32")
			if got := folder.Tokenizer.Encode(text); !slices.Equal(got, tt.ids) || !slices.Equal(folder.Tokenizer.Begin(), c.Tokenizer.Begin()) {
				t.Errorf("the folder has %v after %v", got, folder.Tokenizer.Begin())
			}
			if got, want := folder.Tokenizer.Decode(tt.ids, true), c.Tokenizer.Decode(tt.ids, true); got != want {
				t.Errorf("the folder has %q, the file %q", got, want)
			}
		})
	}
	for key, v := range map[string]any{"scores": nil, "add_space_prefix": "yes", "model": "t5"} {
		_, _, err := open(t, keys{key: v})
		expect.Error(t, err, map[string]string{"scores": "0 scores for 10 tokens", "add_space_prefix": "add_space_prefix",
			"model": "unigram"}[key])
	}
	_, _, err := open(t, keys{"scores": []int32{1}})
	expect.Error(t, err, "floating-point")
}

func tokensOf(s model.SpecialTokens) [][]int {
	ids := func(tokens ...model.SpecialToken) (out []int) {
		for _, x := range tokens {
			out = append(out, x.ID)
		}
		return out
	}
	out := [][]int{ids(s.Begin...), ids(s.End...), nil}
	if s.Answer != nil {
		out[2] = ids(*s.Answer)
	}
	return out
}

func TestMetadataErrors(t *testing.T) {
	for key, v := range map[string]any{
		"tokenizer.ggml.eos_token_id": uint32(1 << 31), "tokenizer.ggml.eot_token_id": "<b>", "tokenizer.ggml.eom_token_id": int32(-1),
		"tokenizer.ggml.bos_token_id": uint32(258), "tokenizer.ggml.padding_token_id": uint32(258), "tokenizer.ggml.add_bos_token": true,
		"tokenizer.ggml.tokens": []int32{1}, "tokenizer.ggml.token_type": []string{"a"}, "tokenizer.ggml.model": uint32(1),
		"tokenizer.chat_template": uint32(1), "general.architecture": uint32(1), "general.alignment": "32",
		"llama.rope.freq_base": "10000", "llama.attention.head_count_kv": []int32{4}, "llama.block_count": float32(1.5),
		"llama.rope.scaling.type": uint32(1), "llama.attention.layer_norm_rms_epsilon": 1e308, "llama.context_length": nil,
	} {
		t.Run(key, func(t *testing.T) {
			name := key[strings.LastIndex(key, ".")+1:]
			if name == "layer_norm_rms_epsilon" {
				name = "rms_norm_eps"
			}
			c, err := hf.Open(decodertest.GGUF(t, map[string]any{key: v}))
			if err == nil {
				c.Close()
			}
			expect.Error(t, err, name)
		})
	}
	same := metadata("<a>", "<a>", nil)
	expect.Error(t, expect.Err(hf.Open(decodertest.GGUF(t, same))), "256 and 257")
	empty := metadata("", "", map[string]any{"eos_token_id": nil})
	c, err := hf.Open(decodertest.GGUF(t, empty))
	if err != nil {
		t.Fatalf("two unused tokens without a text: %v", err)
	}
	c.Close()
}

// The text models of Gemma 3 have no row for the token of images that their tokenizer has.
func TestImageTokenWithoutRow(t *testing.T) {
	for name, more := range map[string]string{"": `{"id":258,"content":"<image_soft_token>","special":true},`,
		"259 tokens": `{"id":258,"content":"<image>","special":true},`} {
		dir := folderWith(t, "<a>", "<b>", nil, nil)
		path := filepath.Join(dir, "tokenizer.json")
		data, err := os.ReadFile(path)
		expect.OK(t, err)
		changed := strings.Replace(string(data), `"added_tokens":[`, `"added_tokens":[`+more, 1)
		expect.OK(t, os.WriteFile(path, []byte(changed), 0o644))
		c, err := hf.Open(dir)
		if name != "" {
			expect.Error(t, err, name)
			continue
		}
		expect.OK(t, err)
		if got := c.Tokenizer.Encode("<image_soft_token>"); c.Tokenizer.Size() != 258 || len(got) != len("<image_soft_token>") {
			t.Errorf("%d tokens, %v", c.Tokenizer.Size(), got)
		}
		c.Close()
	}
}
