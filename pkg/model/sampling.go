package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/rng"
)

// Sampling is how tokens are chosen.
type Sampling struct {
	Temperature float64 // divides the logits; above 0, ignored when Greedy
	TopP        float64 // keep the smallest set of likeliest tokens of this mass; 1 = all
	TopK        int     // keep the k likeliest tokens; 0 = all
	MinTokens   int     // no end token is chosen before this many tokens
	MaxTokens   int     // a completion that reaches this many has not ended
	Greedy      bool    // the likeliest token, the lowest id on a tie
	Stop        *Stop   // ends completions beside end tokens; nil = none
	// Restricted: log-probabilities and entropies are those of the distribution that was sampled, over
	// the tokens that are not cut off, and Completion.Kept has these. On the CPU only.
	Restricted bool
	// Watch, if it is not nil, is told now and then how many tokens and ends of completions were sampled since
	// the last time, and how many tokens fewer than MaxTokens the ended completions have. Its error ends the call.
	Watch func(tokens, ended, spared int) error
}

// Watched tells Watch of complete completions.
func (o Sampling) Watched(completions []Completion) error {
	if o.Watch == nil {
		return nil
	}
	tokens := 0
	for _, c := range completions {
		tokens += len(c.Tokens)
	}
	return o.Watch(tokens, len(completions), len(completions)*o.MaxTokens-tokens)
}

// Ends reports whether a completion ends with its last token: with an end token, or at a text of Stop that is complete
// with a token after the first MinTokens.
func (o Sampling) Ends(tokens, end []int) bool {
	return slices.Contains(end, tokens[len(tokens)-1]) || len(tokens) > o.MinTokens && o.Stop.At(tokens)
}

// Complete reports whether a completion has ended or has MaxTokens tokens.
func (o Sampling) Complete(c Completion) bool { return c.Ended || len(c.Tokens) == o.MaxTokens }

// Cuts reports whether some tokens can't be sampled, whatever their probability.
func (o Sampling) Cuts() bool { return o.cutsAt(0) }

// cutsAt is Cuts for token t of a completion.
func (o Sampling) cutsAt(t int) bool {
	return !o.Greedy && (o.TopP < 1 || o.TopK > 0 || t < o.MinTokens)
}

// Check returns an error for invalid settings.
func (o Sampling) Check() error {
	switch {
	case !o.Greedy && !(o.Temperature > 0):
		return fmt.Errorf("sample: temperature %v must be above 0 (use greedy decoding for 0)", o.Temperature)
	case !(o.TopP > 0 && o.TopP <= 1):
		return fmt.Errorf("sample: top_p %v must be in (0, 1]", o.TopP)
	case o.TopK < 0:
		return fmt.Errorf("sample: top_k %d must not be negative", o.TopK)
	case o.MaxTokens < 1 || o.MinTokens < 0 || o.MinTokens > o.MaxTokens:
		return fmt.Errorf("sample: between %d and %d tokens: the limits must satisfy 0 <= min <= max, 1 <= max",
			o.MinTokens, o.MaxTokens)
	}
	return nil
}

// InverseTemperature is what multiplies the logits: 1 for greedy decoding.
func (o Sampling) InverseTemperature() float32 {
	if o.Greedy {
		return 1
	}
	return float32(1 / o.Temperature)
}

// CheckPrompts returns an error for settings, a group size or prompts that a sampler
// with a vocabulary of vocab tokens can't use.
func (o Sampling) CheckPrompts(prompts [][]int, group, vocab int) error {
	if err := o.Check(); err != nil {
		return err
	}
	if group < 1 {
		return fmt.Errorf("sample: group size %d must be at least 1", group)
	}
	for i, ids := range prompts {
		if err := CheckTokens(ids, vocab); err != nil {
			return fmt.Errorf("sample: prompt %d: %w", i, err)
		}
	}
	return nil
}

