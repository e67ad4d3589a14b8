package gsm8k

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields are the names of the fields of a problem in a file. Empty ones are those of GSM8K's form,
// "question" and "answer"; the worked solution is in the answer. A name such as a.b is of a field in a field.
type Fields struct{ Question, Answer, Solution string }

const defaultQuestion, defaultAnswer = "question", "answer"

// names are the fields of the question and of the answer.
func (f Fields) names() []string {
	return []string{cmp.Or(f.Question, defaultQuestion), cmp.Or(f.Answer, defaultAnswer)}
}

// own are the fields that make a problem: those of names, the solution, and the keys of WriteJSONL.
func (f Fields) own() []string {
	own := append(f.names(), "id", "type", "fact")
	if f.Solution != "" {
		own = append(own, f.Solution)
	}
	return own
}

// form names the form in messages.
func (f Fields) form() string {
	if f == (Fields{}) {
		return "GSM8K's"
	}
	return "the configured"
}

// required are the fields that each record must have.
func (o ReadOptions) required() (want []string) {
	f := o.Fields
	if f.Question != "" || o.Answers.kind != KindCountdown {
		want = append(want, f.names()[0])
	}
	if f.Answer != "" || o.Answers.kind != KindCountdown && o.Answers.kind != KindNone {
		want = append(want, f.names()[1])
	}
	if f.Solution != "" {
		want = append(want, f.Solution)
	}
	if o.Answers.kind == KindCountdown {
		want = append(want, "target")
	}
	return want
}

// further are the fields that answers of the kind are made from; rewards get them too.
func (o ReadOptions) further() []string {
	switch o.Answers.kind {
	case KindCountdown:
		return []string{"numbers", "nums", "target", "use_all"}
	case KindChoice:
		return []string{"choices"}
	}
	return nil
}

// field is the value of a field of a record, or of a field in a field: a.b. It is false if there is none.
func field(values map[string]any, name string) (any, bool) {
	if v, ok := values[name]; ok {
		return v, true
	}
	head, rest, nested := strings.Cut(name, ".")
	inner, ok := values[head].(map[string]any)
	if !nested || !ok {
		return nil, false
	}
	return field(inner, rest)
}

// problem makes a problem from the values of a record's fields: strings, [json.Number], bool, nil,
// lists or objects. Annotations are left in.
func (o ReadOptions) problem(values map[string]any) (p Problem, err error) {
	f := o.Fields
	names := f.names()
	if _, given := field(values, names[0]); given || o.Answers.kind != KindCountdown {
		if p.Question, err = stringField(values, names[0]); err != nil {
			return p, err
		}
	}
	// The keys of WriteJSONL. Other files may use them differently.
	own := f.own()
	switch id := values["id"].(type) {
	case string:
		p.ID = id
	case json.Number:
		p.ID = id.String()
	}
	for key, to := range map[string]*string{"type": &p.Type, "fact": &p.Fact} {
		var ok bool
		if *to, ok = values[key].(string); !ok && values[key] != nil {
			own = slices.DeleteFunc(own, func(name string) bool { return name == key })
		}
	}
	p.Fields = otherFields(values, own...)
	if o.Answers.isDefault() && f.Solution == "" {
		err = p.setNumber(values, names[1])
	} else {
		err = o.setAnswer(&p, values)
	}
	if err != nil {
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

// setNumber sets the answer and its number. The answer is a number, the text of one, or a text that
// ends in a line "#### N".
func (p *Problem) setNumber(values map[string]any, key string) (err error) {
	value, _ := field(values, key)
	if n, ok := value.(json.Number); ok {
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
			return fmt.Errorf("no \"%s N\" in %q, which is not a plain number either%s", marker, clip(key), otherKinds)
		}
		p.Answer = marker + " " + p.Gold
		return nil
	}
	if p.Gold, ok = normaliseNumber(line); !ok {
		return fmt.Errorf("%q after %q in %q is not a number%s", clip(strings.TrimSpace(line)), marker, clip(key), otherKinds)
	}
	if strings.TrimSpace(rest) != "" {
		return fmt.Errorf("text after the line \"%s N\" in %q", marker, clip(key))
	}
	return nil
}

// otherKinds is the advice about an answer that is no number.
const otherKinds = "; texts, choices, mathematics and Countdown need data.answer (or --answer of grpo data stats)"
