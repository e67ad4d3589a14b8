package words

import (
	"strconv"
	"strings"
)

// Number writes a number as people type it, in as few digits as read back to it:
// 1e-5 and 1e6, not Go's 1e-05 and 1e+06.
func Number(v float64) string { return Exponent(strconv.FormatFloat(v, 'g', -1, 64)) }

// Exponent writes the exponent of a number that Go formatted as people type it.
func Exponent(number string) string {
	mantissa, exponent, ok := strings.Cut(number, "e")
	if !ok || exponent == "" {
		return number
	}
	sign := strings.TrimPrefix(exponent[:1], "+")
	return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
}
