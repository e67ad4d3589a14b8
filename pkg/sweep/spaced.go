package sweep

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
)

// spaced expands a value of an axis of the form log(LOW,HIGH,n=N): N values from LOW to HIGH, spaced
// evenly on a logarithmic scale. The ends are as written; the values between them are rounded to
// three significant digits, and for an integer key to integers. Any other value is returned as it is.
func spaced(k config.Key, value string) ([]string, error) {
	inner, ok := strings.CutPrefix(value, "log(")
	if !ok {
		return []string{value}, nil
	}
	fail := func(format string, args ...any) ([]string, error) {
		return nil, fmt.Errorf("%s: %s", textutil.Show(value), fmt.Sprintf(format, args...))
	}
	isInteger := k.Kind == reflect.Int || k.Kind == reflect.Uint64
	if !isInteger && k.Kind != reflect.Float64 {
		return fail("%s is no number, and only numbers can be spaced", k.Path)
	}
	inner, closed := strings.CutSuffix(inner, ")")
	parts := strings.Split(inner, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if !closed || len(parts) != 3 || !strings.HasPrefix(parts[2], "n=") {
		return fail("write log(LOW,HIGH,n=N), such as log(1e-5,1e-2,n=8)")
	}
	low, errLow := strconv.ParseFloat(parts[0], 64)
	high, errHigh := strconv.ParseFloat(parts[1], 64)
	n, errN := strconv.Atoi(strings.TrimSpace(parts[2][len("n="):]))
	switch {
	case errLow != nil || errHigh != nil || !(0 < low && low < high) || math.IsInf(high, 0):
		return fail("LOW and HIGH must be numbers with 0 < LOW < HIGH")
	case errN != nil || n < 2 || n > maxRuns:
		return fail("n must be a whole number of 2 to %d", maxRuns)
	}
	out := []string{parts[0]}
	for i := 1; i < n-1; i++ {
		v := math.Exp(math.Log(low) + float64(i)/float64(n-1)*(math.Log(high)-math.Log(low)))
		text := strconv.FormatFloat(v, 'g', 3, 64)
		if isInteger {
			// The rounded number is parsed again: 1.23e+03 is no integer in the notation of a key.
			rounded, _ := strconv.ParseFloat(text, 64)
			text = strconv.FormatFloat(math.Round(rounded), 'f', 0, 64)
		}
		out = append(out, text)
	}
	return append(out, parts[1]), nil
}
