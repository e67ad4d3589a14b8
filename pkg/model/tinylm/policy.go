package tinylm

import (
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/tinylm/tokenizer"
)

// Policy is a TinyLM on a device. It implements [model.Policy].
type Policy struct {
	Tokenizer
	weights *Weights
	on      model.Device
}

// New returns the policy of w's weights, which must have the tokenizer's vocabulary.
func New(w *Weights, on model.Device) *Policy { return &Policy{weights: w, on: on} }

func (p *Policy) Params() *model.Params { return p.weights.Params }
func (p *Policy) Copy() model.Policy    { return New(p.weights.Clone(), p.on) }

func (p *Policy) NewSampler() model.Sampler { return NewSampler(p.weights, p.on) }

func (p *Policy) NewLearner(temperature float64, checkpointing bool) (model.Learner, error) {
	if checkpointing {
		return nil, model.ErrCheckpointing
	}
	return NewLearner(p.weights, temperature, p.on)
}

func (p *Policy) NewScorer(temperature float64) (model.Scorer, error) {
	return NewScorer(p.weights, temperature, p.on)
}

func (p *Policy) NewCritic(o model.AdamWOptions, checkpointing bool) (model.Critic, error) {
	if checkpointing {
		return nil, model.ErrCheckpointing
	}
	return NewCritic(p.weights, o, p.on)
}

func (p *Policy) Size() model.Size { return p.weights.Spec }

// Context implements [model.Policy]: a recurrent network has no limit.
func (p *Policy) Context() int { return 0 }

// Tokenizer is package tokenizer as a [model.Tokenizer].
type Tokenizer struct{}

func (Tokenizer) Start() []int               { return []int{tokenizer.BOS} }
func (Tokenizer) Encode(text string) []int   { return tokenizer.Encode(text) }
func (Tokenizer) Decode(tokens []int) string { return tokenizer.Decode(tokens) }
func (Tokenizer) End() []int                 { return []int{tokenizer.EOS} }

func (Tokenizer) Special() model.SpecialTokens {
	const from = "TinyLM's vocabulary"
	end := model.SpecialToken{ID: tokenizer.EOS, Text: "<eos>", From: from}
	return model.SpecialTokens{
		Begin: []model.SpecialToken{{ID: tokenizer.BOS, Text: "<bos>", From: from}},
		End:   []model.SpecialToken{end}, Answer: &end,
	}
}

// EncodeAround implements [model.Tokenizer]: no text is a special token.
func (Tokenizer) EncodeAround(before, text, after string) []int {
	return tokenizer.Encode(before + text + after)
}

func (Tokenizer) EncodeAfter(_ []int, template, text string) []int {
	return tokenizer.Encode(template + text)
}

func (Tokenizer) Token(id int) (text string, special bool) {
	switch id {
	case tokenizer.Pad:
		return "<pad>", true
	case tokenizer.BOS:
		return "<bos>", true
	case tokenizer.EOS:
		return "<eos>", true
	case tokenizer.Unk:
		return "<unk>", true
	}
	return tokenizer.Decode([]int{id}), false
}

func (Tokenizer) Knows(text string) bool {
	return !slices.ContainsFunc([]rune(text), func(r rune) bool { return !tokenizer.Known(r) })
}

// Sampler runs TinyLM forward one token at a time. It runs a prompt once for all completions of its
// group, and removes finished completions from the batch. A token's numbers depend on its own
// sequence only, never on the rest of the batch or on the number of threads.
type Sampler struct {
	params *Weights
	Decoder
}

// NewSampler returns a sampler of p's weights. Call Refresh after they change.
func NewSampler(p *Weights, on model.Device) *Sampler {
	return &Sampler{p, backendOf(on).NewDecoder(p)}
}

// Sample implements [model.Sampler].
func (s *Sampler) Sample(prompts [][]int, group int, opt model.Sampling,
	draws model.Draws) ([]model.Completion, error) {
	if err := opt.CheckPrompts(prompts, group, s.params.Vocab); err != nil {
		return nil, err
	}
	n := len(prompts) * group
	out := make([]model.Completion, n)
	tokens, logps := make([]int, n*opt.MaxTokens), make([]float32, n*opt.MaxTokens)
	for i := range out {
		lo, hi := i*opt.MaxTokens, (i+1)*opt.MaxTokens
		out[i].Tokens, out[i].LogProbs = tokens[lo:lo:hi], logps[lo:lo:hi]
	}
	if n == 0 {
		return out, nil
	}
	if err := s.Decode(out, prompts, group, opt, draws); err != nil {
		return nil, err
	}
	return out, opt.Watched(out)
}
