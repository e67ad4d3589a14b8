// Package grader decides whether an answer, written as people and models write mathematics, is the
// gold answer. Its verdicts are those of the assignment's grader (Stanford CS336, assignment 5:
// drgrpo_grader.py in its fast mode, which descends from Dr. GRPO's understand-r1-zero and from the
// graders of the MATH data set and of PRM800K), quirks included, because rewards are compared with
// that grader's. This is an independent implementation.
//
// An answer is right if it is equal to gold by either of two routes:
//
//   - spelling ([sameSpelling]): both sides are rewritten by the rules of the
//     MATH data set (units are removed, \frac12 becomes \frac{1}{2}, "x = 5" becomes
//     "5") and must then be the same string;
//   - value ([sameValue]): both sides become plain text (LaTeX converted, units and
//     percent signs removed, numbers canonical). They are equal as strings, or they
//     are tuples of equal length whose members are equal: an integer only to the same
//     integer, a fraction a/b only to the same unreduced fraction, everything
//     else if the difference of the two expressions is zero.
//
// # Quirks that are kept
//
//   - "72/1", "144/2" and "70+2" are not 72, but "14/4" is 3.5.
//   - Units come from a list: "72 miles" is 72, "72 dollars" is not.
//   - "50%" is 50, not 0.5.
//   - \frac{1+x}{2} is read as 1+x/2, \sqrt[3]{2} as sqrt(2), and
//     -1\frac{1}{2} as -1+1/2.
//   - "1,234,567,890" is not 1234567890: one of the three commas is kept.
//   - Numbers within 1e-7 of an integer are that integer; integers are compared
//     as float64, which have 53 bits.
//
// # Intended differences
//
//   - The original joins the two sides into one expression for Python's eval, by way
//     of sympy, and may never terminate. Here each side is parsed separately
//     ("2)(\pi" is not an expression), only arithmetic is evaluated, and every cost
//     has a limit ([MaxLength] and the limits in polynomial.go): beyond a limit
//     answers are unequal unless their spelling agrees.
//   - An integer with leading zeros is not a number in an expression; the original
//     reads "(01)" as 0 times 1, which equals "(0)".
//   - Arithmetic is exact where sympy rounds to binary floating point: 0.1+0.2
//     is 0.3, and 2**0.5 is sqrt(2).
//   - Equality is that of rational expressions in variables, pi, square roots,
//     logarithms and opaque powers, with factorials of small integers. What
//     sympy's simplify finds beyond that (nested radicals, Boolean tricks) is
//     unequal here.
//   - LaTeX is converted for the macros of mathematics only (latex.go); an answer
//     with an environment (a matrix), an accent or a \mathbb keeps its source
//     text, so that only equal spellings are equal.
package grader

import "strings"

// MaxLength is the longest answer, in bytes, that is graded. Longer answers and
// gold answers are unequal to everything.
const MaxLength = 1024

// Equal reports whether answer is right for gold. If gold has a \boxed{...}, only
// the content of its last one counts; an unclosed one makes every answer wrong. A
// \boxed in answer is not opened (see [Boxed]).
func Equal(answer, gold string) bool {
	if len(answer) > MaxLength || len(gold) > MaxLength {
		return false
	}
	if strings.Contains(gold, boxedMacro) {
		var ok bool
		if gold, ok = Boxed(gold); !ok {
			return false
		}
	}
	return sameSpelling(answer, gold) || sameValue(answer, gold)
}

const boxedMacro = `\boxed`

// Boxed returns the content of the last \boxed{...} of a string. It is false if there is none, if
// the last one is not closed, and if a brace does not follow immediately. The cost is linear.
func Boxed(text string) (content string, ok bool) {
	i := strings.LastIndex(text, boxedMacro)
	if i < 0 {
		return "", false
	}
	body := text[i+len(boxedMacro):]
	if !strings.HasPrefix(body, "{") {
		return "", false
	}
	depth := 0
	for j := range len(body) {
		switch body[j] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return body[1:j], true
			}
		}
	}
	return "", false
}
