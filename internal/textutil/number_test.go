package textutil

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		1e-5: "1e-5", 3e-5: "3e-5", 1e-4: "0.0001", 0.001: "0.001", 1e-10: "1e-10", 1e6: "1e6", 1.5e21: "1.5e21", 0: "0", -2e-7: "-2e-7", 1e300: "1e300",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if Number(math.NaN()) != "NaN" || Number(math.Inf(1)) != "+Inf" {
		t.Error(Number(math.NaN()), Number(math.Inf(1)))
	}
}

func TestAlike(t *testing.T) {
	for _, tt := range []struct{ values, want []string }{
		{[]string{"1e-5", "3e-5", "0.0001"}, []string{"1e-5", "3e-5", "1e-4"}},
		{[]string{"1e-05", "0.00025", "1", "0", "20"}, []string{"1e-5", "2.5e-4", "1", "0", "2e1"}},
		{[]string{"1000", "2000000"}, []string{"1000", "2000000"}},
		{[]string{"0.00001", "0.01"}, []string{"1e-5", "1e-2"}},
		{[]string{"0.0001", "0.001"}, []string{"0.0001", "0.001"}},
		{[]string{"1e-5", "linear", "[1e-5]", "inf"}, []string{"1e-5", "linear", "[1e-5]", "inf"}},
		{nil, nil},
	} {
		if got := Alike(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNumberReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if got, err := strconv.ParseFloat(Number(v), 64); err != nil || got != v {
			t.Errorf("%v: %s reads back as %v, %v", v, Number(v), got, err)
		}
	})
}
