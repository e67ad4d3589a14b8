// Package grader decides whether an answer, written as people and models write
// mathematics, is the gold answer. Its verdicts are those of the assignment's
// grader (Stanford CS336, assignment 5: drgrpo_grader.py in its fast mode, which
// descends from Dr. GRPO's understand-r1-zero and from the graders of the MATH
// data set and of PRM800K), quirks included, because rewards are compared with
// that grader's. The code is our own.
//
// An answer is right if either of two routes says so:
//
//   - spelling ([sameSpelling]): both sides are rewritten by the rules of the
//     MATH data set (units go, \frac12 becomes \frac{1}{2}, "x = 5" becomes "5")
//     and must then be the same text;
//   - value ([sameValue]): both sides become plain text (LaTeX resolved, units and
//     percent signs gone, numbers canonical). They are equal as text, or they are
//     tuples of equal length whose members are equal: an integer only to the same
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
//   - "1,234,567,890" is not 1234567890: of three commas in a row one stays.
//   - Numbers within 1e-7 of an integer are that integer; integers are compared
//     as float64, which have 53 bits.
//
// # Differences on purpose
//
//   - The original hands the two sides, pasted into one expression, to Python's
//     eval by way of sympy and may run without end. Here each side is parsed by
//     itself ("2)(\pi" is no expression), nothing is evaluated but arithmetic, and
//     every cost has a limit ([MaxLength] and the limits in polynomial.go): beyond
//     a limit answers are unequal unless their spelling agrees.
//   - An integer with leading zeros is no number in an expression; the original
//     reads "(01)" as 0 times 1 and finds it equal to "(0)".
//   - Arithmetic is exact where sympy rounds to binary floating point: 0.1+0.2
//     is 0.3, and 2**0.5 is sqrt(2).
//   - Equality is that of rational expressions in variables, pi, square roots,
//     logarithms and opaque powers, with factorials of small integers. What
//     sympy's simplify finds beyond that (nested radicals, Boolean tricks) is
//     unequal here.
//   - LaTeX is resolved for the macros of mathematics only (macros.go); an answer
//     with an environment (a matrix), an accent or a \mathbb keeps its source
//     text, so that only equal spellings are equal.
package grader

import "strings"

// MaxLength is the longest answer, in bytes, that is graded. Longer answers and
// gold answers are unequal to everything.
const MaxLength = 1024

// Equal reports whether answer is right for gold. If gold holds a \boxed{...},
// only the content of its last one counts; an unclosed one makes every answer
// wrong. The answer is taken as it is (see [Boxed]).
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

// Boxed returns what stands between the braces of the last \boxed{...} of a
// text. It is false where there is none, where the last one is not closed, and
// where a brace does not follow at once. The cost is linear.
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
