package hf

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/model"
	"grpo/pkg/model/hf/bpe"
	"grpo/pkg/model/safetensors"
)

// Folder holds the files of a Hugging Face or PEFT folder besides the weights, by name.
type Folder map[string][]byte

// SideFiles are the files of a Hugging Face folder that programs read besides the weights.
var SideFiles = []string{
	configName, generationName, tokenizerName, tokenizerConfigName, specialTokensName, "added_tokens.json", "vocab.json",
	"merges.txt", "chat_template.jinja", sentencePieceName,
}

const (
	configName          = "config.json"
	generationName      = "generation_config.json"
	tokenizerName       = "tokenizer.json"
	tokenizerConfigName = "tokenizer_config.json"
	specialTokensName   = "special_tokens_map.json"
	sentencePieceName   = "tokenizer.model"
)

// Matters reports whether a file of this name in a Hugging Face or PEFT folder is part of the model:
// others, such as the state of a trainer, may come and go.
func Matters(name string) bool {
	return filepath.Ext(name) == ".safetensors" ||
		name == IndexFile || name == AdapterConfigFile || slices.Contains(SideFiles, name)
}

// Folder returns the files that a Hugging Face folder of this model has besides the weights. Those
// of a folder are copied, those of a GGUF file made from its metadata.
func (c *Checkpoint) Folder() (Folder, error) {
	f, err := c.files()
	if err == nil {
		err = f.complete(c.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("write a Hugging Face folder of %s: %w", c.Path, err)
	}
	return f, nil
}

// copyFolder reads the files of a folder.
func copyFolder(dir string) (Folder, error) {
	f := Folder{}
	for _, name := range SideFiles {
		data, err := optional(dir, name)
		if err != nil {
			return nil, err
		}
		if data != nil {
			f[name] = data
		}
	}
	return f, nil
}

// complete adds what transformers, vLLM and llama.cpp need to choose their classes.
func (f Folder) complete(c *Config) error {
	err := f.edit(configName, func(m map[string]any) {
		if m["architectures"] == nil {
			m["architectures"] = []string{c.class(m, "ForCausalLM")}
		}
		delete(m, "auto_map") // code that is not copied
	})
	if err != nil {
		return err
	}
	if err := f.completeEnd(c); err != nil {
		return err
	}
	if f[tokenizerConfigName] == nil {
		f[tokenizerConfigName] = []byte("{}")
	}
	return f.edit(tokenizerConfigName, func(m map[string]any) {
		// Other classes may put a pre-tokenizer of their own in place of that in tokenizer.json:
		// GPT2Tokenizer of transformers 5 does not split digits.
		m["tokenizer_class"] = "PreTrainedTokenizerFast"
		delete(m, "auto_map")
		if m["model_max_length"] == nil {
			m["model_max_length"] = c.Context
		}
	})
}

// completeEnd writes the end tokens into generation_config.json if some are named elsewhere only: other
// programs do not look in all places.
func (f Folder) completeEnd(c *Config) error {
	named := func(file string) (out intOrList) {
		var tokens struct {
			EOS intOrList `json:"eos_token_id"`
		}
		_ = json.Unmarshal(f[file], &tokens) // the file was read before, or there is none
		return tokens.EOS
	}
	known := named(generationName)
	if len(known) == 0 {
		known = named(configName)
	}
	if !slices.ContainsFunc(c.End, func(id int32) bool { return !slices.Contains(known, id) }) {
		return nil
	}
	if f[generationName] == nil {
		f[generationName] = []byte("{}")
	}
	return f.edit(generationName, func(m map[string]any) { m["eos_token_id"] = c.End })
}

// edit changes the members of a JSON object; those that change leaves alone keep their text.
func (f Folder) edit(name string, change func(map[string]any)) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(f[name], &raw); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	members := make(map[string]any, len(raw))
	for k, v := range raw {
		members[k] = v
	}
	change(members)
	data, err := toJSON(members)
	f[name] = data
	return err
}

func toJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// dtypes are the names of types in config.json.
var dtypes = map[string]string{"F32": "float32", "BF16": "bfloat16"}

// Bytes is the size of the folder with tensors as dtype, F32 or BF16.
func (f Folder) Bytes(tensors []safetensors.Tensor, dtype string) int64 {
	size := int64(map[string]int{"F32": 4, "BF16": 2}[dtype])
	var sum int64
	for _, t := range tensors {
		sum += size * int64(model.Elements(t.Shape))
	}
	for _, data := range f {
		sum += int64(len(data))
	}
	return sum
}

// filesKey is the metadata key of the SHA-256 of the files beside the weights, by name.
const filesKey = "grpo.files"

