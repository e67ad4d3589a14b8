package reward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
)

// Version is that of the protocol. A change that breaks commands raises it.
const Version = 1

// Limits of an answer.
const (
	maxAnswer  = 64 << 20 // bytes of its line
	maxColumns = 32
	maxName    = 64 // characters of a column's name
)

// request is one line for a command: completions of one or more prompts.
type request struct {
	Version     int          `json:"version"`
	ID          int          `json:"id"` // of the line, for its answer
	Step        int          `json:"step"`
	MaxTokens   int          `json:"max_tokens"`
	Completions []Completion `json:"completions"`
}

// encode returns the line with its line end. Bytes of a completion that are not UTF-8 are replaced
// by U+FFFD.
func (r request) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r) // ends in a line end, and has no other
	return b.Bytes(), err
}

// parseAnswer reads the line that answers the request id with n completions:
//
//	{"id": 1, "rewards": [0.5, null], "columns": {"words": [7, null]}}
//
// It is strict: a command that prints something else has a bug, and its rewards are not to be
// trusted.
func parseAnswer(line []byte, id, n int) (Scores, error) {
	var fields map[string]json.RawMessage
	if err := strictJSON(line, &fields); err != nil {
		return Scores{}, fmt.Errorf("%w: %s", err, textutil.Quote(string(line[:min(len(line), 200)])))
	}
	known := []string{"id", "rewards", "columns", "version"}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			return Scores{}, fmt.Errorf("unknown key %s%s (an answer has %s)",
				textutil.Quote(key), suggest.DidYouMean(key, known), strings.Join(known, ", "))
		}
	}
	for _, want := range []struct {
		key   string
		value int
		fix   string
	}{
		{"id", id, "it must print one line for each line that it reads, with its id"},
		{"version", Version, "this is the version of the protocol that grpo speaks"},
	} {
		raw, ok := fields[want.key]
		var got int
		switch {
		case !ok && want.key == "version":
		case !ok:
			return Scores{}, fmt.Errorf("no %q (copy it from the request)", want.key)
		case json.Unmarshal(raw, &got) != nil || string(raw) == "null" || got != want.value:
			return Scores{}, fmt.Errorf("%q is %s, want %d (%s)",
				want.key, textutil.Show(string(raw)), want.value, want.fix)
		}
	}
	rewards, err := list(fields, "rewards", n)
	if err != nil {
		return Scores{}, err
	}
	s := nulls(n)
	for i, v := range rewards {
		switch x := v.(type) {
		case nil:
		case float64:
			if err := checkReward(x); err != nil {
				return Scores{}, fmt.Errorf("element %d of \"rewards\": %w", i+1, err)
			}
			s.Rewards[i] = x
		default:
			return Scores{}, fmt.Errorf("element %d of \"rewards\" is %s, want a number or null", i+1, kindOf(v))
		}
	}
	if raw, ok := fields["columns"]; ok {
		if s.Columns, err = parseColumns(raw, n); err != nil {
			return Scores{}, err
		}
	}
	return s, nil
}

// strictJSON decodes one JSON object.
func strictJSON(line []byte, to *map[string]json.RawMessage) error {
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	if err := json.Unmarshal(line, to); err != nil || *to == nil {
		if trimmed := bytes.TrimSpace(line); !bytes.HasPrefix(trimmed, []byte("{")) {
			return errors.New("not the JSON object of an answer (print anything else to stderr)")
		}
		if bytes.Contains(line, []byte("NaN")) || bytes.Contains(line, []byte("Infinity")) {
			return errors.New("JSON has no NaN and no Infinity (write null where there is no reward)")
		}
		return fmt.Errorf("not valid JSON (%w)", err)
	}
	return jsonkeys.Check(line)
}

// list decodes a list of n scalars.
func list(fields map[string]json.RawMessage, key string, n int) ([]any, error) {
	raw, ok := fields[key]
	var out []any
	switch err := json.Unmarshal(raw, &out); {
	case !ok:
		return nil, fmt.Errorf("no %q", key)
	case err != nil && bytes.HasPrefix(raw, []byte("[")): // 1e999
		return nil, fmt.Errorf("%q: a number is out of range (%w)", key, err)
	case err != nil || out == nil:
		return nil, fmt.Errorf("%q is %s, want a list", key, textutil.Show(string(raw[:min(len(raw), 80)])))
	case len(out) != n:
		return nil, fmt.Errorf("%q has %s for %s",
			key, textutil.Count(len(out), "element"), textutil.Count(n, "completion"))
	}
	return out, nil
}

func parseColumns(raw json.RawMessage, n int) (map[string][]any, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil, errors.New("\"columns\" is not an object of lists")
	}
	if len(fields) > maxColumns {
		return nil, fmt.Errorf("%d columns, the limit is %d", len(fields), maxColumns)
	}
	out := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
		if name == "" || utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, unprintable) {
			return nil, fmt.Errorf("column %s: a name has 1 to %d printable characters", textutil.Quote(name), maxName)
		}
		values, err := list(fields, name, n)
		if err != nil {
			return nil, fmt.Errorf("column %w", err)
		}
		for i, v := range values {
			switch v.(type) {
			case nil, float64, string:
			default:
				return nil, fmt.Errorf("element %d of column %s is %s, want a number, a string or null",
					i+1, textutil.Quote(name), kindOf(v))
			}
		}
		out[name] = values
	}
	return out, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

// join concatenates the scores of consecutive parts of a batch. A column that a part does not have
// is null there.
func join(parts []Scores) Scores {
	out := Scores{}
	for _, p := range parts {
		before := len(out.Rewards)
		out.Rewards = append(out.Rewards, p.Rewards...)
		for name, values := range p.Columns {
			if out.Columns == nil {
				out.Columns = map[string][]any{}
			}
			if out.Columns[name] == nil {
				out.Columns[name] = make([]any, before)
			}
			out.Columns[name] = append(out.Columns[name], values...)
		}
		for name, values := range out.Columns {
			out.Columns[name] = append(values, make([]any, len(out.Rewards)-len(values))...)
		}
	}
	return out
}
