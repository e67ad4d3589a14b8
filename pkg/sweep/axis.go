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
	"grpo/internal/yamldoc"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/elementary"
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

// spaced expands a value of an axis of the form log(LOW,HIGH,n=N): N values from LOW to HIGH, spaced
// evenly on a logarithmic scale. The ends are as written; the values between them are rounded to
// three significant digits, and for an integer key to integers. Any other value is returned as it is.
func spaced(k config.Key, value string) ([]string, error) {
	inner, ok := strings.CutPrefix(value, "log(")
	if !ok || strings.HasSuffix(k.Path, "expr") { // a formula may begin with a logarithm
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
		v := elementary.Exp(elementary.Log(low) + float64(i)/float64(n-1)*(elementary.Log(high)-elementary.Log(low)))
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

// labels of keys whose names don't read well.
var labels = map[string]string{
	"train.n_grpo_steps":         "GRPO steps",
	"algorithm.beta":             "KL weight (beta)",
	"algorithm.gamma":            "discount (gamma)",
	"algorithm.type":             "algorithm",
	"algorithm.gae_lambda":       "GAE lambda",
	"train.lr_scheduler":         "learning rate schedule",
	"train.warmup_steps":         "warm-up steps",
	"train.adam_betas":           "AdamW betas",
	"train.adam_eps":             "AdamW eps",
	"rollout.sampling_top_p":     "sampling top-p",
	"rollout.sampling_top_k":     "sampling top-k",
	"algorithm.kl_estimator":     "KL estimator",
	"algorithm.kl_in":            "KL in",
	"algorithm.cliprange":        "clip range",
	"algorithm.epsilon_high":     "upper clip range",
	"reward.functions":           "reward functions",
	"algorithm.scale_rewards":    "scale_rewards",
	"algorithm.loss_expr":        "loss",
	"algorithm.advantage_expr":   "advantage",
	"algorithm.dynamic_sampling": "dynamic sampling",
}

// shortName is the name of a key in the names of arms and folders.
func shortName(path string) string {
	if path == analysis.RateKey {
		return "lr"
	}
	return yamldoc.LastPart(path)
}

// labelOf is the default label of a key in figures and tables.
func labelOf(path string) string {
	if s, ok := labels[path]; ok {
		return s
	}
	return strings.ReplaceAll(yamldoc.LastPart(path), "_", " ")
}

// canonical writes a value as in the name of an arm: 3e-5 for 0.00003, lists as in YAML.
// A string that is no value of the key's type is unchanged;
// resolving the arm reports it.
func canonical(k config.Key, text string) string {
	if k.Kind != reflect.String {
		text = strings.TrimSpace(text)
	}
	switch k.Kind {
	case reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return textutil.Number(f + 0)
		}
	case reflect.Int, reflect.Uint64:
		return strings.TrimPrefix(text, "+")
	case reflect.Slice, reflect.Array:
		if list, err := k.Format(text); err == nil {
			return list
		}
	}
	return text
}
