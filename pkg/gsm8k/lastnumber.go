package gsm8k

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

const digits = "0123456789"

// LastNumber returns the last decimal number of a text, without commas, "$" and
// a plus sign: the assignment's parser for GSM8K (parse_gsm8k_response) and the
// most lenient reading of a completion.
//
// Commas belong to the number where they group its digits by three, so that
// "1,234" is one number and "12, 34" and "12,34" are two. A minus counts if it
// touches the number, or its "$", and no letter, digit or closing bracket stands
// before it: "-7" is negative, "10-7" ends in 7. Neither exponents nor fractions
// are numbers: "1/2" ends in 2. The cost is linear.
func LastNumber(text string) (value string, ok bool) {
	end := strings.LastIndexAny(text, digits) + 1
	if end == 0 {
		return "", false
	}
	start := digitsBefore(text, end)
	if start > 0 && text[start-1] == '.' { // so far it was the fraction
		start--
		if whole := wholeBefore(text, start); whole < start {
			start = whole
		}
	} else {
		start = wholeBefore(text, end)
	}
	return normaliseNumber(signBefore(text[:start]) + text[start:end])
}

// digitsBefore returns where the run of digits that ends at end begins.
func digitsBefore(s string, end int) int {
	for end > 0 && s[end-1] >= '0' && s[end-1] <= '9' {
		end--
	}
	return end
}

// wholeBefore returns where the integer that ends at end begins, with its
// thousands commas. A group of three digits may have another group before it;
// one of four or more stands alone, and ends what stands to its right.
func wholeBefore(s string, end int) int {
	start := digitsBefore(s, end)
	for end-start == 3 && start > 0 && s[start-1] == ',' {
		first := digitsBefore(s, start-1)
		if n := start - 1 - first; n < 1 || n > 3 {
			break
		}
		end, start = start-1, first
	}
	return start
}

// signBefore returns "-" if what precedes a number ends in a minus that is a
// sign and no operator.
func signBefore(s string) string {
	s = strings.TrimSuffix(s, "$")
	s, ok := strings.CutSuffix(s, "-")
	if !ok {
		return ""
	}
	r, _ := utf8.DecodeLastRuneInString(strings.TrimSuffix(s, "$"))
	if r == ')' || unicode.IsLetter(r) || unicode.IsDigit(r) {
		return ""
	}
	return "-"
}

// lastNumberReward is 1 iff the last number of the completion is the gold one,
// whether the completion ended by itself or not. It is not scorable where gold is
// no number.
func lastNumberReward(in RewardInput) float64 {
	if !SameNumber(in.Problem.Gold, in.Problem.Gold) {
		return math.NaN()
	}
	value, ok := LastNumber(in.Completion)
	return indicator(ok && SameNumber(value, in.Problem.Gold))
}
