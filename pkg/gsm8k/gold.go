package gsm8k

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/jsonl"
)

// setAnswer sets the gold answer and the worked answer of a record. The worked answer is the solution, the answer if
// it is a text that ends in the gold answer, or only the gold answer where the extraction looks for it. A solution
// in which the extraction does not find the gold answer gets a last line with it, in place of a last line "#### N".
func (o ReadOptions) setAnswer(p *Problem, values map[string]any) error {
	a, key := o.Answers, o.Fields.names()[1]
	var worked string
	var err error
	switch a.kind {
	case "":
		if err = p.setNumber(values, key); err == nil && p.Answer != marker+" "+p.Gold {
			worked = p.Answer
		}
	case KindCountdown:
		return o.setCountdown(p, values)
	case KindNone:
		if _, given := field(values, key); given {
			p.Answer, err = scalarField(values, key)
			p.Gold = strings.TrimSpace(p.Answer)
		}
		if o.Fields.Solution != "" && err == nil {
			p.Answer, err = stringField(values, o.Fields.Solution)
		}
		return err
	case KindChoice:
		worked, err = p.setChoice(values, key)
	default:
		worked, err = a.setText(p, values, key)
	}
	if err == nil && o.Fields.Solution != "" {
		worked, err = stringField(values, o.Fields.Solution)
	}
	if err != nil {
		return err
	}
	return o.setWorked(p, worked, key)
}

// setWorked sets the worked answer of a record from that of its field key, or of its solution; see setAnswer.
func (o ReadOptions) setWorked(p *Problem, worked, key string) error {
	a, line := o.Answers, o.Answers.Write(p.Gold)
	if line != "" && !a.Grade(line, true, *p).Right {
		name, _ := a.ExtractedFrom()
		return fmt.Errorf("the answer %q of %q can't be given where reward.extract (%s) looks for it", clip(p.Gold),
			clip(key), name)
	}
	switch {
	case line == "" || worked != "" && a.Grade(worked, true, *p).Right:
	case worked == "" || a.extract == fromWhole && o.Fields.Solution == "":
		worked = line
	case a.extract != fromWhole:
		worked = o.withLastLine(worked, line)
	}
	p.Answer = worked
	return nil
}

// withLastLine ends a worked answer in a line with the answer, where the extraction looks for it, in place of a line
// "#### N" that the extraction does not read, or that has another answer. Annotations go first, because equations end
// in that line; applying them again to the result changes nothing.
func (o ReadOptions) withLastLine(worked, line string) string {
	if _, found := lastAnswer(worked); !found {
		return worked + "\n" + line
	}
	worked = o.Annotations.Apply(worked)
	return strings.TrimLeft(strings.TrimRight(worked[:strings.LastIndex(worked, marker)], " \t\n")+"\n"+line, "\n")
}

// setText sets the gold answer of a text or of mathematics: the answer, the rest of its last line after "####", or
// for mathematics the content of its last \boxed. If it is a part of the answer, the answer is returned as the
// worked one.
func (a Answers) setText(p *Problem, values map[string]any, key string) (worked string, err error) {
	text, err := scalarField(values, key)
	if err != nil {
		return "", err
	}
	p.Gold = strings.TrimSpace(text)
	if line, found := lastAnswer(text); found {
		p.Gold, worked = line, text
	} else if inner, ok := unboxed(p.Gold); a.kind == KindMath && ok && inner != p.Gold {
		p.Gold, worked = inner, text
	}
	if _, ok := a.Read(p.Gold); !ok {
		return "", fmt.Errorf("%q is %q, want %s", clip(key), clip(p.Gold), a.Form())
	}
	return worked, nil
}

// lastAnswer is the text after "####" in the last line of an answer.
func lastAnswer(text string) (string, bool) {
	line, rest, ok := finalLine(text)
	line = strings.TrimSpace(line)
	return line, ok && line != "" && strings.TrimSpace(rest) == ""
}

// scalarField returns a field that is a text, a number or true or false, and not blank.
func scalarField(values map[string]any, key string) (string, error) {
	switch v, _ := field(values, key); v := v.(type) {
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return stringField(values, key)
	}
	_, err := stringField(values, key)
	return "", fmt.Errorf("%w, a number or a boolean", err)
}

// maxChoices is the number of letters.
const maxChoices = 26

