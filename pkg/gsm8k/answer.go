package gsm8k

import (
	"strings"

	"grpo/internal/pattern"
)

const marker = "####"

// ParseFinalAnswer returns the number after the last "####" of a completion,
// without commas, "$", a leading "+" and a trailing full stop.
//
// GSM8K's own scorer searches for `#### (\-?[0-9\.\,]+)`: it takes the first match
// and ignores the rest of the line, so that "#### 12 or 13" counts as 12. A policy
// could exploit that as a reward, so this parser is stricter:
//
//   - the last marker counts, even if an earlier one is well formed and the
//     last is not;
//   - the number must be alone on the rest of its line: "#### 12 or 13" and
//     "#### 12 pens" have no answer;
//   - the marker is exactly four "#"; spaces after it are optional;
//   - commas must group by three.
//
// Later lines are ignored, and so is text before the marker on its line.
func ParseFinalAnswer(completion string) (value string, ok bool) {
	line, _, ok := finalLine(completion)
	if !ok {
		return "", false
	}
	return normaliseNumber(line)
}

// finalLine returns the text between the last marker and the end of its line, and the text after
// that line. It is false if there is no marker.
func finalLine(s string) (line, rest string, ok bool) {
	i := strings.LastIndex(s, marker)
	if i < 0 || i > 0 && s[i-1] == '#' {
		return "", "", false
	}
	line, rest, _ = strings.Cut(s[i+len(marker):], "\n")
	return line, rest, true
}

var numberForm = pattern.Of(`^(?:([+-]?)\$?|\$([+-]))([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(\.[0-9]+)?\.?$`)

// normaliseNumber reads a decimal number as people write it and returns it
// without decoration. The grammar, after trimming white space:
//
//	[+-]? [$]? [+-]? (digits | grouped)? ("." digits)? "."?
//
// with at most one sign, at least one digit, and commas only between groups of
// three ("1,234" but not "12,34"). Exponents, fractions and units are not numbers.
// Only a minus sign is kept.
func normaliseNumber(s string) (string, bool) {
	m := numberForm().FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return "", false
	}
	whole, fraction := strings.ReplaceAll(m[3], ",", ""), m[4]
	if whole == "" {
		if fraction == "" {
			return "", false
		}
		whole = "0"
	}
	if m[1] == "-" || m[2] == "-" {
		whole = "-" + whole
	}
	return whole + fraction, true
}

// canonicalNumber maps all spellings of one number to one string: no leading
// zeros, no trailing zeros after the point, no negative zero. Its argument
// comes from normaliseNumber.
//
// Numbers are equal if and only if these strings are, so a comparison needs neither
// floating point, which would round, nor big integers, whose cost long untrusted
// input could drive up.
func canonicalNumber(s string) string {
	s, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(s, ".")
	whole = strings.TrimLeft(whole, "0")
	fraction = strings.TrimRight(fraction, "0")
	if whole == "" {
		if fraction == "" {
			return "0"
		}
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return whole
}

// SameNumber reports whether a and b are both decimal numbers and exactly equal:
// "72.0", "+72", "$72" and "72." are 72; "1,234" is 1234. Anything else equals
// nothing, not even itself; that includes exponents ("1e3") and fractions ("1/2").
// The cost is linear in the length.
func SameNumber(a, b string) bool {
	x, ok := normaliseNumber(a)
	if !ok {
		return false
	}
	y, ok := normaliseNumber(b)
	return ok && canonicalNumber(x) == canonicalNumber(y)
}
