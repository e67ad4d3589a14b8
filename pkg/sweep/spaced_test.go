package sweep

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/config"
)

func spacedValues(t *testing.T, key, value string) ([]string, error) {
	t.Helper()
	k, err := config.FindKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return spaced(k, value)
}

func TestSpaced(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"lr", "1e-3", "1e-3"},
		{"lr", "log(1e-5,1e-2,n=8)", "1e-5 2.68e-05 7.2e-05 0.000193 0.000518 0.00139 0.00373 1e-2"},
		{"lr", "log( 1e-4 , 1e-2, n= 3)", "1e-4 0.001 1e-2"},
		{"lr", "log(0.12345,1,n=2)", "0.12345 1"},
		{"group_size", "log(4,64,n=5)", "4 8 16 32 64"},
		{"group_size", "log(4,100000,n=3)", "4 632 100000"},
	} {
		got, err := spacedValues(t, test.key, test.value)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s %s: %v, %v", test.key, test.value, got, err)
		}
	}
	for value, want := range map[string]string{
		"log(1e-2,1e-4,n=3)": "0 < LOW < HIGH", "log(0,1,n=3)": "0 < LOW < HIGH", "log(a,1,n=3)": "0 < LOW < HIGH",
		"log(1,Inf,n=3)": "0 < LOW < HIGH", "log(NaN,1,n=3)": "0 < LOW < HIGH", "log(1,2,n=1)": "2 to 10000",
		"log(1,2,n=x)": "2 to 10000", "log(1,2,3)": "write log(", "log(1,2)": "write log(", "log(1,2,n=3": "write log(",
	} {
		if _, err := spacedValues(t, "lr", value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
	if _, err := spacedValues(t, "loss_type", "log(1,2,n=3)"); err == nil {
		t.Error("a string was spaced")
	}
	a, err := axis(AxisRequest{Key: "lr", Values: []string{"log(1e-4,1e-2,n=3)", "0.1"}})
	if err != nil || !slices.Equal(a.Values, []string{"0.0001", "0.001", "0.01", "0.1"}) || !a.Log {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := axis(AxisRequest{Key: "lr", Values: []string{"log(1e-4,1e-2,n=3)", "1e-3"}}); err == nil {
		t.Error("the same value twice")
	}
}

// TestSpacedLaws: n rising values with the given ends, neighbours in equal ratios up to rounding.
func TestSpacedLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		low := rapid.Float64Range(1e-8, 1).Draw(rt, "low")
		ratio := rapid.Float64Range(1.2, 10).Draw(rt, "ratio")
		n := rapid.IntRange(2, 12).Draw(rt, "n")
		high := low * math.Pow(ratio, float64(n-1))
		value := "log(" + strconv.FormatFloat(low, 'g', -1, 64) + "," + strconv.FormatFloat(high, 'g', -1, 64) + ",n=" + strconv.Itoa(n) + ")"
		got, err := spacedValues(t, "lr", value)
		if err != nil || len(got) != n {
			rt.Fatalf("%s: %v, %v", value, got, err)
		}
		last := 0.0
		for i, text := range got {
			v, err := strconv.ParseFloat(text, 64)
			want := low * math.Pow(ratio, float64(i))
			if err != nil || v <= last || math.Abs(v/want-1) > 0.0051 {
				rt.Fatalf("%s: value %d is %s, want %g", value, i, text, want)
			}
			last = v
		}
	})
}
