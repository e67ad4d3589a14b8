package gsm8k

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"grpo/internal/pattern"
	"grpo/pkg/gsm8k/grader"
)

// Kind is what the answers of problems are (data.answer).
type Kind string

const (
	// KindNumber is a plain decimal number; the empty kind means the same. Answers are right if they are equal exactly
	// ([SameNumber]).
	KindNumber Kind = "number"
	// KindText is a text, equal rune by rune but for white space at its ends. It is not normalized: "é" as one rune is
	// not "e" with an accent.
	KindText Kind = "text"
	// KindChoice is the letter of a choice: B, b, (B), B., B) or \boxed{B}.
	KindChoice Kind = "choice"
	// KindMath is a mathematical expression, right by [grader.Equal].
	KindMath Kind = "math"
	// KindCountdown is an expression that has a value and uses given numbers: see [Countdown].
	KindCountdown Kind = "countdown"
	// KindNone is for open prompts: no answer is right by itself.
	KindNone Kind = "none"
)

// Kinds lists the kinds of answers.
func Kinds() []string {
	return []string{string(KindNumber), string(KindText), string(KindChoice), string(KindMath), string(KindCountdown),
		string(KindNone)}
}

// Answers says what the right answer of a problem is, and where it stands in a completion. It is the one place that
// does: rewards, evaluations and statistics take their verdicts from it. The zero value is for GSM8K: a number after
// the last "####".
type Answers struct {
	kind       Kind // empty = number
	ignoreCase bool // of text
	extract    extraction
	pattern    *regexp.Regexp // of the extraction pattern
	opening    string         // the tag at the end of the prompt ([Template.Opening])
}

// AnswerOptions are what [NewAnswers] needs. The zero value gives the zero [Answers].
type AnswerOptions struct {
	Kind       Kind
	IgnoreCase bool   // text is equal in upper and lower case
	Extract    string // where the answer is: one of [Extractions], or "pattern:" and an RE2 pattern with one group
	Template   string // the name of the prompt's template, on which the extraction auto depends
}

// NewAnswers returns the answers of these options. An unknown name, a pattern that is not one, and an extraction that
// cannot give an answer of the kind are errors.
func NewAnswers(o AnswerOptions) (a Answers, err error) {
	if known := Kinds(); o.Kind != "" && !slices.Contains(known, string(o.Kind)) {
		return a, fmt.Errorf("kind of answer: %w", unknownName(string(o.Kind), known))
	}
	if o.Kind != KindNumber {
		a.kind = o.Kind
	}
	a.ignoreCase = o.IgnoreCase && o.Kind == KindText
	if t, err := LookupTemplate(o.Template); err == nil {
		a.opening = t.Opening()
	}
	if a.extract, a.pattern, err = newExtraction(o.Extract, a.kind, o.Template); err != nil {
		return Answers{}, err
	}
	if a.extract == fromLastNumber && a.kind != "" && a.kind != KindMath {
		return Answers{}, fmt.Errorf("extract %s is for numbers, not for answers of the kind %s", fromLastNumber, a.kind)
	}
	if a.isDefault() {
		a.opening = "" // so that the zero value is equal to it
	}
	return a, nil
}

// Kind is that of the answers.
func (a Answers) Kind() Kind {
	if a.kind == "" {
		return KindNumber
	}
	return a.kind
}

// isDefault reports whether a is GSM8K's form.
func (a Answers) isDefault() bool { return a.kind == "" && a.extract == fromMarker }

// Verdict is the result of grading one completion. Every completion is exactly one
// of formatted and right, formatted and wrong, unformatted.
type Verdict struct {
	Formatted bool // format reward 1
	Right     bool // answer reward 1; implies Formatted
	// Answer is the answer given, empty if unformatted, in a form that equal answers share; those of KindMath are
	// equal by [Answers.Same].
	Answer string
}

// Grade compares a completion with the gold answer of a problem. ended means that the policy ended the completion
// (with <eos>) before the token limit.
//
//	format reward = 1 iff ended and an answer of the kind is where the extraction looks for it
//	answer reward = 1 iff, in addition, that answer is right
func (a Answers) Grade(completion string, ended bool, p Problem) Verdict {
	if !ended {
		return Verdict{}
	}
	text, ok := a.Find(completion)
	if !ok {
		return Verdict{}
	}
	return a.judge(text, p.Gold)
}

