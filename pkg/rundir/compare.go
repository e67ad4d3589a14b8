package rundir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"grpo/internal/pattern"
)

// CompareMetrics returns nil if a and b are bit-identical apart from times; otherwise the error
// names the first line and a field that differ. Lines are compared as written: numbers that are not
// finite are null.
func CompareMetrics(a, b []Metrics) error {
	return compareLines("metrics", a, b, func(m Metrics) (int, any) { m.Time = Timing{}; return m.Step, m })
}

// CompareEvals is [CompareMetrics] for the lines of eval.jsonl.
func CompareEvals(a, b []Eval) error {
	return compareLines("evaluations", a, b, func(e Eval) (int, any) { return e.Step, e })
}

// CompareSamples is [CompareMetrics] for the lines of samples.jsonl.
func CompareSamples(a, b []Sample) error {
	return compareLines("samples", a, b, func(s Sample) (int, any) { return s.Step, s })
}

func compareLines[T any](what string, a, b []T, line func(T) (step int, compared any)) error {
	for i := range min(len(a), len(b)) {
		step, x := line(a[i])
		_, y := line(b[i])
		if err := same(x, y); err != nil {
			return fmt.Errorf("compare %s: line %d (step %d): %w", what, i+1, step, err)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("compare %s: %d lines and %d lines (the first %d are equal)", what, len(a), len(b),
			min(len(a), len(b)))
	}
	return nil
}

// notUTF8 finds how the encoder writes a byte that is not UTF-8; the character itself is written
// without an escape.
var notUTF8 = pattern.Of(`(?:^|[^\\])(?:\\\\)*\\ufffd`)

// same returns an error that names a field in which the JSON of x and y differs. A missing key
// equals null.
func same(x, y any) error {
	var decoded [2]any
	var texts [2][]byte
	for i, v := range []any{x, y} {
		var err error
		if texts[i], err = Marshal(v); err != nil {
			return err
		}
		if notUTF8().Match(texts[i]) {
			return fmt.Errorf("a string is not UTF-8: %s", texts[i])
		}
	}
	if bytes.Equal(texts[0], texts[1]) {
		return nil
	}
	for i, text := range texts {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber() // every bit of a number
		if err := dec.Decode(&decoded[i]); err != nil {
			return err
		}
	}
	return sameValue("", decoded[0], decoded[1])
}

func sameValue(path string, x, y any) error {
	a, isObject := x.(map[string]any)
	b, both := y.(map[string]any)
	if isObject && both {
		keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			if err := sameValue(strings.TrimPrefix(path+"."+k, "."), a[k], b[k]); err != nil {
				return err
			}
		}
		return nil
	}
	if reflect.DeepEqual(x, y) {
		return nil
	}
	s, _ := marshalFinite(x) // x and y were JSON
	t, _ := marshalFinite(y)
	return fmt.Errorf("%s: %s and %s", path, s, t)
}