// Completion is a sampled continuation of a prompt.
type Completion struct {
	// Tokens end in an end token, or in one at which [Sampling.Stop] ends them, exactly when Ended.
	Tokens []int
	// LogProbs has one number for each token: those of softmax(logits/temperature)
	// over the whole vocabulary, without top-k, top-p or the minimum length; over the tokens of Kept
	// with [Sampling.Restricted]. A learner computes the same numbers.
	LogProbs []float32
	// Kept has the tokens that could be sampled at each place, with [Sampling.Restricted] and
	// [Sampling.Cuts]; else it is nil.
	Kept []*Kept
	// Entropies has those of the same distributions in nats, as a learner computes them; nil if
	// the sampler does not compute them (TinyLM's).
	Entropies []float32
	Ended     bool
	// KeptMass is the sum over the tokens of the probability, over the whole vocabulary, of those that
	// could be sampled at its place. It is 0 if [Sampling.Cuts] is false, and where a GPU chooses the tokens.
	KeptMass float64
}

// Draws are the uniform numbers in [0, 1) that select tokens, at one place of a counter-based
// stream, so that any thread or device can compute any of them.
type Draws struct {
	Stream  rng.Stream
	A, B, C uint32
}

// At is the number that selects a token of a sample of a prompt.
func (d Draws) At(prompt, sample, token int) float64 {
	return d.Stream.Float64(d.A, d.B+uint32(prompt), d.C+uint32(sample), uint32(token))
}

// Activity is what a command is doing, and how far it is.
type Activity struct {
	What     string // such as "sampling"
	Unit     string // what Done and Of count, in the singular, such as "completion"
	Done, Of int    // Of 0: it is not known how many
	Tokens   int    // sampled so far
	// Part is the share of the work that is done, 0 to 1: tokens of unfinished completions count too.
	Part float64
	From float64 // the share that took no time: completions that were there before
}

// Progress gets each change of what a command is doing, on the command's goroutine. It may be nil.
type Progress func(Activity)

// Do begins an activity of unknown length.
func (p Progress) Do(what string) { p.report(Activity{What: what}) }

// Count reports how many of something an activity has done.
func (p Progress) Count(what, unit string, done, of int) {
	p.report(Activity{What: what, Unit: unit, Done: done, Of: of, Part: float64(done) / float64(max(1, of))})
}

func (p Progress) report(a Activity) {
	if p != nil {
		p(a)
	}
}

// Watch returns a [Sampling.Watch] that reports the completions of calls that sample `of` of them, each of up to
// maxTokens tokens. stop, if it is not nil, gives the error that ends them.
func (p Progress) Watch(what string, of, maxTokens int, stop func() error) func(tokens, ended, spared int) error {
	a, done := Activity{What: what, Unit: "completion", Of: of}, 0
	p.report(a)
	return func(tokens, ended, spared int) error {
		a.Done, a.Tokens, done = a.Done+ended, a.Tokens+tokens, done+tokens+spared
		a.Part = float64(done) / (float64(of) * float64(maxTokens))
		if tokens == 0 {
			a.From += float64(spared) / (float64(of) * float64(maxTokens))
		}
		p.report(a)
		if stop == nil {
			return nil
		}
		return stop()
	}
}

// Stop ends completions at texts, as stop strings do in vLLM: with the token that completes one. The
// text stays in the completion. A nil Stop ends none.
type Stop struct {
	texts   []string
	longest int // bytes
	decode  func(tokens []int) string
}

// NewStop returns a Stop at any of the texts, none of which is empty, or nil if there are none. decode
// gives the text of a completion or of its last tokens; samplers call it in parallel.
func NewStop(texts []string, decode func(tokens []int) string) *Stop {
	if len(texts) == 0 {
		return nil
	}
	s := &Stop{texts: texts, decode: decode}
	for _, t := range texts {
		s.longest = max(s.longest, len(t))
	}
	return s
}

// ErrStop is the error of a sampler that ends completions at end tokens only.
var ErrStop = errors.New("a GPU ends TinyLM's completions at its end token only")

// At reports whether a text is complete with the last token of a completion.
func (s *Stop) At(tokens []int) bool {
	if s == nil {
		return false
	}
	// A text may begin longest - 1 bytes before the last token; tokens without text, such as special
	// ones, may lie between.
	n := len(tokens)
	last := len(s.decode(tokens[n-min(n, 1):]))
	for window := s.longest; ; window *= 2 {
		tail := s.decode(tokens[n-min(n, window):])
		if window >= n || len(tail) >= last+s.longest {
			return slices.ContainsFunc(s.texts, func(t string) bool {
				return strings.Contains(tail[max(0, len(tail)-last-len(t)+1):], t)
			})
		}
	}
}
