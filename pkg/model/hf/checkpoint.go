package hf

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"grpo/internal/hubcache"
	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/pkg/model"
	"grpo/pkg/model/hf/bpe"
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
	out := make([]float32, model.Elements(c.shape(name)))
	return out, c.ReadInto(name, out)
}

// ReadInto is [Checkpoint.Read] into memory of the tensor's size.
func (c *Checkpoint) ReadInto(name string, out []float32) error {
	shape := c.shape(name)
	if shape == nil {
		return fmt.Errorf("read model %s: it has no tensor %s", c.Path, name)
	}
	if err := guarded(func() error { return c.read(name, shape, out) }); err != nil {
		return fmt.Errorf("read model %s: tensor %s: %w", c.Path, name, err)
	}
	if err := finite(out); err != nil {
		return fmt.Errorf("read model %s: tensor %s: %w", c.Path, name, err)
	}
	return nil
}

// shape is the shape of a tensor; nil if the network has none of this name.
func (c *Checkpoint) shape(name string) []int {
	if c.shapes == nil {
		_, c.shapes = c.Config.Shapes()
	}
	return c.shapes[name]
}

// finite returns an error that names the first element that is NaN or infinite.
func finite(x []float32) error {
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("element %d is %v", i, v)
		}
	}
	return nil
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

// imageToken is an added token of Gemma 3's tokenizer. The embeddings of its text models lack it.
const imageToken = "<image_soft_token>"

// fits compares the tokenizer with the embedding. An [imageToken] that the embedding lacks is plain text.
func (c *Checkpoint) fits() error {
	t, err := c.Tokenizer.Below(c.Config.Vocab)
	if n := c.Tokenizer.Size(); err == nil && n > c.Config.Vocab {
		if id, ok := c.Tokenizer.ID(imageToken); !ok || int(id) != c.Config.Vocab || int(id) != n-1 {
			err = fmt.Errorf("the tokenizer has %d tokens", n)
		}
	}
	if err != nil {
		return fmt.Errorf("%w, the embedding %d rows: they do not belong together", err, c.Config.Vocab)
	}
	c.Tokenizer = t
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
	eos := int32(-1)
	if f.End != "" {
		var ok bool
		if eos, ok = c.Tokenizer.ID(c.End); !ok {
			return fmt.Errorf("read %s: eos_token is %.40q, which is no token of tokenizer.json", from, c.End)
		}
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
