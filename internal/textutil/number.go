package textutil

import (
	"math"
	"slices"
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
	digits := strings.TrimLeft(exponent[1:], "0")
	if digits == "" {
		return mantissa
	}
	return mantissa + "e" + strings.TrimPrefix(exponent[:1], "+") + digits
}

// Alike writes numbers in one notation: all with an exponent if one of them has one or is below 1e-4,
// as 1e-4 next to 1e-5. What is no number is unchanged.
func Alike(values []string) []string {
	out := slices.Clone(values)
	exponent := false
	for i, s := range values {
		v, err := strconv.ParseFloat(s, 64)
		if err == nil && v != 0 && !math.IsInf(v, 0) && !math.IsNaN(v) {
			exponent = exponent || strings.ContainsAny(s, "eE") || math.Abs(v) < 1e-4
			out[i] = Exponent(strconv.FormatFloat(v, 'e', -1, 64))
		}
	}
	if !exponent {
		return slices.Clone(values)
	}
	return out
}
