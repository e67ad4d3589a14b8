package tinylm

import (
	"fmt"

	"grpo/pkg/model"
)

// Sampler runs TinyLM forward one token at a time, carrying the hidden state.
// A prompt is run once for all completions of its group, and a finished
// completion leaves its batch. A token's numbers depend on its own sequence
// only, never on which others share the batch or on the number of threads.
type Sampler struct {
	params *Weights
	Decoder
}

// NewSampler returns a sampler of p's weights. Call Refresh after they change.
func NewSampler(p *Weights, on model.Device) *Sampler {
	return &Sampler{p, backendOf(on).NewDecoder(p)}
}

// Sample implements [model.Sampler].
func (s *Sampler) Sample(prompts [][]int, group int, opt model.Sampling, draws model.Draws) ([]model.Completion, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if group < 1 {
		return nil, fmt.Errorf("sample: group size %d must be at least 1", group)
	}
	for i, ids := range prompts {
		if len(ids) == 0 {
			return nil, fmt.Errorf("sample: prompt %d has no tokens", i)
		}
		for t, id := range ids {
			if id < 0 || id >= s.params.Vocab {
				return nil, fmt.Errorf("sample: prompt %d: token %d is %d, outside the vocabulary of %d", i, t, id, s.params.Vocab)
			}
		}
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
	return out, s.Decode(out, prompts, group, opt, draws)
}