// judge compares the text of an answer with the gold answer.
func (a Answers) judge(text, gold string) (v Verdict) {
	if a.kind == KindCountdown {
		return gradeCountdown(text, gold)
	}
	if v.Answer, v.Formatted = a.Read(text); !v.Formatted {
		return Verdict{}
	}
	v.Right = a.isRight(v.Answer, gold)
	return v
}

// isRight compares an answer that [Answers.Read] returned with the gold answer.
func (a Answers) isRight(answer, gold string) bool {
	switch a.kind {
	case "":
		n, ok := normaliseNumber(gold)
		return ok && answer == canonicalNumber(n)
	case KindText:
		return answer == a.canonical(gold)
	case KindChoice:
		return answer == gold
	case KindMath:
		return grader.Equal(answer, gold)
	}
	return false
}

// Read returns the answer that a text is, in the one form that equal answers share (those of KindMath are equal by
// [Answers.Same]). It is false if the text is no answer of the kind.
func (a Answers) Read(text string) (answer string, ok bool) {
	text = strings.TrimSpace(text)
	switch a.kind {
	case "":
		n, ok := normaliseNumber(text)
		if !ok {
			return "", false
		}
		return canonicalNumber(n), true
	case KindChoice:
		return readChoice(text)
	case KindMath:
		if text, ok = unboxed(text); !ok || len(text) > grader.MaxLength {
			return "", false
		}
	case KindCountdown:
		e, ok := parseCountdown(text)
		return e.text, ok
	}
	return a.canonical(text), text != ""
}

// canonical is a text in the case that all cases of it share, if case is ignored.
func (a Answers) canonical(text string) string {
	if a.ignoreCase {
		return strings.Map(foldCase, text)
	}
	return text
}

// foldCase is the same for all runes that differ only in case: the lower case of the smallest of them.
func foldCase(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

// unboxed is the content of the last \boxed, or the text without one. It is false if that is not closed.
func unboxed(text string) (string, bool) {
	if !strings.Contains(text, `\boxed`) {
		return text, text != ""
	}
	content, ok := grader.Boxed(text)
	content = strings.TrimSpace(content)
	return content, ok && content != ""
}

var choiceForm = pattern.Of(`^(?:\(([A-Za-z])\)|([A-Za-z]))[.:)]?$`)

// readChoice returns the letter of a choice, in upper case.
func readChoice(text string) (letter string, ok bool) {
	if text, ok = unboxed(text); !ok {
		return "", false
	}
	for _, style := range []string{`\text{`, `\textbf{`, `\mathrm{`} {
		if inner, found := strings.CutPrefix(text, style); found && strings.HasSuffix(inner, "}") {
			text = inner[:len(inner)-1]
		}
	}
	m := choiceForm().FindStringSubmatch(strings.Trim(text, "* "))
	if m == nil {
		return "", false
	}
	return strings.ToUpper(m[1] + m[2]), true
}

// Same reports whether two answers of verdicts are the same.
func (a Answers) Same(x, y string) bool {
	return x == y || a.kind == KindMath && (grader.Equal(x, y) || grader.Equal(y, x))
}

// HasMajority reports whether one answer can be right for several problems, so that always giving the commonest one
// is a baseline.
func (a Answers) HasMajority() bool { return a.kind != KindNone && a.kind != KindCountdown }

// HasVotes reports whether the answers of several completions of a problem can be counted.
func (a Answers) HasVotes() bool { return a.kind != KindNone }

// Form says what an answer of the kind looks like, for messages.
func (a Answers) Form() string {
	switch a.kind {
	case KindText:
		return "a text"
	case KindChoice:
		return "the letter of a choice (B, b, (B), B., B) or \\boxed{B})"
	case KindMath:
		return fmt.Sprintf("a mathematical expression of at most %d bytes, with each \\boxed closed", grader.MaxLength)
	case KindCountdown:
		return "an expression of whole numbers with + - * / and parentheses"
	case KindNone:
		return "any text"
	}
	return "a plain decimal number (72, -1,234.5 or $72; no unit, fraction or exponent)"
}
