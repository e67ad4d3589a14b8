package gsm8k

import "strings"

const marker = "####"

// ParseFinalAnswer returns the number after the last "####" of a completion,
// without commas, "$", a leading "+" and a trailing full stop.
//
// GSM8K's own scorer searches for `#### (\-?[0-9\.\,]+)`: it takes the first
// hit and ignores what follows on the line, so that "#### 12 or 13" counts as
// 12. As a reward that would be an invitation, so this parser is stricter:
//
//   - the last marker counts, even where an earlier one is well formed and the
//     last is not;
//   - the number must be alone on the rest of its line: "#### 12 or 13" and
//     "#### 12 pens" have no answer;
//   - the marker is exactly four "#"; spaces after it may be missing;
//   - commas must group by three.
//
// Text on later lines is ignored, as is text before the marker on its line.
func ParseFinalAnswer(completion string) (value string, ok bool) {
	line, _, ok := finalLine(completion)
	if !ok {
		return "", false
	}
	return normaliseNumber(line)
}

// finalLine returns the text between the last marker and the end of its
// line, and what follows that line. It is false where there is no marker.
func finalLine(s string) (line, rest string, ok bool) {
	i := strings.LastIndex(s, marker)
	if i < 0 || i > 0 && s[i-1] == '#' {
		return "", "", false
	}
	line, rest, _ = strings.Cut(s[i+len(marker):], "\n")
	return line, rest, true
}

// Category is the outcome of one completion. Every completion has exactly one.
type Category uint8

const (
	// Unformatted: the completion did not end by itself, or its last "####" is
	// missing or no number.
	Unformatted Category = iota
	// FormattedWrong: a well-formed final answer that is not the gold one.
	FormattedWrong
	// FormattedRight: a well-formed final answer equal to the gold one.
	FormattedRight
)

// String returns the category's name in metrics and tables.
func (c Category) String() string {
	switch c {
	case FormattedRight:
		return "formatted_right"
	case FormattedWrong:
		return "formatted_wrong"
	}
	return "unformatted"
}

// Verdict is the result of grading one completion.
type Verdict struct {
	Formatted bool // format reward 1
	Right     bool // answer reward 1; implies Formatted
	Category  Category
	// Value is the final answer that was read; empty when not Formatted.
	Value string
}

// Grade compares a completion with the gold answer. ended says that the policy
// closed the completion by itself (with <eos>) rather than at the token limit.
//
//	format reward = 1 iff ended and the last "####" is followed by a number
//	answer reward = 1 iff, besides, that number equals gold ([SameNumber])
func Grade(completion string, ended bool, gold string) Verdict {
	if !ended {
		return Verdict{}
	}
	value, ok := ParseFinalAnswer(completion)
	if !ok {
		return Verdict{}
	}
	v := Verdict{Formatted: true, Category: FormattedWrong, Value: value}
	if SameNumber(value, gold) {
		v.Right, v.Category = true, FormattedRight
	}
	return v
}
