package explain

import (
	"fmt"
	"io"
	"strings"

	"grpo/pkg/gsm8k"
)

// AnswerOptions are the inputs of [Answer].
type AnswerOptions struct {
	gsm8k.AnswerOptions
	Completion, Gold string
	Cut              bool // the limit of tokens ended the completion
}

// AnswerResult is the result of [Answer]: how a completion gets its verdict.
type AnswerResult struct {
	Answer     string       `json:"answer"`  // the kind
	Extract    string       `json:"extract"` // where the answer is
	Completion string       `json:"completion"`
	Gold       string       `json:"gold"`
	Ended      bool         `json:"ended"`
	Steps      []AnswerStep `json:"steps"` // up to the first that fails
	Formatted  bool         `json:"formatted"`
	Right      bool         `json:"right"`
}

// AnswerStep is one step of grading.
type AnswerStep struct {
	Step string `json:"step"` // "ended", "extracted", "normalized", "gold" or "compared"
	OK   bool   `json:"ok"`
	Text string `json:"text"` // what there is after it
	Note string `json:"note"`
}

// Answer grades a completion as training and evaluations do, step by step.
func Answer(o AnswerOptions) (out AnswerResult, err error) {
	defer named("reward", &err)
	a, err := gsm8k.NewAnswers(o.AnswerOptions)
	if err != nil {
		return out, err
	}
	extract, where := a.ExtractedFrom()
	out = AnswerResult{Answer: string(a.Kind()), Extract: extract, Completion: o.Completion, Gold: o.Gold, Ended: !o.Cut}
	gold, note, err := normalGold(a, o.Gold)
	if err != nil {
		return out, err
	}
	v := a.Grade(o.Completion, out.Ended, gsm8k.Problem{Gold: gold})
	out.Formatted, out.Right = v.Formatted, v.Right
	step := func(name string, ok bool, text, note string) bool {
		out.Steps = append(out.Steps, AnswerStep{name, ok, text, note})
		return ok
	}
	text, found := a.Find(o.Completion)
	read, _ := a.Read(text)
	switch {
	case !step("ended", out.Ended, o.Completion, "a completion that the limit of tokens cut has no answer"):
	case !step("extracted", found, text, where):
	case !step("normalized", v.Formatted, read, a.Form()):
	case a.Kind() == gsm8k.KindNone:
	default:
		step("gold", true, gold, note)
		step("compared", v.Right, v.Answer, comparedBy[a.Kind()])
	}
	return out, nil
}

// comparedBy says how answers of a kind are compared.
var comparedBy = map[gsm8k.Kind]string{
	gsm8k.KindNumber: "equal as exact decimals",
	gsm8k.KindText:   "equal rune by rune, after ignore_case; no Unicode normalization",
	gsm8k.KindChoice: "the same letter",
	gsm8k.KindMath:   "equal in spelling or in value, as in the assignment's grader",
	gsm8k.KindCountdown: "the value of the expression is the target, and it uses the numbers as it must; " +
		"an expression that does not is shown itself",
}

// normalGold is a gold answer as a problem has it.
func normalGold(a gsm8k.Answers, gold string) (text, note string, err error) {
	switch gold = strings.TrimSpace(gold); a.Kind() {
	case gsm8k.KindNone:
		return gold, "", nil
	case gsm8k.KindCountdown:
		if _, ok := gsm8k.ParseCountdown(gold); !ok {
			return "", "", fmt.Errorf("the gold answer %s is no Countdown, such as \"98 from 44 19 35\" (--gold)",
				quote(gold, 60))
		}
		return gold, "the target, and the numbers", nil
	}
	text, ok := a.Read(gold)
	if !ok {
		return "", "", fmt.Errorf("the gold answer %s is not %s (--gold)", quote(gold, 60), a.Form())
	}
	return text, "read in the same way", nil
}

// WriteText writes the steps and the verdict.
func (r AnswerResult) WriteText(w io.Writer) error { return writePage(w, "answer", r) }
