package model

import (
	"errors"
	"slices"
	"strings"
)

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