// setChoice sets the letter of the right choice. The answer is the letter, the number of the choice from 0 on as a
// number that is no label, or with a field "choices", the label or the text of one. "choices" is a list of texts or, as
// in ARC, an object with the lists "text" and "label". Choices that the question does not have with their letters
// are added to it, a line each. A text that ends in the answer is returned as the worked one.
func (p *Problem) setChoice(values map[string]any, key string) (worked string, err error) {
	texts, labels, err := choicesOf(values)
	if err != nil {
		return "", err
	}
	most := maxChoices
	if len(texts) > 0 {
		most = len(texts)
	}
	at := -1
	value, _ := field(values, key)
	shown := fmt.Sprint(value)
	if n, ok := value.(json.Number); ok {
		if i, whole := wholeNumber(n); whole && i >= 0 && i < most {
			at = i
		}
		if i := slices.Index(labels, n.String()); i >= 0 {
			at = i
		}
	} else {
		text, err := stringField(values, key)
		if err != nil {
			return "", fmt.Errorf("%w or a number", err)
		}
		if line, found := lastAnswer(text); found {
			text, worked = line, text
		}
		shown = strings.TrimSpace(text)
		if at, err = choiceOf(shown, texts, labels); err != nil {
			return "", fmt.Errorf("%q %w", clip(key), err)
		}
	}
	if at < 0 || at >= most {
		return "", fmt.Errorf("%q is %q, want the letter of one of %d choices, its number from 0 on as a JSON number, "+
			"or its text in \"choices\"", clip(key), clip(shown), most)
	}
	p.Gold = letterOf(at)
	lettered := 0
	for i, text := range texts {
		forms := []string{letterOf(i) + ". " + text, letterOf(i) + ") " + text}
		if own := strings.TrimPrefix(text, "("); strings.HasPrefix(own, letterOf(i)+".") ||
			strings.HasPrefix(own, letterOf(i)+")") {
			forms = append(forms, text) // "A) 21"
		}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(p.Question, form) }) {
			lettered++
		}
	}
	if lettered == len(texts) {
		return worked, nil
	}
	p.Question = strings.TrimRight(p.Question, " \t\r\n")
	for i, text := range texts {
		p.Question += "\n" + letterOf(i) + ". " + text
	}
	return worked, nil
}

func letterOf(i int) string { return string(rune('A' + i)) }

// choiceOf is the place of a choice by its label, its letter or its text; -1 if it is none.
func choiceOf(answer string, texts, labels []string) (int, error) {
	if i := slices.Index(labels, answer); i >= 0 {
		return i, nil
	}
	byText := slices.Index(texts, answer)
	letter, ok := readChoice(answer)
	if !ok {
		return byText, nil
	}
	i := int(letter[0] - 'A')
	switch {
	case byText >= 0 && i >= len(texts):
		return byText, nil
	case byText >= 0 && byText != i:
		return 0, fmt.Errorf("is %q, the letter of one choice and the text of another", clip(answer))
	}
	return i, nil
}

// choicesOf reads the field "choices"; empty if there is none.
func choicesOf(values map[string]any) (texts, labels []string, err error) {
	value := values["choices"]
	if object, ok := value.(map[string]any); ok {
		if labels, err = stringsOf(object["label"]); err != nil {
			return nil, nil, err
		}
		if text := object["text"]; text != nil {
			value = text
		}
	}
	if texts, err = stringsOf(value); err != nil {
		return nil, nil, err
	}
	if len(texts) > maxChoices {
		return nil, nil, fmt.Errorf(`"choices" has %d elements; at most %d have a letter`, len(texts), maxChoices)
	}
	if labels != nil && len(labels) != len(texts) {
		return nil, nil, fmt.Errorf(`"choices" has %d labels for %d texts`, len(labels), len(texts))
	}
	return texts, labels, nil
}

func stringsOf(value any) (out []string, err error) {
	list, ok := value.([]any)
	if !ok && value != nil {
		return nil, fmt.Errorf(`"choices" has %s, want a list of texts, or an object with the lists "text" and "label" `+
			"(CSV has neither: write such a file as JSONL)", jsonl.Kind(value))
	}
	for _, x := range list {
		var text string
		switch x := x.(type) {
		case string:
			text = strings.TrimSpace(x)
		case json.Number:
			text = x.String()
		}
		if text == "" {
			return nil, errors.New(`"choices" has an element that is no text`)
		}
		out = append(out, text)
	}
	return out, nil
}

// setCountdown makes a Countdown from a record. The answer and the solution are optional; they must be right.
func (o ReadOptions) setCountdown(p *Problem, values map[string]any) error {
	c, err := countdownOf(values)
	if err != nil {
		return err
	}
	p.Gold = c.Gold()
	p.Question = cmp.Or(p.Question, c.Question())
	key := o.Fields.names()[1]
	if o.Fields.Solution != "" {
		key = o.Fields.Solution
	}
	if _, given := field(values, key); !given {
		return nil
	}
	if p.Answer, err = stringField(values, key); err != nil {
		return err
	}
	expression := p.Answer
	if line, found := lastAnswer(p.Answer); found {
		expression = line
	}
	written := o.Answers.Write(expression)
	switch {
	case o.Answers.Grade(p.Answer, true, *p).Right:
	case gradeCountdown(expression, p.Gold).Right && expression == p.Answer:
		p.Answer = written
	case gradeCountdown(expression, p.Gold).Right && written != "":
		p.Answer = o.withLastLine(p.Answer, written)
	default:
		return fmt.Errorf("%q is %q, want an expression for %s", clip(key), clip(expression), clip(p.Gold))
	}
	return nil
}
