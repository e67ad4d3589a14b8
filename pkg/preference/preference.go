// Package preference has the file format of preference pairs: JSONL, one pair of completions of the
// same prompt per line, of which the first is preferred.
package preference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"grpo/internal/jsonl"
	"grpo/internal/regular"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
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

// Errors of pairs that teach nothing, whatever the model. [Report] counts them.
var (
	ErrIdentical = errors.New("chosen and rejected are identical")
	ErrEmpty     = errors.New("is empty")
)

// maxPairs bounds the pairs of a file.
const maxPairs = 1 << 22

// Report counts the lines of a file. Lines = Pairs + Skipped.
type Report struct {
	Lines     int    `json:"lines"` // that are not blank
	Pairs     int    `json:"pairs"` // valid
	Skipped   int    `json:"skipped"`
	Identical int    `json:"identical"`           // of Skipped, pairs of two equal completions
	Empty     int    `json:"empty"`               // of Skipped, with an empty prompt or completion
	FirstBad  string `json:"first_bad,omitempty"` // the first skipped line: "line 12: reason"
}

// ReadFile reads the pairs in a file that the user named: see [Read]. The error of a missing file
// wraps [fs.ErrNotExist].
func ReadFile(path string, skipBad bool) ([]Pair, Report, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, Report{}, fmt.Errorf("read pairs: %w", err)
	}
	defer f.Close()
	return Read(f, path, skipBad)
}

// Read reads pairs, one JSON object per line, with the fields of [Pair]. Instead of a prompt, chosen
// and rejected may be whole conversations: the turns that they begin with alike are then the prompt,
// as in TRL. Other fields and blank lines are ignored. name is that of the file in errors.
//
// An invalid line is an error with its number and the reason, or counted and left out if skipBad
// is true. A file without a valid line is always an error.
func Read(r io.Reader, name string, skipBad bool) (pairs []Pair, report Report, err error) {
	lines := jsonl.NewReader(r, jsonl.MaxLine)
	for {
		text, bad, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF) && report.Lines == 0:
			return nil, report, fmt.Errorf("read pairs: %s: the file has no pairs", name)
		case errors.Is(err, io.EOF) && len(pairs) == 0:
			return nil, report, fmt.Errorf("read pairs: %s: all of its %d lines are invalid; the first: %s",
				name, report.Lines, report.FirstBad)
		case errors.Is(err, io.EOF):
			return pairs, report, nil
		case err != nil:
			return nil, report, fmt.Errorf("read pairs: %s: %w", name, err)
		case len(pairs) == maxPairs:
			return nil, report, fmt.Errorf("read pairs: %s: line %d: more than %d pairs (split the file)", name, lines.Line,
				maxPairs)
		}
		report.Lines++
		var p Pair
		if bad == nil {
			p, bad = parse(text)
		}
		if bad == nil {
			p.Line = lines.Line
			pairs = append(pairs, p)
			report.Pairs++
			continue
		}
		bad = fmt.Errorf("line %d: %w", lines.Line, bad)
		if !skipBad {
			return nil, report, fmt.Errorf("read pairs: %s: %w (fix the line, or count and skip such lines with --skip-bad)",
				name, bad)
		}
		report.Skipped++
		report.FirstBad = cmp.Or(report.FirstBad, bad.Error())
		if errors.Is(bad, ErrIdentical) {
			report.Identical++
		} else if errors.Is(bad, ErrEmpty) {
			report.Empty++
		}
	}
}

// Write writes pairs, one per line. The same pairs give the same bytes, which [Read] reads back.
func Write(w io.Writer, pairs []Pair) error {
	if err := jsonl.Write(w, pairs); err != nil {
		return fmt.Errorf("write pairs: %w", err)
	}
	return nil
}

// fields are the names of [Pair]'s fields; the first two are required.
var fields = []string{"chosen", "rejected", "prompt", "margin", "id", "chosen_truncated", "rejected_truncated"}

// parse reads a line.
func parse(line []byte) (p Pair, err error) {
	object, err := jsonl.Object(line)
	if err != nil {
		return p, err
	}
	for _, name := range fields[:2] {
		if _, ok := object[name]; !ok {
			return p, missing(name, object)
		}
	}
	if p.Chosen, err = textOf(object, "chosen"); err != nil {
		return p, err
	}
	if p.Rejected, err = textOf(object, "rejected"); err != nil {
		return p, err
	}
	_, hasPrompt := object["prompt"]
	if p.Prompt, err = textOf(object, "prompt"); hasPrompt && err != nil {
		return p, err
	}
	if err := p.split(hasPrompt, object); err != nil {
		return p, err
	}
	if p.Margin, err = number(object, "margin"); err != nil {
		return p, err
	}
	if p.ChosenTruncated, err = flag(object, "chosen_truncated"); err != nil {
		return p, err
	}
	if p.RejectedTruncated, err = flag(object, "rejected_truncated"); err != nil {
		return p, err
	}
	switch id := object["id"].(type) {
	case nil:
	case string:
		p.ID = id
	case json.Number:
		p.ID = id.String()
	default:
		return p, fmt.Errorf("\"id\" is %s, want a string or a number", jsonl.Kind(id))
	}
	return p, p.Check()
}

