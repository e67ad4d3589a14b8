package model

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"grpo/internal/textutil"
)

// SpecialToken is a token that begins or ends a text, and where that is said.
type SpecialToken struct {
	ID   int    `json:"id"`
	Text string `json:"token"`
	From string `json:"from"` // a file or a key, or a rule
}

// SpecialTokens say where the texts of a model begin and end.
type SpecialTokens struct {
	Begin []SpecialToken `json:"begin"` // are put before a text
	End   []SpecialToken `json:"end"`   // each ends a completion
	// Answer is put after an answer to train on; nil if nothing says which of the end tokens that is.
	Answer *SpecialToken `json:"answer"`
}

// ErrNoEnd reports a model whose completions can't end, ErrNoAnswerEnd one whose answers to train on can't.
var (
	ErrNoEnd = errors.New("the model names no end token, so no completion can end (add eos_token to " +
		"tokenizer_config.json, or to a GGUF file tokenizer.ggml.eos_token_id)")
	ErrNoAnswerEnd = errors.New("the model names several end tokens, and none that follows an answer (add " +
		"eos_token to tokenizer_config.json)")
)

// Check returns [ErrNoEnd] or nil.
func (s SpecialTokens) Check() error {
	if len(s.End) == 0 {
		return ErrNoEnd
	}
	return nil
}

// AnswerEnd returns the token that is put after an answer to train on, or what is missing.
func (s SpecialTokens) AnswerEnd() (int, error) {
	if s.Answer != nil {
		return s.Answer.ID, nil
	}
	if err := s.Check(); err != nil {
		return 0, err
	}
	return 0, ErrNoAnswerEnd
}

// Rows are a table of two columns: what special tokens are for, and which these are.
func (s SpecialTokens) Rows() [][]string {
	list := func(tokens ...SpecialToken) string {
		var names []string
		for _, t := range tokens {
			name := cmp.Or(textutil.Printable(t.Text, 0), "no text")
			names = append(names, fmt.Sprintf("%s (%d, from %s)", name, t.ID, t.From))
		}
		return cmp.Or(strings.Join(names, ", "), "none")
	}
	var answer []SpecialToken
	if s.Answer != nil {
		answer = append(answer, *s.Answer)
	}
	return [][]string{
		{"before a prompt", list(s.Begin...)},
		{"end of a completion", list(s.End...)},
		{"after an answer", list(answer...)},
	}
}
