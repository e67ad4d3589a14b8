package grader

import (
	"math"
	"regexp"
	"strings"
	"unicode"
)

// sameValue is the second route: equal as plain text, or tuple by tuple equal in
// value.
func sameValue(answer, gold string) bool {
	g, a := plain(gold), plain(answer)
	if g == a {
		return true
	}
	if a == "" {
		return false
	}
	gs, as := members(g), members(a)
	if len(gs) != len(as) || len(gs) > 1 && (g[0] != a[0] || g[len(g)-1] != a[len(a)-1]) {
		return false
	}
	for i := range gs {
		if !sameMember(as[i], gs[i]) {
			return false
		}
	}
	return true
}

// sameMember compares two expressions in plain form. Integers and fractions of
// integers must agree as they are written: an answer that leaves the last step
// undone is not an answer.
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
	fraction = regexp.MustCompile(`^-?[0-9]+.?/0*[1-9][0-9]*.?\n?$`)
	tower    = regexp.MustCompile(`\^[0-9]+\^|\^[0-9][0-9]+`)
	grouped  = regexp.MustCompile(`(\p{Nd}),(\p{Nd}{3})($|\P{Nd})`)
)

func isFraction(s string) bool { return fraction.MatchString(s) }

func isInteger(s string) bool {
	x, ok := parseFloat(ungroup(s))
	return ok && nearInteger(x)
}

// ungroup removes thousands commas: those between a digit and exactly three
// digits. A match takes the character after its digits along, so of a row of
// commas every other one goes at first, and the rest only where three digits
// still stand alone: hence the quirk of "1,234,567,890".
func ungroup(s string) string {
	for strings.Contains(s, ",") {
		t := grouped.ReplaceAllString(s, "$1$2$3")
		if t == s {
			break
		}
		s = t
	}
	return s
}

// mayCompare reports whether two sides may be compared as expressions: at most
// two different letters, "sqrt" and "frac" apart, no bracketed exponents and no
// exponents of two digits.
func mayCompare(s string) bool {
	if strings.Contains(s, "^{") || strings.Contains(s, "^(") || tower.MatchString(s) {
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
		for _, w := range strings.Fields("degree cm centimeter meter mile second minute hour day week month year foot feet inch yard") {
			us = append(us, unit{w, regexp.MustCompile(w + `(es)?(s)? *(\^[0-9]+)?`)})
		}
		return us
	}()
	degreeSign = regexp.MustCompile(`\^ *\\circ`)
	thinComma  = regexp.MustCompile(`,\\! *`)
	afterMinus = regexp.MustCompile(`- *`)
	mixed      = regexp.MustCompile(`([0-9]) +([0-9])`)
)

type unit struct {
	word    string
	pattern *regexp.Regexp // the word, its plural and its power
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
			s = u.pattern.ReplaceAllLiteralString(s, "")
		}
	}
	s = degreeSign.ReplaceAllLiteralString(s, "")
	if len(s) > 0 && s[0] == '{' && s[len(s)-1] == '}' {
		s = s[1 : len(s)-1]
	}
	s = thinComma.ReplaceAllLiteralString(s, "")
	if x, ok := parseFloat(s); ok && nearInteger(x) {
		s = integerText(math.RoundToEven(x))
	}
	if strings.Contains(s, `\`) {
		if t, err := latexText(s); err == nil {
			s = t
		}
	}
	s = afterMinus.ReplaceAllLiteralString(s, "-")
	s = mixed.ReplaceAllString(s, "$1+$2") // 7 3/4 is 7+3/4
	s = strings.ToLower(remove(s, " ", "{", "}"))
	if isInteger(s) {
		// Rounding towards zero, where the step above rounds to the nearest: a
		// difference only for grouped numbers just below an integer.
		if x, ok := parseFloat(remove(s, ",")); ok {
			s = integerText(math.Trunc(x))
		}
	}
	return s
}