// Write writes the files and one file of weights into dir, which exists. tensors are those of
// [Config.Shapes], or of [Config.AdapterTensors], to be written as dtype, F32 or BF16. metadata
// goes into the safetensors file, with a checksum of it and of the other files: see [Verify].
func (f Folder) Write(dir, dtype string, tensors []safetensors.Tensor, metadata map[string]string) error {
	files, weights := maps.Clone(f), AdapterWeightsFile
	if f[AdapterConfigFile] == nil {
		weights = SingleFile
		if err := files.setDtype(dtype); err != nil {
			return err
		}
	}
	sums := map[string]string{}
	for name, data := range files {
		err := create(filepath.Join(dir, name), func(out *os.File) error { _, err := out.Write(data); return err })
		if err != nil {
			return err
		}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	text, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	all := map[string]string{"format": "pt", filesKey: string(text)} // transformers requires a format
	maps.Copy(all, metadata)
	for i := range tensors {
		tensors[i].Dtype = dtype
	}
	return create(filepath.Join(dir, weights), func(out *os.File) error {
		return safetensors.WriteChecksummed(out, tensors, all)
	})
}

// setDtype writes the type of the weights into config.json.
func (f Folder) setDtype(dtype string) error {
	return f.edit(configName, func(m map[string]any) {
		key := "torch_dtype" // transformers 4; version 5 reads both
		if m["dtype"] != nil {
			key = "dtype"
			delete(m, "torch_dtype")
		}
		m[key] = dtypes[dtype]
	})
}

func create(path string, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Verify compares a folder that [Folder.Write] wrote with its checksums, and returns its metadata.
func Verify(dir string) (map[string]string, error) {
	path := filepath.Join(dir, SingleFile)
	if IsAdapter(dir) {
		path = filepath.Join(dir, AdapterWeightsFile)
	}
	if err := regular.Check(path, 1<<40); err != nil {
		return nil, err
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var sums map[string]string
	if !f.Checksummed || json.Unmarshal([]byte(f.Metadata[filesKey]), &sums) != nil {
		return nil, fmt.Errorf("%s: it has lost its checksum", path)
	}
	for name, sum := range sums {
		data, err := regular.Read(filepath.Join(dir, filepath.Base(name)), regular.MaxDocument)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			err = fmt.Errorf("%s: it does not match its checksum in %s", filepath.Join(dir, name), filepath.Base(path))
		}
		if err != nil {
			return nil, err
		}
	}
	return f.Metadata, nil
}

// folderOfGGUF makes the files from the metadata of a GGUF file.
func folderOfGGUF(d tokenizerData, c *Config) (Folder, error) {
	out := Folder{}
	begin := int32(-1)
	if d.addBegin {
		begin = d.begin
	}
	var err error
	if out[tokenizerName], err = bpe.FileOfGGUF(d.bpe, begin); err != nil {
		return nil, fmt.Errorf("read GGUF: %w", err)
	}
	config, err := c.file()
	if err != nil {
		return nil, err
	}
	ids := map[string]any{}
	texts := map[string]any{"clean_up_tokenization_spaces": false}
	for key, id := range map[string]int32{"bos_token": d.begin, "pad_token": d.pad, "eos_token": d.ends[0]} {
		if id >= 0 {
			ids[key+"_id"], config[key+"_id"], texts[key] = id, id, d.bpe.Tokens[id]
		}
	}
	if d.template != "" {
		texts["chat_template"] = d.template
	}
	if data := bpe.SentencePieceFile(d.bpe); data != nil {
		out[sentencePieceName], texts["added_tokens_decoder"] = data, d.bpe.Added()
		if !d.bpe.SpacePrefix {
			texts["add_prefix_space"] = false
		}
	}
	all := map[string]any{configName: config, generationName: ids, tokenizerConfigName: texts}
	for name, v := range all {
		if out[name], err = toJSON(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// file is the config.json of a network, without its tokens.
func (c *Config) file() (map[string]any, error) {
	if c.Factors != nil {
		return nil, errors.New("its rotary factors (rope_freqs.weight) are not those of Llama 3, and config.json " +
			"has no other way to give factors")
	}
	arch, err := byName(c.Arch)
	if err != nil {
		return nil, err
	}
	m := map[string]any{
		"model_type": c.Arch, "vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.FFN,
		"num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads,
		"head_dim": c.HeadDim, "max_position_embeddings": c.Context, "rope_theta": c.RopeTheta, "rope_scaling": nil,
		"rms_norm_eps": c.NormEps, "hidden_act": "silu", "tie_word_embeddings": c.Tied, "attention_dropout": 0.0,
		"initializer_range": 0.02, "use_cache": true,
	}
	if r := c.Rope; r != nil {
		m["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": r.Factor,
			"low_freq_factor": r.LowFactor, "high_freq_factor": r.HighFactor,
			"original_max_position_embeddings": int(r.Original)}
	}
	if c.RopeFactor != 0 {
		m["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": c.RopeFactor}
	}
	if arch.file != nil {
		arch.file(c, m)
	}
	return m, nil
}
