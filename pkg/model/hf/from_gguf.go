package hf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/model/hf/bpe"
	"grpo/pkg/model/hf/gguf"
)

func openGGUF(path string) (*Checkpoint, error) {
	data, unmap, err := mapFile(path, regular.Named)
	if err != nil {
		return nil, err
	}
	c, err := newGGUF(data)
	if err != nil {
		unmap()
		return nil, err
	}
	c.close = unmap
	return c, nil
}

func newGGUF(data []byte) (*Checkpoint, error) {
	f, err := gguf.Parse(data)
	if err != nil {
		return nil, err
	}
	c, err := ofGGUF(f)
	if err != nil {
		return nil, err
	}
	found, ggufName := map[string][]int{}, map[string]string{}
	for name, t := range f.Tensors {
		found[name] = t.Shape
	}
	for _, want := range c.Config.Tensors() {
		ggufName[want.Name] = want.GGUF
		if t, ok := f.Tensors[want.GGUF]; ok {
			delete(found, want.GGUF)
			found[want.Name] = t.Shape
		}
	}
	c.read = func(name string, shape []int, out []float32) error {
		return readGGUF(f, c.Config, name, ggufName[name], shape, out)
	}
	return c, c.Config.checkShapes(found)
}

// ofGGUF reads the configuration and the tokenizer.
func ofGGUF(f *gguf.File) (*Checkpoint, error) {
	config, err := configOfGGUF(f)
	if err != nil {
		return nil, err
	}
	d, err := ggufTokenizer(f)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Config: config, ChatTemplate: d.template}
	c.files = func() (Folder, error) { return folderOfGGUF(d, config) }
	c.Tokenizer, c.TokenizerSum, err = shared(f.Header, d.tokenizer)
	if err != nil {
		return nil, err
	}
	if err := c.fits(); err != nil {
		return nil, err
	}
	beginFrom := addBeginKey
	switch {
	case d.addByDefault && d.bpe.Model == spmModel:
		beginFrom = "its tokenizer, " + spmModel
	case d.addByDefault:
		beginFrom = "its pre-tokenizer, " + d.bpe.Pre
		c.TokenizerSum += "+begin" // earlier revisions put no begin token before a text of such a model
	}
	for i, id := range d.ends {
		if id >= 0 {
			config.addEnd(id, endKeys[i])
		}
	}
	config.Pad = d.pad
	text := func(id int32) string { return c.Tokenizer.Decode([]int32{id}, false) }
	c.Begin, c.End = text(d.begin), text(d.ends[0])
	return c, c.special(d.ends[0], endKeys[0], beginFrom)
}

// readGGUF reads a tensor by its names in Hugging Face folders and in the file.
func readGGUF(f *gguf.File, c *Config, name, inFile string, shape []int, out []float32) error {
	t, ok := f.Tensors[inFile]
	if !ok {
		return fmt.Errorf("the file has no tensor %s", inFile)
	}
	if !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("the shape of %s is %v, want %v", inFile, t.Shape, shape)
	}
	t.Float32(out)
	if c.OffsetNorms && strings.HasSuffix(name, "norm.weight") {
		for i := range out {
			out[i]-- // the file has the scale
		}
	}
	if permuted(c.Arch, name) {
		unpermute(out, shape[0], len(out)/shape[0], c.HeadDim)
	}
	return nil
}

// Keys of the metadata. A completion ends at the tokens of endKeys: the end of a text, of a turn and of a
// message to a tool.
var endKeys = [3]string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}

// spmModel is SentencePiece-style BPE as tokenizer.ggml.model.
const spmModel = "llama"

const addBeginKey = "tokenizer.ggml.add_bos_token"

// tokenizerData is what a GGUF file says of its tokenizer. Tokens are -1 where it says nothing.
type tokenizerData struct {
	bpe          bpe.GGUF
	begin, pad   int32
	ends         [3]int32 // of endKeys
	addBegin     bool     // before every text
	addByDefault bool     // addBegin is the tokenizer's or pre-tokenizer's default
	template     string
}

func ggufTokenizer(f *gguf.File) (d tokenizerData, err error) {
	m := metadata{f: f}
	d.bpe.Model = get(&m, "tokenizer.ggml.model", "")
	spm := d.bpe.Model == spmModel
	if m.err == nil && !spm && d.bpe.Model != "gpt2" {
		return d, fmt.Errorf("read GGUF: tokenizer %.40q is not supported; supported are byte-level BPE (gpt2) and "+
			"SentencePiece-style BPE (llama), not unigram (t5)", d.bpe.Model)
	}
	d.bpe.Tokens = array(&m, "tokenizer.ggml.tokens", gguf.Array.Strings)
	d.bpe.Types = array(&m, "tokenizer.ggml.token_type", gguf.Array.Ints)
	if spm {
		d.bpe.Scores = array(&m, "tokenizer.ggml.scores", gguf.Array.Floats)
		d.bpe.SpacePrefix = get(&m, "tokenizer.ggml.add_space_prefix", true)
	} else {
		d.bpe.Merges = array(&m, "tokenizer.ggml.merges", gguf.Array.Strings)
		d.bpe.Pre = get(&m, "tokenizer.ggml.pre", "")
	}
	d.template = get(&m, "tokenizer.chat_template", "")
	token := func(key string) int32 {
		id := m.integer(key, -1)
		if id < -1 || id >= len(d.bpe.Tokens) || id < 0 && f.Metadata[key] != nil {
			m.fail("%s is %v, and there are %d tokens", key, f.Metadata[key], len(d.bpe.Tokens))
			return -1
		}
		return int32(id)
	}
	d.begin, d.pad = token("tokenizer.ggml.bos_token_id"), token("tokenizer.ggml.padding_token_id")
	for i, key := range endKeys {
		d.ends[i] = token(key)
	}
	// As in llama.cpp; its converter omits the key for Llama 3.
	byDefault := d.begin >= 0 && d.bpe.Begins()
	d.addBegin = get(&m, addBeginKey, byDefault)
	d.addByDefault = byDefault && f.Metadata[addBeginKey] == nil
	if d.addBegin && d.begin < 0 {
		m.fail("%s is true, but there is no tokenizer.ggml.bos_token_id", addBeginKey)
	}
	return d, m.err
}

