package sweep

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// ParseAxis reads the argument of --axis, "KEY=V1,V2".
func ParseAxis(arg string) (AxisRequest, error) {
	key, values, ok := strings.Cut(arg, "=")
	if !ok {
		problem := fmt.Sprintf("--axis %s: no \"=\" (write --axis KEY=V1,V2)", textutil.Quote(arg))
		return AxisRequest{}, configError("read axis", problem)
	}
	key = strings.TrimSpace(key)
	from := "--axis " + textutil.Show(key)
	list, err := SplitValues(values)
	if err != nil {
		return AxisRequest{}, configError("read axis", fmt.Sprintf("%s: %v", from, err))
	}
	return AxisRequest{Key: key, Values: list, From: from}, nil
}

// SplitValues splits a list of values at its commas, except those within brackets and
// parentheses: "[answer],[answer, format]" has two values, and "log(1e-5,1e-2,n=8)",
// which [NewPlan] expands, is one.
func SplitValues(text string) ([]string, error) {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ',' && depth == 0:
			v := strings.TrimSpace(text[start:i])
			if v == "" && strings.TrimSpace(text) == "" {
				return nil, fmt.Errorf("there are no values (write V1,V2)")
			}
			if v == "" {
				return nil, fmt.Errorf("value %d of %s is empty", len(out)+1, textutil.Quote(text))
			}
			out = append(out, v)
			start = i + 1
		case text[i] == '[' || text[i] == '(':
			depth++
		case text[i] == ']' || text[i] == ')':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("the brackets of %s don't match", textutil.Quote(text))
	}
	return out, nil
}

// axis resolves an axis of a request.
func axis(a AxisRequest) (sweepdir.Axis, error) {
	fail := func(format string, args ...any) (sweepdir.Axis, error) {
		return sweepdir.Axis{}, fmt.Errorf("%s%w", place(a.From), fmt.Errorf(format, args...))
	}
	k, err := config.FindKey(a.Key)
	switch {
	case err != nil:
		return fail("%w", err)
	case k.Path == "seed":
		return fail("seed can't be an axis: every arm is run with every seed (give them as seeds)")
	case config.OfLauncher(k.Path):
		return fail("%s can't be an axis: it is not part of a run", k.Path)
	case len(a.Values) == 0:
		return fail("%s has no values", k.Path)
	}
	out := sweepdir.Axis{Key: k.Path, Label: cmp.Or(a.Label, labelOf(k.Path)), Short: shortName(k.Path)}
	var values []string
	for _, text := range a.Values {
		all, err := spaced(k, text)
		if err != nil {
			return fail("%w", err)
		}
		values = append(values, all...)
	}
	for i, text := range values {
		v := canonical(k, text)
		if j := slices.Index(out.Values, v); j >= 0 {
			spelled := ""
			if first := values[j]; first != v || text != v {
				spelled = fmt.Sprintf(" (written %s and %s)", first, text)
			}
			return fail("%s: the values %d and %d, %s, are the same%s", k.Path, j+1, i+1, v, spelled)
		}
		out.Values = append(out.Values, v)
	}
	if k.Kind == reflect.Float64 {
		out.Written = written(values, !slices.Equal(values, a.Values), out.Values)
	}
	out.Log = isLog(k, out.Values)
	return out, nil
}

// written are numbers as they were typed, or if they were spaced between two that were typed, in the
// notation of these; nil if they are the same as the canonical ones.
func written(values []string, spaced bool, canonical []string) []string {
	out := make([]string, len(values))
	for i, text := range values {
		out[i] = strings.TrimSpace(text)
	}
	if spaced {
		out = textutil.Alike(out)
	}
	if slices.Equal(out, canonical) {
		return nil
	}
	return out
}

// isLog reports positive numbers that span a factor of 10 or more.
func isLog(k config.Key, values []string) bool {
	if !slices.Contains([]reflect.Kind{reflect.Float64, reflect.Int, reflect.Uint64}, k.Kind) {
		return false
	}
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f > 0) || math.IsInf(f, 0) {
			return false
		}
		low, high = min(low, f), max(high, f)
	}
	return high >= 10*low*(1-1e-12)
}
