package decoder

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/hf/bpe"
	"grpo/pkg/model/kernel"
)

// Policy is a decoder with its tokenizer on a device. It implements [model.Policy].
type Policy struct {
	Tokenizer
	net *Network
	on  Backend // also of copies
}

// Open reads a checkpoint, a Hugging Face folder or a GGUF file, as a policy. Matmuls with its
// weights are in bf16 (operands only; weights and sums stay float32) or in float32.
func Open(path string, bf16 bool, on model.Device) (*Policy, error) {
	return open(path, bf16, on, func(c *hf.Checkpoint) (*Network, error) {
		n, err := Load(c)
		if err == nil && bf16 {
			n.useBF16()
		}
		return n, err
	})
}

// OpenLoRA is [Open] with frozen weights and new adapters, which are drawn from seed. With
// weights, of Hugging Face's names, it takes these instead of the checkpoint's.
func OpenLoRA(path string, bf16 bool, on model.Device, l hf.LoRA, seed uint64, weights *model.Params) (*Policy, error) {
	return open(path, bf16, on, func(c *hf.Checkpoint) (*Network, error) {
		read := c.ReadInto
		if weights != nil {
			_, shapes := c.Config.Shapes()
			read = func(name string, out []float32) error {
				for _, t := range weights.Tensors() {
					if t.Name == name && slices.Equal(t.Shape, shapes[name]) {
						copy(out, t.Data)
						return nil
					}
				}
				return fmt.Errorf("the weights for %s have no tensor %s of shape %v", path, name, shapes[name])
			}
		}
		return LoadLoRA(c.Config, bf16, on, l, seed, read)
	})
}

// LoadLoRA is a network of frozen weights, for a device, with new adapters, which are drawn from
// seed. read fills a tensor of a Hugging Face name.
func LoadLoRA(c *hf.Config, bf16 bool, on model.Device, l hf.LoRA, seed uint64,
	read func(name string, out []float32) error) (*Network, error) {
	_, isCPU := on.(*kernel.Pool)
	n, err := freeze(c, bf16, isCPU, read)
	if err == nil {
		n.attach(&l, newAdapters(c, l, seed))
	}
	return n, err
}

// New returns the policy of a network on a device.
func New(net *Network, t Tokenizer, on model.Device) *Policy { return &Policy{t, net, backendOf(on)} }

func open(path string, bf16 bool, on model.Device, load func(*hf.Checkpoint) (*Network, error)) (*Policy, error) {
	_, isCPU := on.(*kernel.Pool)
	if bf16 && isCPU && !kernel.HasBF16() {
		return nil, fmt.Errorf("open model: bf16 on the CPU needs the instructions AVX512_BF16 (AMD Zen 4, Intel "+
			"Cooper Lake or Sapphire Rapids, or later), which the kernel %s on this machine does not use: set "+
			"model.precision=float32", kernel.Name())
	}
	c, err := hf.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := backendOf(on).Check(c.Config); err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	if c.Config.Score {
		return nil, fmt.Errorf("open model %s: it is a reward model (a network for sequence classification), which has "+
			"no probabilities of tokens: name a language model", path)
	}
	net, err := load(c)
	if err != nil {
		return nil, err
	}
	return New(net, NewTokenizer(c), on), nil
}

// Params are all weights, or those of the adapters.
func (p *Policy) Params() *model.Params { return p.net.Params }

// FrozenHash is a checksum of the weights that [Policy.Params] leaves out; empty without.
func (p *Policy) FrozenHash() string {
	if p.net.LoRA == nil {
		return ""
	}
	return p.net.digest()
}