// tokenizer makes the tokenizer. The name of its pre-tokenizer selects a pattern; an unknown name is an error.
func (d tokenizerData) tokenizer() (*bpe.Tokenizer, error) {
	t, err := bpe.FromGGUF(d.bpe)
	if err != nil {
		return nil, fmt.Errorf("read GGUF: %w", err)
	}
	if d.addBegin {
		t.SetBegin(d.begin)
	}
	return t, nil
}

// metadata reads the values of a file, and keeps the first error.
type metadata struct {
	f   *gguf.File
	err error
}

func (m *metadata) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("read GGUF: "+format, args...)
	}
}

// get is the value of a key; without the key it is fallback. A value of another type is an error.
func get[T any](m *metadata, key string, fallback T) T {
	v, ok := m.f.Metadata[key]
	if !ok {
		return fallback
	}
	x, ok := v.(T)
	if !ok {
		m.fail("%s is of type %T, want %T", key, v, fallback)
	}
	return x
}

// array is the elements of an array; nil without the key.
func array[T any](m *metadata, key string, elements func(gguf.Array) ([]T, error)) []T {
	if m.f.Metadata[key] == nil {
		return nil
	}
	out, err := elements(get(m, key, gguf.Array{}))
	if err != nil {
		m.fail("%s: %w", key, err)
	}
	return out
}

// number is a number of any type; without the key it is fallback, and NaN as fallback makes that an error.
func (m *metadata) number(key string, fallback float64) float64 {
	switch v := m.f.Metadata[key].(type) {
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	case nil:
		if math.IsNaN(fallback) {
			m.fail("no metadata %s", key)
		}
		return fallback
	default:
		m.fail("%s is of type %T, want a number", key, v)
		return fallback
	}
}

// integer is [metadata.number] without a fraction.
func (m *metadata) integer(key string, fallback float64) int {
	x := m.number(key, fallback)
	if m.err == nil && (x != math.Trunc(x) || math.Abs(x) > 1<<53) {
		m.fail("%s is %v, want an integer", key, x)
	}
	if m.err != nil {
		return 0
	}
	return int(x)
}

// configOfGGUF reads the metadata of a GGUF file.
func configOfGGUF(f *gguf.File) (*Config, error) {
	m := &metadata{f: f}
	name := get(m, "general.architecture", "")
	if m.err != nil {
		return nil, m.err
	}
	arch, err := byName(name)
	if err != nil {
		return nil, err
	}
	if n := m.integer("split.count", 1); n > 1 {
		return nil, fmt.Errorf("read GGUF: it is one of %d parts of a file (join them with llama-gguf-split --merge)", n)
	}
	need := math.NaN()
	c := arch.new()
	c.Hidden, c.FFN = m.integer(name+".embedding_length", need), m.integer(name+".feed_forward_length", need)
	c.Layers, c.Heads = m.integer(name+".block_count", need), m.integer(name+".attention.head_count", need)
	c.Context, c.RopeTheta = m.integer(name+".context_length", need), m.number(name+".rope.freq_base", 10000)
	c.NormEps = m.number(name+".attention.layer_norm_rms_epsilon", need)
	c.KVHeads = m.integer(name+".attention.head_count_kv", float64(c.Heads))
	c.HeadDim = m.integer(name+".attention.key_length", math.Trunc(float64(c.Hidden)/math.Max(1, float64(c.Heads))))
	switch kind := get(m, name+".rope.scaling.type", "linear"); kind { // llama.cpp's defaults
	case "none", "":
	case "linear":
		c.RopeFactor = m.number(name+".rope.scaling.factor", m.number(name+".rope.scale_linear", 0))
	default:
		m.fail("rope scaling %.40q is not supported; supported are none and linear", kind)
	}
	if m.number(name+".expert_count", 0) != 0 {
		m.fail("mixtures of experts (%s.expert_count) are not supported", name)
	}
	if arch.metadata != nil {
		arch.metadata(m, c)
	}
	if m.err != nil {
		return nil, m.err
	}
	if embedding, ok := f.Tensors["token_embd.weight"]; ok {
		c.Vocab = embedding.Shape[0]
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if t, ok := f.Tensors["rope_freqs.weight"]; ok { // Llama 3's scaling
		if n := t.Size(); n != c.HeadDim/2 {
			return nil, fmt.Errorf("read GGUF: rope_freqs.weight has %d factors, want %d", n, c.HeadDim/2)
		}
		c.Factors = make([]float32, t.Size())
		t.Float32(c.Factors)
		if c.Rope = c.llama3Factors(); c.Rope != nil {
			c.Factors = nil
		}
	}
	_, head := f.Tensors["output.weight"]
	c.Tied = !head
	return c, c.check()
}
