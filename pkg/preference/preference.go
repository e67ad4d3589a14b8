// Package preference has the file format of preference pairs: JSONL, one pair of completions of the
// same prompt per line, of which the first is preferred.
package preference

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// Text is a text or the turns of a conversation.
type Text struct {
	Plain string
	Turns []Message // nil for a text
}

// IsChat reports whether t has turns.
func (t Text) IsChat() bool { return t.Turns != nil }

func (t Text) equal(o Text) bool { return t.Plain == o.Plain && slices.Equal(t.Turns, o.Turns) }

// MarshalJSON writes a string or an array of turns.
func (t Text) MarshalJSON() ([]byte, error) {
	var v any = t.Plain
	if t.IsChat() {
		v = t.Turns
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keep "<<7+5=12>>" readable
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Pair is a prompt with a preferred and a dispreferred completion. Either all three are texts, or
// all are turns; the completions then have one turn, the assistant's.
type Pair struct {
	ID       string `json:"id,omitempty"`
	Prompt   Text   `json:"prompt"`
	Chosen   Text   `json:"chosen"`
	Rejected Text   `json:"rejected"`
	// Margin is by how much the chosen completion is better, such as a difference of rewards; nil if
	// it is not known.
	Margin *float64 `json:"margin,omitempty"`
	// A truncated completion was cut at the limit of its tokens: it has no end token.
	ChosenTruncated   bool `json:"chosen_truncated,omitempty"`
	RejectedTruncated bool `json:"rejected_truncated,omitempty"`

	Line int `json:"-"` // of the file, from 1; 0 for none
}
