package words

import (
	"strconv"
	"strings"
)

// Number formats a number as people type it, with the fewest digits that read back to it: 1e-5 and
// 1e6, not Go's 1e-05 and 1e+06.
func Number(v float64) string { return Exponent(strconv.FormatFloat(v, 'g', -1, 64)) }

// Rounded formats a computed number for people, with 6 significant digits: 0.05, not
// 0.04999999999999999.
func Rounded(v float64) string { return Exponent(strconv.FormatFloat(v, 'g', 6, 64)) }

// Exponent rewrites the exponent of a number that Go formatted as people type it.
func Exponent(number string) string {
	mantissa, exponent, ok := strings.Cut(number, "e")
	if !ok || exponent == "" {
		return number
	}
	sign := strings.TrimPrefix(exponent[:1], "+")
	return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
}
