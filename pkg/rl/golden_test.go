package rl

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"grpo/internal/golden"
)

// Tolerances of all comparisons with reference data.
const rtol, atol = 1e-5, 1e-6

func TestMain(m *testing.M) {
	// The properties of the loss are checked for each of about 200 configurations; a
	// hundred draws for each are more than needed. -rapid.checks overrides it.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// sharedFile reads a file under the reference data next to the repository, or
// skips the test.
func sharedFile(t *testing.T, name string) []byte {
	t.Helper()
	return golden.File(t, "golden", name)
}

func unmarshal(t *testing.T, data []byte, v any, unused ...string) {
	t.Helper()
	golden.Decode(t, "reference cases", data, v, unused...)
}

// array is a nested list of numbers, flattened; null is NaN, a bool 0 or 1.
type array []float64

func (a *array) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*a = flatten(nil, v)
	return nil
}

func flatten(out array, v any) array {
	switch v := v.(type) {
	case nil:
		return append(out, math.NaN())
	case bool:
		if v {
			return append(out, 1)
		}
		return append(out, 0)
	case float64:
		return append(out, v)
	case []any:
		for _, e := range v {
			out = flatten(out, e)
		}
	}
	return out
}

func (a array) bools() []bool {
	out := make([]bool, len(a))
	for i, v := range a {
		out[i] = v != 0
	}
	return out
}

// column returns column j of a matrix with n columns.
func (a array) column(j, n int) []float64 {
	out := make([]float64, 0, len(a)/n)
	for i := j; i < len(a); i += n {
		out = append(out, a[i])
	}
	return out
}

func near(got, want float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	return got == want || math.Abs(got-want) <= atol+rtol*math.Abs(want)
}

func sameValue(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !near(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameValues(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if !near(got[i], want[i]) {
			t.Errorf("%s[%d]: got %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// samePointer compares a metric that may be absent.
func samePointer(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: got nil, want %v", what, want)
		return
	}
	sameValue(t, what, *got, want)
}

// poison puts NaN where the mask is false: no result may change.
func poison(x []float64, mask []bool) []float64 {
	out := append([]float64(nil), x...)
	for i := range out {
		if !mask[i] {
			out[i] = math.NaN()
		}
	}
	return out
}
