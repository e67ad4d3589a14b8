package gsm8k

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fields are the names of the fields of a problem in a file. Empty ones are those of GSM8K's form,
// "question" and "answer".
type Fields struct{ Question, Answer string }

const defaultQuestion, defaultAnswer = "question", "answer"

// names are the fields of the question and of the answer.
func (f Fields) names() []string {
	return []string{cmp.Or(f.Question, defaultQuestion), cmp.Or(f.Answer, defaultAnswer)}
}

// own are the fields that make a problem: those of names, and the keys of WriteJSONL.
func (f Fields) own() []string { return append(f.names(), "id", "type", "fact") }

// form names the form in messages.
func (f Fields) form() string {
	if f == (Fields{}) {
		return "GSM8K's"
	}
	return "the configured"
}

// problem makes a problem from the values of a record's fields: strings, [json.Number], bool, nil
// or lists. Annotations are left in.
func (f Fields) problem(values map[string]any) (p Problem, err error) {
	names := f.names()
	if p.Question, err = stringField(values, names[0]); err != nil {
		return p, err
	}
	// The keys of WriteJSONL. Other files may use them differently.
	p.ID, _ = values["id"].(string)
	p.Type, _ = values["type"].(string)
	p.Fact, _ = values["fact"].(string)
	p.Fields = otherFields(values, f.own()...)
	if err = p.setAnswer(values, names[1]); err != nil {
		return p, err
	}
	for _, v := range values {
		if s, ok := v.(string); ok && !utf8.ValidString(s) {
			return p, errUTF8
		}
	}
	return p, nil
}

var errUTF8 = errors.New("not valid UTF-8")

// setAnswer sets the answer and its number. The answer is a number, the text of one, or a text that
// ends in a line "#### N".
func (p *Problem) setAnswer(values map[string]any, key string) (err error) {
	if n, ok := values[key].(json.Number); ok {
		if p.Gold, ok = normaliseNumber(n.String()); !ok {
			return fmt.Errorf("%q %s is not a plain decimal number", clip(key), clip(n.String()))
		}
		p.Gold = canonicalNumber(p.Gold)
		p.Answer = marker + " " + p.Gold
		return nil
	}
	if p.Answer, err = stringField(values, key); err != nil {
		return fmt.Errorf("%w or a number", err)
	}
	line, rest, ok := finalLine(p.Answer)
	if !ok {
		if p.Gold, ok = normaliseNumber(p.Answer); !ok {
			return fmt.Errorf("no \"%s N\" in %q, which is not a plain number either", marker, clip(key))
		}
		p.Answer = marker + " " + p.Gold
		return nil
	}
	if p.Gold, ok = normaliseNumber(line); !ok {
		return fmt.Errorf("%q after %q in %q is not a number", clip(strings.TrimSpace(line)), marker, clip(key))
	}
	if strings.TrimSpace(rest) != "" {
		return fmt.Errorf("text after the line \"%s N\" in %q", marker, clip(key))
	}
	return nil
}
