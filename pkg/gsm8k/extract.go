package gsm8k

import (
	"fmt"
	"regexp"
	"strings"

	"grpo/pkg/gsm8k/grader"
)

// extraction is where the answer is in a completion (reward.extract). The zero value is marker.
type extraction int

const (
	fromMarker extraction = iota
	fromBoxed
	fromTag
	fromLastLine
	fromLastNumber
	fromWhole
	fromPattern
)

// patternPrefix is before the pattern of an extraction.
const patternPrefix = "pattern:"

// extractions are the names of the extractions, in their order, and what the text is that they find.
var extractions = []struct{ name, text string }{
	{"marker", `the rest of the line after the last "####"`},
	{"boxed", `the content of the last \boxed{...}`},
	{"tag", "the text between the last <answer> and the </answer> after it"},
	{"last_line", "the last line that is not blank"},
	{"last_number", "the last number, as the reward last_number reads it"},
	{"whole", "the whole completion"},
	{patternPrefix + "PATTERN", "the group of the pattern's last match"},
}

func (e extraction) String() string { return extractions[e].name }

// Extractions lists the names of the extractions, but for patterns.
func Extractions() []string {
	out := []string{"auto"}
	for _, e := range extractions[:fromPattern] {
		out = append(out, e.name)
	}
	return out
}

// newExtraction returns the extraction of a name. That of auto is marker for numbers, and for other kinds the one of
// the prompt's template.
func newExtraction(name string, kind Kind, template string) (extraction, *regexp.Regexp, error) {
	if name == "" || name == "auto" {
		switch {
		case kind == "":
		case kind == KindNone:
			return fromWhole, nil, nil
		case template == "r1_zero":
			return fromTag, nil, nil
		case template == "question_only":
			return fromBoxed, nil, nil
		}
		return fromMarker, nil, nil
	}
	for e := range fromPattern {
		if e.String() == name {
			return e, nil, nil
		}
	}
	text, ok := strings.CutPrefix(name, patternPrefix)
	if !ok {
		known := append(Extractions(), patternPrefix+"PATTERN")
		return 0, nil, fmt.Errorf("where the answer is: %w", unknownName(name, known))
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return 0, nil, fmt.Errorf("not an RE2 pattern: %w", err)
	}
	if n := re.NumSubexp(); n != 1 {
		return 0, nil, fmt.Errorf("the pattern has %d groups, want one, which is the answer "+
			"(write (?:...) for the others)", n)
	}
	return fromPattern, re, nil
}

// ExtractedFrom names the extraction, and says what the text is that it finds.
func (a Answers) ExtractedFrom() (name, text string) {
	e := extractions[a.extract]
	if a.extract == fromPattern {
		e.name = patternPrefix + a.pattern.String()
	}
	return e.name, e.text
}

// Find returns the text of the answer in a completion. It is false if there is none, or a blank one. The cost is
// linear.
func (a Answers) Find(completion string) (text string, ok bool) {
	switch a.extract {
	case fromMarker:
		text, _, ok = finalLine(completion)
	case fromBoxed:
		text, ok = grader.Boxed(completion)
	case fromTag:
		if i := strings.LastIndex(completion, answerOpen); i >= 0 {
			text, _, ok = strings.Cut(completion[i+len(answerOpen):], answerClose)
		}
	case fromLastLine:
		text = strings.TrimSpace(completion)
		text, ok = text[strings.LastIndexByte(text, '\n')+1:], true
	case fromLastNumber:
		text, ok = LastNumber(completion)
	case fromPattern:
		for _, m := range a.pattern.FindAllStringSubmatch(completion, -1) {
			text, ok = m[1], true
		}
	default:
		text, ok = completion, true
	}
	return text, ok && strings.TrimSpace(text) != ""
}

const answerOpen, answerClose = "<answer>", "</answer>"

// Write is a completion that only gives an answer, in the place where the extraction looks; empty for a pattern, for
// which that is unknown.
func (a Answers) Write(answer string) string {
	switch a.extract {
	case fromMarker:
		return marker + " " + answer
	case fromBoxed:
		return `\boxed{` + answer + "}"
	case fromTag:
		if a.opening == thinkOpen {
			return thinkClose + " " + answerOpen + answer + answerClose
		}
		return answerOpen + answer + answerClose
	case fromPattern:
		return ""
	}
	return answer
}
