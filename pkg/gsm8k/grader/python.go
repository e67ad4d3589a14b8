package grader

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// The grader that this package follows is Python, and where its verdict hangs on
// what Python calls white space, a number or a word, these functions say the same.

// trim removes what Python's str.strip removes.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}

// isWord reports whether a regular expression's \w matches r.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// parseFloat reads what Python's float() reads, except infinities and NaN, which
// no caller has a use for: decimals and exponents, with white space around and
// single underscores inside, in the digits of any script.
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
	// ParseFloat takes the rest of the grammar, and nothing more: letters other
	// than "e" (hexadecimal, "inf") did not come this far.
	x, err := strconv.ParseFloat(b.String(), 64)
	return x, err == nil
}

// asciiDigit maps a decimal digit of any script to 0..9, and other runes to -1.
// Unicode lists the decimal digits of a script as ten neighbours, zero first, in
// ranges that hold whole sets.
func asciiDigit(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi {
			return '0' + (r-lo)%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi {
			return '0' + (r-lo)%10
		}
	}
	return -1
}

// nearInteger reports whether x lies within 1e-7 of an integer.
func nearInteger(x float64) bool { return math.Abs(x-math.RoundToEven(x)) <= 1e-7 }

// integerText writes a float64 without fraction with all its digits.
func integerText(x float64) string {
	if x == 0 {
		return "0" // not "-0"
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
