package grader

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"grpo/internal/pattern"
)

// sameValue is the second route: equal as plain text, or equal in the value of each
// member.
func sameValue(answer, gold string) bool {
	g, a := plain(gold), plain(answer)
	if g == a {
		return true
	}
	if a == "" {
		return false
	}
	gs, as := members(g), members(a)
	if len(gs) > 1 && (g[0] != a[0] || g[len(g)-1] != a[len(a)-1]) {
		return false
	}
	return slices.EqualFunc(as, gs, sameMember)
}

// sameMember compares two expressions in plain form. Integers and fractions of
// integers must agree as they are written: an unfinished calculation is not an
// answer.
func sameMember(answer, gold string) bool {
	switch {
	case isFraction(gold) && isFraction(answer):
		return gold == answer
	case isInteger(gold) != isInteger(answer):
		return false
	}
	return mayCompare("("+gold+")-("+answer+")") && sameExpression(gold, answer)
}

var (
	fraction = pattern.Of(`^-?[0-9]+.?/0*[1-9][0-9]*.?\n?$`)
	tower    = pattern.Of(`\^[0-9]+\^|\^[0-9][0-9]+`)
	grouped  = pattern.Of(`(\p{Nd}),(\p{Nd}{3})($|\P{Nd})`)
)

func isFraction(s string) bool { return fraction().MatchString(s) }

func isInteger(s string) bool {
	x, ok := parseFloat(ungroup(s))
	return ok && nearInteger(x)
}

// ungroup removes thousands commas: those between a digit and exactly three digits.
// A match includes the character after its digits, so the first pass removes every
// other comma of a row, and the next one only those that still have exactly three
// digits after them: hence the quirk of "1,234,567,890".
func ungroup(s string) string {
	for strings.Contains(s, ",") {
		t := grouped().ReplaceAllString(s, "$1$2$3")
		if t == s {
			break
		}
		s = t
	}
	return s
}

// mayCompare reports whether two sides can be compared as expressions: at most two
// different letters outside "sqrt" and "frac", no bracketed exponents and no
// exponents of two digits.
func mayCompare(s string) bool {
	if strings.Contains(s, "^{") || strings.Contains(s, "^(") || tower().MatchString(s) {
		return false
	}
	var seen []rune
	for _, r := range remove(s, "sqrt", "frac") {
		if unicode.IsLetter(r) && !strings.ContainsRune(string(seen), r) {
			if seen = append(seen, r); len(seen) > 2 {
				return false
			}
		}
	}
	return true
}

// members splits a tuple or an interval at its commas; anything else is one
// member.
func members(s string) []string {
	s = ungroup(s)
	if s == "" {
		return nil
	}
	const brackets = "()[]"
	if n := len(s); n > 2 && strings.IndexByte(brackets, s[0]) >= 0 && strings.IndexByte(brackets, s[n-1]) >= 0 &&
		!strings.ContainsAny(s[1:n-1], brackets) {
		list := strings.Split(s[1:n-1], ",")
		for i, m := range list {
			list[i] = trim(m)
		}
		return list
	}
	return []string{s}
}

var (
	signsAndAnd = []string{`\%`, "%", `\$`, "$", "$", "", "%", "", " or ", " , ", " and ", " , ",
		"million", "*10^6", "billion", "*10^9", "trillion", "*10^12"}
	units = func() (us []unit) {
		const words = "degree cm centimeter meter mile second minute hour day week month year foot feet inch yard"
		for _, w := range strings.Fields(words) {
			us = append(us, unit{w, pattern.Of(w + `(es)?(s)? *(\^[0-9]+)?`)})
		}
		return us
	}()
	degreeSign = pattern.Of(`\^ *\\circ`)
	thinComma  = pattern.Of(`,\\! *`)
	afterMinus = pattern.Of(`- *`)
	mixed      = pattern.Of(`([0-9]) +([0-9])`)
)

type unit struct {
	word    string
	pattern func() *regexp.Regexp // the word, its plural and its power
}

// plain rewrites an answer as plain text in lower case without spaces, in which
// numbers near an integer are that integer.
func plain(s string) string {
	if inner, ok := insideText(s); ok {
		s = inner
	}
	for i := 0; i < len(signsAndAnd); i += 2 {
		s = strings.ReplaceAll(s, signsAndAnd[i], signsAndAnd[i+1])
	}
	for _, u := range units {
		if strings.Contains(s, u.word) {
			s = u.pattern().ReplaceAllLiteralString(s, "")
		}
	}
	s = degreeSign().ReplaceAllLiteralString(s, "")
	if len(s) > 0 && s[0] == '{' && s[len(s)-1] == '}' {
		s = s[1 : len(s)-1]
	}
	s = thinComma().ReplaceAllLiteralString(s, "")
	if x, ok := parseFloat(s); ok && nearInteger(x) {
		s = integerText(math.RoundToEven(x))
	}
	if strings.Contains(s, `\`) {
		if t, ok := latexText(s); ok {
			s = t
		}
	}
	s = afterMinus().ReplaceAllLiteralString(s, "-")
	s = mixed().ReplaceAllString(s, "$1+$2") // 7 3/4 is 7+3/4
	s = strings.ToLower(remove(s, " ", "{", "}"))
	if isInteger(s) {
		// This truncates, whereas the step above rounds to the nearest integer. They
		// differ only for grouped numbers just below an integer.
		if x, ok := parseFloat(remove(s, ",")); ok {
			s = integerText(math.Trunc(x))
		}
	}
	return s
}

// The assignment's grader is written in Python. The functions below treat white space, numbers and
// words like Python.

// trim removes what Python's str.strip removes.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}

// isWord reports whether a regular expression's \w matches r.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// parseFloat reads what Python's float() reads, except infinities and NaN, which no
// caller needs: decimals and exponents, with white space around and single
// underscores inside, in the digits of any script.
func parseFloat(s string) (float64, bool) {
	var b strings.Builder
	prev := ' '
	for _, r := range trim(s) {
		if r > unicode.MaxASCII {
			r = asciiDigit(r)
		}
		digit := '0' <= r && r <= '9'
		switch {
		case r == '_':
			if prev < '0' || prev > '9' {
				return 0, false
			}
		case prev == '_' && !digit:
			return 0, false
		case digit || strings.ContainsRune("+-.eE", r):
			b.WriteRune(r)
		default:
			return 0, false
		}
		prev = r
	}
	if prev == '_' {
		return 0, false
	}
	// ParseFloat accepts exactly the rest of the grammar: letters other than "e" (hexadecimal,
	// "inf") are already rejected.
	x, err := strconv.ParseFloat(b.String(), 64)
	return x, err == nil
}

// asciiDigit maps a decimal digit of any script to 0..9, and other runes to -1. In
// Unicode the ten digits of a script are consecutive, zero first.
func asciiDigit(r rune) rune {
	if !unicode.Is(unicode.Nd, r) {
		return -1
	}
	n := rune(0)
	for unicode.Is(unicode.Nd, r-n-1) {
		n++
	}
	return '0' + n%10
}

// nearInteger reports whether x is within 1e-7 of an integer.
func nearInteger(x float64) bool { return math.Abs(x-math.RoundToEven(x)) <= 1e-7 }

// integerText writes a float64 without fraction with all its digits.
func integerText(x float64) string {
	if x == 0 {
		return "0" // not "-0"
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
