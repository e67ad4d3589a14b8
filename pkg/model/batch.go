package model

import (
	"errors"
	"fmt"
)

// Row is one completion and the prompt that it continues.
type Row struct {
	Prompt int   // index into Batch.Prompts
	Tokens []int // the completion, with its end token if it has one; not empty
	// Kept restricts the distribution of each token to those that could be sampled; nil: none is.
	Kept []*Kept
}

// Batch is the input of a forward pass: distinct prompts, and completions that share them, so that
// a network can run each prompt once for its group.
type Batch struct {
	Prompts [][]int // token ids, each at least one
	Rows    []Row
}

// Check returns an error for a batch that a network with a vocabulary of vocab
// tokens can't run.
func (b *Batch) Check(vocab int) error {
	if len(b.Rows) == 0 || len(b.Prompts) == 0 {
		return fmt.Errorf("pack batch: %d prompts, %d completions: both are needed", len(b.Prompts), len(b.Rows))
	}
	for i, ids := range b.Prompts {
		if err := CheckTokens(ids, vocab); err != nil {
			return fmt.Errorf("pack batch: prompt %d: %w", i, err)
		}
	}
	for i, r := range b.Rows {
		if err := CheckTokens(r.Tokens, vocab); err != nil {
			return fmt.Errorf("pack batch: completion %d: %w", i, err)
		}
		if r.Prompt < 0 || r.Prompt >= len(b.Prompts) {
			return fmt.Errorf("pack batch: completion %d continues prompt %d of %d", i, r.Prompt, len(b.Prompts))
		}
		if r.Kept != nil && len(r.Kept) != len(r.Tokens) {
			return fmt.Errorf("pack batch: completion %d: %d sets of kept tokens for %d tokens", i, len(r.Kept), len(r.Tokens))
		}
	}
	return nil
}

// ErrKept reports a device that can't restrict distributions: see [Row.Kept].
var ErrKept = errors.New("log-probabilities of cut distributions are computed on the CPU only")

func (b *Batch) Size() BatchSize {
	s := BatchSize{Prompts: float64(len(b.Prompts)), Completions: float64(len(b.Rows))}
	for _, p := range b.Prompts {
		s.PromptTokens, s.LongestPrompt = s.PromptTokens+float64(len(p)), max(s.LongestPrompt, float64(len(p)))
	}
	for _, r := range b.Rows {
		s.Tokens, s.Longest = s.Tokens+float64(len(r.Tokens)), max(s.Longest, float64(len(r.Tokens)))
	}
	if len(b.Prompts) > 1 {
		s.Shared = float64(SharedPrefix(b.Prompts))
	}
	return s
}

// SharedPrefix is the number of tokens that all prompts begin with, without the last token of any.
func SharedPrefix(prompts [][]int) int {
	shared := len(prompts[0]) - 1
	for _, ids := range prompts[1:] {
		k := 0
		for k < min(shared, len(ids)-1) && ids[k] == prompts[0][k] {
			k++
		}
		shared = k
	}
	return shared
}

// CheckTokens returns an error unless there is at least one token and all are in
// the vocabulary.
func CheckTokens(tokens []int, vocab int) error {
	if len(tokens) == 0 {
		return errors.New("no tokens")
	}
	for t, id := range tokens {
		if id < 0 || id >= vocab {
			return fmt.Errorf("token %d is %d, outside the vocabulary of %d", t, id, vocab)
		}
	}
	return nil
}

// TokenMatrix is the input and output of an objective. All slices are (B,T), row-major: one row for
// each completion in the batch's order, one column for each token. Entries where Mask is false are
// undefined.
type TokenMatrix struct {
	B, T     int
	LogProbs []float64 // (B,T), of the tokens at the learner's temperature
	Entropy  []float64 // (B,T), nats
	Mask     []bool    // (B,T)

	// The objective writes its gradient here. The slices are zeroed before, and nil in a [Scorer]'s
	// matrix.
	DLogProbs []float64 // (B,T)
	DEntropy  []float64 // (B,T)
}

// Objective computes a scalar loss from log-probabilities and writes its gradient into the matrix.
// It connects pkg/rl to the network.
type Objective func(m *TokenMatrix) (loss float64, err error)

// ValueMatrix is a critic's output for a batch, in the layout of [TokenMatrix].
type ValueMatrix struct {
	B, T int
	// Values has V(s), (B,T), of the state s that the token is sampled from: the prompt and the
	// completion's earlier tokens. Column 0 is the value of the prompt alone; there is no value
	// after the last token.
	Values []float64
	Mask   []bool // (B,T)

	// The objective writes its gradient here. It is zeroed before, and nil in the matrix that
	// [Critic.Values] returns.
	DValues []float64 // (B,T)
}

// ValueObjective computes a scalar loss from values and writes its gradient
// into the matrix.
type ValueObjective func(m *ValueMatrix) (loss float64, err error)