// NetworkHash is a checksum of what changes the results of a checkpoint besides its weights: the
// settings of the network that no weight shows, the end tokens and the tokenizer.
func (p *Policy) NetworkHash() string {
	c := p.net.Config
	text := fmt.Sprint(c.Heads, c.KVHeads, c.HeadDim, c.RopeTheta, c.Rope, c.Factors, c.NormEps, p.end, p.sum)
	if c.Slides() {
		text += fmt.Sprint(c.Window, c.Sliding)
	}
	if c.LocalTheta != 0 || c.RopeFactor != 0 || c.QueryScalar != 0 {
		text += fmt.Sprint(c.LocalTheta, c.Sliding, c.RopeFactor, c.QueryScalar)
	}
	if c.NoRope != nil {
		text += fmt.Sprint(c.NoRope)
	}
	if c.AttnSoftcap != 0 || c.FinalSoftcap != 0 {
		text += fmt.Sprint(c.AttnSoftcap, c.FinalSoftcap)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// Copy implements [model.Policy]. Under LoRA the copy has the same frozen weights, and
// the adapters only if they change something.
func (p *Policy) Copy() model.Policy {
	c := &Policy{Tokenizer: p.Tokenizer, on: p.on}
	if p.net.LoRA != nil && !p.net.adapted() {
		c.net = p.net.base()
	} else {
		c.net = p.net.with(p.net.Params.Clone())
	}
	return c
}

func (p *Policy) NewSampler() model.Sampler { return p.on.NewSampler(p.net, p.End()) }

func (p *Policy) NewLearner(temperature float64, checkpointing bool) (model.Learner, error) {
	return &learner{net: p.net, on: p.on, temperature: temperature, checkpointing: checkpointing,
		grads: p.net.gradients(p.net.Params.Zeros())}, nil
}

func (p *Policy) NewScorer(temperature float64) (model.Scorer, error) {
	return &scorer{net: p.net, on: p.on, temperature: temperature}, nil
}

func (p *Policy) NewCritic(o model.AdamWOptions, checkpointing bool) (model.Critic, error) {
	if err := p.net.Params.Pull(); err != nil {
		return nil, err
	}
	return newCritic(p.net, p.on, o, checkpointing), nil
}

func (p *Policy) Size() model.Size { return p.net.size() }

func (p *Policy) Context() int { return p.net.Config.Context }

// Tokenizer is a checkpoint's tokenizer as a [model.Tokenizer].
type Tokenizer struct {
	bpe        *bpe.Tokenizer
	sum        string // see [hf.Checkpoint]
	special    model.SpecialTokens
	start, end []int // of special
}

// NewTokenizer returns the tokenizer of a checkpoint.
func NewTokenizer(c *hf.Checkpoint) Tokenizer {
	t := Tokenizer{bpe: c.Tokenizer, sum: c.TokenizerSum, special: c.Special}
	for _, x := range c.Special.Begin {
		t.start = append(t.start, x.ID)
	}
	for _, x := range c.Special.End {
		t.end = append(t.end, x.ID)
	}
	return t
}

func wide(ids []int32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

func (t Tokenizer) Start() []int                 { return slices.Clone(t.start) }
func (t Tokenizer) Encode(text string) []int     { return wide(t.bpe.Encode(text)) }
func (t Tokenizer) End() []int                   { return t.end }
func (t Tokenizer) Special() model.SpecialTokens { return t.special }

func (t Tokenizer) EncodeAround(before, text, after string) []int {
	return wide(t.bpe.EncodeAround(before, text, after))
}

func (t Tokenizer) EncodeAfter(before []int, template, text string) []int {
	return wide(t.bpe.EncodeAfter(narrow(before), template, text))
}

func (t Tokenizer) Token(id int) (text string, special bool) {
	return t.bpe.DecodeAfter([]int32{int32(id)}, false), t.isSpecial(id)
}

func (t Tokenizer) isSpecial(id int) bool { return t.bpe.Special(int32(id)) || t.endsOnly(id) }

// endsOnly reports whether an id is an end token that no ordinary text has: it was added to the vocabulary,
// though not marked as special.
func (t Tokenizer) endsOnly(id int) bool { return slices.Contains(t.end, id) && t.bpe.Added(int32(id)) }

// firstSpecial is the first special token that occurs in text; empty for none.
func (t Tokenizer) firstSpecial(text string) string {
	ids := t.Encode(text)
	at := slices.IndexFunc(ids, t.isSpecial)
	if at < 0 {
		return ""
	}
	name, _ := t.Token(ids[at])
	return name
}

// SameTokens reports whether both tokenizers have the same tokens under the same ids.
func (t Tokenizer) SameTokens(o Tokenizer) bool { return t.bpe.SameTokens(o.bpe) }

// Knows is true: every byte that matters has a token.
func (t Tokenizer) Knows(string) bool { return true }

// Decode implements [model.Tokenizer]: special tokens have no text, nor have end tokens, which some
// files do not mark as special.
func (t Tokenizer) Decode(tokens []int) string {
	return t.bpe.DecodeAfter(narrow(slices.DeleteFunc(slices.Clone(tokens), t.endsOnly)), true)
}

// Size is the cost of a decoder. It implements [model.Size].
type Size struct {
	hf.Config
	BF16 bool     // the precision of matmuls
	LoRA *hf.LoRA // nil without
	GPU  bool     // the memory is the host's, beside a GPU that has the activations
}

func (n *Network) size() Size { return Size{Config: *n.Config, BF16: n.BF16, LoRA: n.LoRA} }

// trained is the number of trainable parameters.
func (s Size) trained() float64 {
	if s.LoRA == nil {
		return s.Parameters()
	}
	n := 0.0
	for _, m := range s.Modules() {
		if slices.Contains(s.LoRA.Targets, m.Name) {
			n += float64(float64(s.Layers) * float64(s.LoRA.Rank) * float64(m.In+m.Out))
		}
	}
	return n
}

// Parameters is the number of parameters; tied weights count once.
func (s Size) Parameters() float64 {
	layer := 0
	for _, p := range s.Block() {
		layer += model.Elements(p.Shape)
	}
	heads := 2
	if s.Tied {
		heads = 1
	}
	return float64(float64(s.Layers)*float64(layer)) + float64(heads*s.Vocab*s.Hidden+s.Hidden)
}

func (s Size) String() string {
	adapters := ""
	if s.LoRA != nil {
		adapters = fmt.Sprintf(" with LoRA adapters of %.1f million", s.trained()/1e6)
	}
	return fmt.Sprintf("%s network of %.1f million parameters (%d layers of %d)%s", s.Arch, s.Parameters()/1e6,
		s.Layers, s.Hidden, adapters)
}

// Forward implements [model.Size]. It leaves out attention's scores, which are few for
// short sequences.
func (s Size) Forward(inputs, predictions int) model.Work {
	head := float64(2 * float64(s.Vocab) * float64(s.Hidden))
	body := float64(2 * (s.Parameters() - float64(float64(s.Vocab)*float64(s.Hidden))))
	if !s.Tied {
		body -= head
	}
	w := float64(float64(inputs)*body) + float64(float64(predictions)*head)
	if s.LoRA == nil {
		return model.Work{Nominal: w, Executed: w}
	}
	all := w + float64(float64(inputs)*float64(2*s.trained()))
	return model.Work{Nominal: all, Executed: all, Frozen: w}
}
