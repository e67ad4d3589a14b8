package gsm8k

import "strings"

// normaliseNumber reads a decimal number as people write it and returns it
// without decoration. The grammar, after trimming white space:
//
//	[+-]? [$]? [+-]? (digits | grouped)? ("." digits)? "."?
//
// with at most one sign, at least one digit, and commas only between groups of
// three ("1,234" but not "12,34"). Exponents, fractions and units are no
// numbers. The sign stays only if it is a minus.
func normaliseNumber(s string) (string, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), ".")
	neg, signed, dollar := false, false, false
prefix:
	for s != "" {
		switch c := s[0]; {
		case (c == '+' || c == '-') && !signed:
			signed, neg = true, c == '-'
		case c == '$' && !dollar:
			dollar = true
		default:
			break prefix
		}
		s = s[1:]
	}
	whole, frac, point := strings.Cut(s, ".")
	if point && !allDigits(frac) || whole == "" && !point {
		return "", false
	}
	if whole != "" {
		var ok bool
		if whole, ok = ungroup(whole); !ok {
			return "", false
		}
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	if neg {
		b.WriteByte('-')
	}
	if whole == "" {
		whole = "0"
	}
	b.WriteString(whole)
	if point {
		b.WriteByte('.')
		b.WriteString(frac)
	}
	return b.String(), true
}

// ungroup removes thousands commas.
func ungroup(s string) (string, bool) {
	if !strings.Contains(s, ",") {
		return s, allDigits(s)
	}
	groups := strings.Split(s, ",")
	for i, g := range groups {
		if !allDigits(g) || len(g) > 3 || i > 0 && len(g) != 3 {
			return "", false
		}
	}
	return strings.Join(groups, ""), true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// canonicalNumber maps all spellings of one number to one string: no leading
// zeros, no trailing zeros after the point, no negative zero. Its argument
// comes from normaliseNumber.
//
// Equal strings are equal numbers, so a comparison needs neither floating point,
// which would round, nor big integers, whose cost a hostile length could drive.
func canonicalNumber(s string) string {
	s, neg := strings.CutPrefix(s, "-")
	whole, frac, _ := strings.Cut(s, ".")
	whole = strings.TrimLeft(whole, "0")
	frac = strings.TrimRight(frac, "0")
	if whole == "" && frac == "" {
		return "0"
	}
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		whole += "." + frac
	}
	if neg {
		whole = "-" + whole
	}
	return whole
}

// SameNumber reports whether a and b are both decimal numbers and equal,
// exactly: "72.0", "+72", "$72" and "72." are 72; "1,234" is 1234. Text that is
// no decimal number equals nothing, itself included; that holds for exponents
// ("1e3") and for fractions ("1/2") too. The cost is linear in the length.
func SameNumber(a, b string) bool {
	x, ok := normaliseNumber(a)
	if !ok {
		return false
	}
	y, ok := normaliseNumber(b)
	return ok && canonicalNumber(x) == canonicalNumber(y)
}