// missing is the error for a required field that is not there. A field of a similar name that is
// none of a pair's may be the one.
func missing(name string, object map[string]any) error {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(object)),
		func(k string) bool { return slices.Contains(fields, k) })
	hint := ""
	if near := suggest.Nearest(name, others); near != "" {
		hint = fmt.Sprintf(" (is it %s? rename the field)", textutil.Quote(near))
	}
	return fmt.Errorf("no %q%s: a pair has \"prompt\", \"chosen\" and \"rejected\"", name, hint)
}

// textOf reads a text or turns.
func textOf(object map[string]any, name string) (t Text, err error) {
	switch v := object[name].(type) {
	case string:
		t.Plain = v
		return t, nil
	case []any:
		t.Turns = make([]Message, len(v))
		for i, e := range v {
			turn, ok := e.(map[string]any)
			if !ok {
				return t, fmt.Errorf("turn %d of %q is %s, want {\"role\": ..., \"content\": ...}", i+1, name, jsonl.Kind(e))
			}
			role, hasRole := turn["role"].(string)
			content, hasContent := turn["content"].(string)
			if !hasRole || !hasContent {
				return t, fmt.Errorf("turn %d of %q needs a \"role\" and a \"content\", both strings", i+1, name)
			}
			t.Turns[i] = Message{role, content}
			if known := []string{"system", "user", "assistant"}; !slices.Contains(known, role) {
				return t, fmt.Errorf("the role of turn %d of %q is %s%s, want one of %s", i+1, name, textutil.Quote(role),
					suggest.DidYouMean(role, known), strings.Join(known, ", "))
			}
		}
		return t, nil
	}
	return t, fmt.Errorf("%q is %s, want a text or an array of turns", name, jsonl.Kind(object[name]))
}

// flag reads an optional boolean.
func flag(object map[string]any, name string) (set bool, err error) {
	v, ok := object[name]
	if !ok {
		return false, nil
	}
	if set, ok = v.(bool); !ok {
		return false, fmt.Errorf("%q is %s, want true or false", name, jsonl.Kind(v))
	}
	return set, nil
}

// number reads an optional finite number.
func number(object map[string]any, name string) (*float64, error) {
	v, ok := object[name]
	if !ok || v == nil {
		return nil, nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%q is %s, want a number", name, jsonl.Kind(v))
	}
	x, err := n.Float64()
	if err != nil || math.IsInf(x, 0) {
		return nil, fmt.Errorf("%q is %s, which is too large for a number", name, textutil.Quote(n.String()))
	}
	return &x, nil
}

// split moves the turns that both completions begin with into the prompt, where there is no prompt
// of turns.
func (p *Pair) split(hasPrompt bool, object map[string]any) error {
	c, r := p.Chosen, p.Rejected
	if c.IsChat() != r.IsChat() {
		return errors.New(`"chosen" and "rejected" must both be texts or both be turns`)
	}
	switch {
	case !hasPrompt && !c.IsChat():
		return missing("prompt", object)
	case !c.IsChat() && p.Prompt.IsChat():
		return errors.New(`"prompt" has turns but "chosen" and "rejected" are texts: ` +
			`write each of them as [{"role": "assistant", "content": ...}]`)
	case !c.IsChat() || hasPrompt && p.Prompt.IsChat():
		return nil
	}
	n := 0
	for n < min(len(c.Turns), len(r.Turns))-1 && c.Turns[n] == r.Turns[n] {
		n++
	}
	if n == 0 {
		return errors.New(`"chosen" and "rejected" begin with different turns, and there is no "prompt" of turns`)
	}
	p.Prompt, p.Chosen.Turns, p.Rejected.Turns = Text{Turns: c.Turns[:n]}, c.Turns[n:], r.Turns[n:]
	return nil
}

// Check returns an error if no model can be trained on the pair: see [ErrIdentical] and [ErrEmpty].
func (p *Pair) Check() error {
	for _, part := range []struct {
		name string
		Text
		completion bool
	}{{"prompt", p.Prompt, false}, {"chosen", p.Chosen, true}, {"rejected", p.Rejected, true}} {
		switch {
		case part.IsChat() && len(part.Turns) == 0:
			return fmt.Errorf("%q %w: it has no turns", part.name, ErrEmpty)
		case part.completion && part.IsChat() && (len(part.Turns) != 1 || part.Turns[0].Role != "assistant"):
			return fmt.Errorf("%q must be one turn of the assistant after the prompt, it has %d turns, the first of %s",
				part.name, len(part.Turns), part.Turns[0].Role)
		case !part.completion && part.IsChat() && part.Turns[len(part.Turns)-1].Role == "assistant":
			return fmt.Errorf("%q ends with a turn of the assistant, and the completions are the next one", part.name)
		case part.IsChat() && part.completion && part.Turns[0].Content == "", !part.IsChat() && part.Plain == "":
			return fmt.Errorf("%q %w", part.name, ErrEmpty)
		}
	}
	if p.Chosen.equal(p.Rejected) && p.ChosenTruncated == p.RejectedTruncated {
		return ErrIdentical
	}
	return nil
}
