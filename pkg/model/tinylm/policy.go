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

// New returns the policy of w's weights, which must have the tokenizer's
// vocabulary.
func New(w *Weights, on model.Device) *Policy { return &Policy{weights: w, on: on} }

// Weights are the policy's own.
func (p *Policy) Weights() *Weights { return p.weights }

func (p *Policy) Params() *model.Params { return p.weights.Params }
func (p *Policy) Copy() model.Policy    { return New(p.weights.Clone(), p.on) }

func (p *Policy) NewSampler() model.Sampler { return NewSampler(p.weights, p.on) }

func (p *Policy) NewLearner(temperature float64) (model.Learner, error) {
	return NewLearner(p.weights, temperature, p.on)
}

func (p *Policy) NewScorer(temperature float64) (model.Scorer, error) {
	return NewScorer(p.weights, temperature, p.on)
}

func (p *Policy) NewCritic(o model.AdamWOptions) (model.Critic, error) {
	return NewCritic(p.weights, o, p.on)
}

func (p *Policy) Size() model.Size { return p.weights.Spec }

// Tokenizer is package tokenizer as a [model.Tokenizer].
type Tokenizer struct{}

func (Tokenizer) Start() []int               { return []int{tokenizer.BOS} }
func (Tokenizer) Encode(text string) []int   { return tokenizer.Encode(text) }
func (Tokenizer) Decode(tokens []int) string { return tokenizer.Decode(tokens) }
func (Tokenizer) End() int                   { return tokenizer.EOS }

func (Tokenizer) Knows(text string) bool {
	return !slices.ContainsFunc([]rune(text), func(r rune) bool { return !tokenizer.Known(r) })
}
