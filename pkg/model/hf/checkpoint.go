package hf

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"grpo/internal/hubcache"
	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/pkg/model"
	"grpo/pkg/model/hf/bpe"
	"grpo/pkg/model/safetensors"
)

// Checkpoint is a model on disk: its shape, tokenizer, chat template and weights.
type Checkpoint struct {
	Path         string
	Config       *Config
	Tokenizer    *bpe.Tokenizer
	TokenizerSum string // SHA-256 of what the tokenizer was made from
	ChatTemplate string // Jinja; empty if there is none
	Begin, End   string // the bos_token and eos_token of chat templates; may be empty
	Special      model.SpecialTokens
	shapes       map[string][]int // by tensor, from the first Read on
	// read writes the elements of a tensor to out; shape is the one expected.
	read  func(name string, shape []int, out []float32) error
	close func() error
	files func() (Folder, error) // see [Checkpoint.Folder]
}

// Close releases the files.
func (c *Checkpoint) Close() error { return c.close() }

// Open opens a Hugging Face folder or a GGUF file. Weights are read by [Checkpoint.Read].
// Errors name the file and what is wrong with it.
func Open(path string) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	var c *Checkpoint
	err = guarded(func() (err error) {
		if info.IsDir() {
			c, err = openFolder(path)
		} else {
			c, err = openGGUF(path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	c.Path = path
	return c, nil
}

// Read returns a tensor by its Hugging Face name, row-major, with the shape that
// [Config.Shapes] gives.
func (c *Checkpoint) Read(name string) ([]float32, error) {
	if c.shapes == nil {
		_, c.shapes = c.Config.Shapes()
	}
	shape, ok := c.shapes[name]
	if !ok {
		return nil, fmt.Errorf("read model %s: it has no tensor %s", c.Path, name)
	}
	size := 1
	for _, d := range shape {
		size *= d
	}
	out := make([]float32, size)
	if err := guarded(func() error { return c.read(name, shape, out) }); err != nil {
		return nil, fmt.Errorf("read model %s: tensor %s: %w", c.Path, name, err)
	}
	for i, v := range out {
		if v-v != 0 { // NaN or infinite
			return nil, fmt.Errorf("read model %s: tensor %s: element %d is %v", c.Path, name, i, v)
		}
	}
	return out, nil
}

// guarded runs f, which reads files that are mapped into memory. If one of them is cut
// meanwhile, reading it is an error instead of the end of the program.
func guarded(f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
			err = errors.New("the file became shorter while it was read")
		}
	}()
	return f()
}

// at is the path to open for a file of a folder, which may be a snapshot in the Hugging Face cache.
func at(dir, name string) string { return hubcache.File(filepath.Join(dir, name)) }

// optional reads a file that a folder may lack.
func optional(dir, name string) ([]byte, error) {
	data, err := regular.Read(at(dir, name), regular.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func openFolder(dir string) (*Checkpoint, error) {
	c, err := OpenWeights(dir)
	if err != nil {
		return nil, err
	}
	data, err := regular.Read(at(dir, "tokenizer.json"), regular.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("a Hugging Face folder needs tokenizer.json: %w", err)
	}
	c.Tokenizer, c.TokenizerSum, err = shared(data, func() (*bpe.Tokenizer, error) { return bpe.Parse(data) })
	if err != nil {
		return nil, err
	}
	if err := c.fits(); err != nil {
		return nil, err
	}
	return c, c.readTokenizerConfig(dir)
}

// fits compares the tokenizer with the embedding.
func (c *Checkpoint) fits() error {
	if n := c.Tokenizer.Size(); n > c.Config.Vocab {
		return fmt.Errorf("the tokenizer has %d tokens, the embedding %d rows: they do not belong together", n, c.Config.Vocab)
	}
	return nil
}

// tokenizers are those that were made, by the SHA-256 of their data: making one takes a tenth
// of a second, and a model is opened more than once.
var tokenizers sync.Map

func shared(data []byte, parse func() (*bpe.Tokenizer, error)) (t *bpe.Tokenizer, sum string, err error) {
	sum = fmt.Sprintf("%x", sha256.Sum256(data))
	if t, ok := tokenizers.Load(sum); ok {
		return t.(*bpe.Tokenizer), sum, nil
	}
	if t, err = parse(); err == nil {
		tokenizers.Store(sum, t)
	}
	return t, sum, err
}

// tokenText is a token in tokenizer_config.json: its text, or an object with its content.
type tokenText string

func (t *tokenText) UnmarshalJSON(data []byte) error {
	var object struct{ Content string }
	if json.Unmarshal(data, (*string)(t)) == nil {
		return nil
	}
	err := json.Unmarshal(data, &object)
	*t = tokenText(object.Content)
	return err
}

// readTokenizerConfig reads the special tokens, of tokenizer_config.json and of the file that older
// versions of transformers wrote beside it, and the chat template, of chat_template.jinja or
// tokenizer_config.json.
func (c *Checkpoint) readTokenizerConfig(dir string) error {
	data, err := optional(dir, "chat_template.jinja")
	if err != nil {
		return err
	}
	c.ChatTemplate = string(data)
	var f struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
		Begin        tokenText       `json:"bos_token"`
		End          tokenText       `json:"eos_token"`
		Added        json.RawMessage `json:"added_tokens_decoder"`
	}
	from := tokenizerConfigName
	for _, name := range []string{tokenizerConfigName, specialTokensName} {
		if data, err = optional(dir, name); err != nil {
			return err
		}
		if data == nil || name == specialTokensName && f.Added != nil {
			continue
		}
		end := f.End
		if err := jsonkeys.Decode(data, &f); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if f.End != end {
			from = name
		}
	}
	c.Begin, c.End = string(f.Begin), string(f.End)
	if err := c.readTemplate(f.ChatTemplate); err != nil {
		return err
	}
	eos, err := c.tokenOf(f.End, from, "eos_token")
	if err != nil {
		return err
	}
	return c.special(eos, from, tokenizerName)
}

// readTemplate reads the chat template of tokenizer_config.json, unless there is one already.
func (c *Checkpoint) readTemplate(data json.RawMessage) error {
	if c.ChatTemplate != "" || len(data) == 0 || json.Unmarshal(data, &c.ChatTemplate) == nil {
		return nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(data, &named); err != nil {
		return fmt.Errorf("read tokenizer_config.json: chat_template is neither a template nor a list of them")
	}
	for _, t := range named {
		if t.Name == "default" {
			c.ChatTemplate = t.Template
		}
	}
	return nil
}

// shards are the safetensors files of a folder. The one read last stays mapped into
// memory, because tensors are read in the order of the network.
type shards struct {
	dir    string
	fileOf map[string]string // by tensor; nil for a single file
	name   string
	file   *safetensors.Reader
	unmap  func() error
	shapes map[string][]int // of the tensors in it
}

const singleFile, indexFile = "model.safetensors", "model.safetensors.index.json"

// maxShard is the largest size of a file of weights, in bytes.
const maxShard = 1 << 40

// check reads the headers of all files and compares their tensors with those of the
// index and of the network.
func (s *shards) check(c *Config) error {
	files := []string{singleFile}
	if s.fileOf != nil {
		files = slices.Compact(slices.Sorted(maps.Values(s.fileOf)))
	}
	found := map[string][]int{}
	for _, file := range files {
		path := at(s.dir, file)
		if err := regular.Check(path, maxShard); err != nil {
			return fmt.Errorf("%s lists a file that can't be read: %w (is the download complete?)", indexFile, err)
		}
		header, err := safetensors.ReadHeader(path)
		if err != nil {
			return err
		}
		for _, t := range header.Tensors {
			if other, listed := s.fileOf[t.Name]; listed && other != file {
				return fmt.Errorf("files overlap: tensor %.80q is in %s, and %s says that it is in %s", t.Name, file, indexFile, other)
			}
			found[t.Name] = t.Shape
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.fileOf)) {
		if _, ok := found[name]; !ok {
			return fmt.Errorf("%s says that tensor %.80q is in %s, but it is not", indexFile, name, s.fileOf[name])
		}
	}
	return c.checkShapes(found)
}

// checkShapes compares the tensors of a checkpoint, by their Hugging Face names, with
// those of the network. Tensors of layers that the network does not have, such as a bias,
// are an error: without them it would be another network. Old checkpoints of Llama list
// their rotary frequencies.
func (c *Config) checkShapes(found map[string][]int) error {
	names, shapes := c.Shapes()
	for _, name := range names {
		switch shape, ok := found[name]; {
		case !ok:
			return fmt.Errorf("tensor %s is missing", name)
		case !slices.Equal(shape, shapes[name]):
			return fmt.Errorf("tensor %s has shape %v; the configuration asks for %v", name, shape, shapes[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		layer := strings.HasPrefix(name, "model.layers.") || strings.HasPrefix(name, "blk.")
		if _, ok := shapes[name]; !ok && layer && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			return fmt.Errorf("tensor %.80q has no place in the configuration's network (%s, num_hidden_layers %d)", name, c.Arch, c.Layers)
		}
	}
	return nil
}

func newShards(dir string) (*shards, error) {
	data, err := optional(dir, indexFile)
	if err != nil {
		return nil, err
	}
	if data == nil {
		if err := regular.Check(at(dir, singleFile), maxShard); err != nil {
			return nil, fmt.Errorf("a Hugging Face folder needs %s or %s: %w", singleFile, indexFile, err)
		}
		return &shards{dir: dir}, nil
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := jsonkeys.Decode(data, &index); err != nil {
		return nil, fmt.Errorf("read %s: %w", indexFile, err)
	}
	for tensor, file := range index.WeightMap {
		if file == "" || file != filepath.Base(file) || strings.ContainsAny(file, `/\`) {
			return nil, fmt.Errorf("read %s: tensor %.80q is in %.80q, which is not a file of the folder", indexFile, tensor, file)
		}
	}
	return &shards{dir: dir, fileOf: index.WeightMap}, nil
}

func (s *shards) read(name string, shape []int, out []float32) error {
	file := singleFile
	if s.fileOf != nil {
		var ok bool
		if file, ok = s.fileOf[name]; !ok {
			return fmt.Errorf("%s does not list it", indexFile)
		}
	}
	if s.name != file {
		if err := s.close(); err != nil {
			return err
		}
		path := at(s.dir, file)
		data, unmap, err := mapFile(path, regular.Open)
		if err != nil {
			return err
		}
		s.unmap = unmap
		f, err := safetensors.NewReader(path, bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		s.name, s.file, s.shapes = file, f, make(map[string][]int, len(f.Tensors))
		for _, t := range f.Tensors {
			s.shapes[t.Name] = t.Shape
		}
	}
	found, ok := s.shapes[name]
	if !ok {
		return fmt.Errorf("it is not in %s", file)
	}
	if !slices.Equal(found, shape) {
		return fmt.Errorf("its shape is %v, want %v", found, shape)
	}
	return s.file.Into(name, out)
}

func (s *shards) close() (err error) {
	if s.unmap != nil {
		err = s.unmap()
	}
	s.name, s.file, s.unmap = "", nil, nil
	return err
}

// OpenWeights opens a Hugging Face folder for its configuration and weights only.
func OpenWeights(dir string) (*Checkpoint, error) {
	config, err := regular.Read(at(dir, "config.json"), regular.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("a Hugging Face folder needs config.json: %w", err)
	}
	generation, err := optional(dir, "generation_config.json")
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: dir, files: func() (Folder, error) { return copyFolder(dir) }}
	if c.Config, err = ParseConfig(config, generation); err != nil {
		return nil, err
	}
	shards, err := newShards(dir)
	if err != nil {
		return nil, err
	}
	if err := shards.check(c.Config); err != nil {
		return nil, err
	}
	c.read, c.close = shards.read, shards.close
	return c, nil
}
