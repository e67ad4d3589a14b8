package model

import (
	"fmt"

	"grpo/pkg/rng"
)

// Sampling says how tokens are chosen.
type Sampling struct {
	Temperature float64 // divides the logits; above 0, ignored when Greedy
	TopP        float64 // keep the smallest set of likeliest tokens of this mass; 1 = all
	TopK        int     // keep the k likeliest tokens; 0 = all
	MinTokens   int     // <eos> is not chosen before this many tokens stand
	MaxTokens   int     // a completion that reaches this many has not ended
	Greedy      bool    // the likeliest token, the lowest id on a tie
}

func (o Sampling) check() error {
	switch {
	case !o.Greedy && !(o.Temperature > 0):
		return fmt.Errorf("sample: temperature %v must be above 0 (use greedy decoding for 0)", o.Temperature)
	case !(o.TopP > 0 && o.TopP <= 1):
		return fmt.Errorf("sample: top_p %v must be in (0, 1]", o.TopP)
	case o.TopK < 0:
		return fmt.Errorf("sample: top_k %d must not be negative", o.TopK)
	case o.MaxTokens < 1 || o.MinTokens < 0 || o.MinTokens > o.MaxTokens:
		return fmt.Errorf("sample: between %d and %d tokens: the limits must satisfy 0 <= min <= max, 1 <= max", o.MinTokens, o.MaxTokens)
	}
	return nil
}

// Completion is a sampled continuation of a prompt.
type Completion struct {
	// Tokens end in <eos> exactly when Ended.
	Tokens []int
	// LogProbs are those of softmax(logits/temperature) over the whole
	// vocabulary, whatever top-k, top-p and the minimum length left out: the
	// graph computes the same numbers.
	LogProbs []float32
	Ended    bool
}

// Draw returns the uniform number in [0, 1) that decides a token. It is called
// concurrently and must be a pure function of its arguments.
type Draw func(prompt, sample, token int) float64

// Draws are the numbers of a place in a counter-based stream, which a device can
// compute itself: token t of sample s of prompt p is decided by
// Stream.Float64(A, B+p, C+s, t).
type Draws struct {
	Stream  rng.Stream
	A, B, C uint32
}

// At is a [Draw].
func (d Draws) At(prompt, sample, token int) float64 {
	return d.Stream.Float64(d.A, d.B+uint32(prompt), d.C+uint32(sample), uint32(token))
}

// Sampler runs TinyLM forward one token at a time, carrying the hidden state.
// A prompt is run once for all completions of its group, and a finished
// completion leaves its batch. A token's numbers depend on its own sequence
// only, never on which others share the batch or on the number of threads.
type Sampler struct {
	params *Params
	decoder
}

// decoder is a device's part of a [Sampler].
type decoder interface {
	// Refresh reads the weights again.
	Refresh()
	// decode fills out, group completions of each prompt: room for the tokens
	// and log-probabilities stands there. The numbers come from draw, or from
	// draws where that is nil.
	decode(out []Completion, prompts [][]int, group int, opt Sampling, draw Draw, draws Draws) error
	// Close frees what a device keeps for the sampler.
	Close()
}

// NewSampler returns a sampler of p's weights. Call Refresh after they change.
func NewSampler(p *Params, on Device) *Sampler { return &Sampler{p, backendOf(on).decoder(p)} }

// Sample returns group completions of each prompt: those of prompt i are at
// i·group to (i+1)·group. Greedy decoding needs no draw.
func (s *Sampler) Sample(prompts [][]int, group int, opt Sampling, draw Draw) ([]Completion, error) {
	if draw == nil {
		draw = func(int, int, int) float64 { return 0 }
	}
	return s.sample(prompts, group, opt, draw, Draws{})
}

// SampleFrom is Sample with the numbers of a stream.
func (s *Sampler) SampleFrom(prompts [][]int, group int, opt Sampling, draws Draws) ([]Completion, error) {
	return s.sample(prompts, group, opt, nil, draws)
}

func (s *Sampler) sample(prompts [][]int, group int, opt Sampling, draw Draw, draws Draws) ([]Completion, error) {
	if err := opt.check(); err != nil {
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
	out := make([]Completion, n)
	tokens, logps := make([]int, n*opt.MaxTokens), make([]float32, n*opt.MaxTokens)
	for i := range out {
		lo, hi := i*opt.MaxTokens, (i+1)*opt.MaxTokens
		out[i].Tokens, out[i].LogProbs = tokens[lo:lo:hi], logps[lo:lo:hi]
	}
	if n == 0 {
		return out, nil
	}
	return out, s.decode(out, prompts, group, opt, draw, draws)
}
