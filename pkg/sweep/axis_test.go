package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/config"
)

func TestSplitValues(t *testing.T) {
	for text, want := range map[string][]string{
		"1e-5,3e-5":                 {"1e-5", "3e-5"},
		" a , b ":                   {"a", "b"},
		"[answer],[answer, format]": {"[answer]", "[answer, format]"},
		"true":                      {"true"},
	} {
		if got, err := SplitValues(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "no values", "a,,b": "value 2", "a,": "value 2", "[a": "brackets", "a],[b": "brackets"} {
		if got, err := SplitValues(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseAxis(t *testing.T) {
	got, err := ParseAxis("lr=1e-3,3e-3")
	if err != nil || got.Key != "lr" || !slices.Equal(got.Values, []string{"1e-3", "3e-3"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for arg, want := range map[string]string{"lr": `no "="`, "lr=": "no values", "lr=1,,2": "--axis lr: value 2"} {
		_, err := ParseAxis(arg)
		invalid(t, arg, err, want)
	}
}

func TestAxis(t *testing.T) {
	tests := []struct {
		name   string
		in     AxisRequest
		key    string
		short  string
		label  string
		values string
		log    bool
		err    string
	}{
		{name: "rates", in: AxisRequest{Key: "lr", Values: []string{"1e-5", "0.00003", "1e-4"}}, key: "train.learning_rate", short: "lr", label: "learning rate", values: "1e-5 3e-5 0.0001", log: true},
		{name: "less than a factor of 10", in: AxisRequest{Key: "lr", Values: []string{"2e-4", "1e-3"}}, key: "train.learning_rate", short: "lr", label: "learning rate", values: "0.0002 0.001"},
		{name: "exactly a factor of 10", in: AxisRequest{Key: "lr", Values: []string{"3e-4", "3e-3"}}, key: "train.learning_rate", short: "lr", label: "learning rate", values: "0.0003 0.003", log: true},
		{name: "with 0", in: AxisRequest{Key: "beta", Values: []string{"0", "0.01", "1"}}, key: "algorithm.beta", short: "beta", label: "KL weight (beta)", values: "0 0.01 1"},
		{name: "TRL's name", in: AxisRequest{Key: "num_iterations", Values: []string{"1", "+4"}}, key: "train.epochs_per_rollout_batch", short: "epochs_per_rollout_batch", label: "epochs per rollout batch", values: "1 4"},
		{name: "TRL's path", in: AxisRequest{Key: "algorithm.epsilon", Values: []string{".2"}}, key: "algorithm.cliprange", short: "cliprange", label: "clip range", values: "0.2"},
		{name: "texts", in: AxisRequest{Key: "loss_type", Label: "loss", Values: []string{"grpo_clip", "no_baseline"}}, key: "algorithm.loss_type", short: "loss_type", label: "loss", values: "grpo_clip no_baseline"},
		{name: "lists", in: AxisRequest{Key: "reward.functions", Values: []string{"[answer]", "[answer,format]"}}, key: "reward.functions", short: "functions", label: "reward functions", values: "[answer] [answer, format]"},
		{name: "texts with commas", in: AxisRequest{Key: "data.stop", Values: []string{`["a,b"]`, `["c"]`, "[0.5"}}, key: "data.stop", short: "stop", label: "stop", values: `["a,b"] [c] [0.5`},
		{name: "numbers", in: AxisRequest{Key: "train.adam_betas", Values: []string{"[0.9,0.990]"}}, key: "train.adam_betas", short: "adam_betas", label: "AdamW betas", values: "[0.9, 0.99]"},
		{name: "unknown key", in: AxisRequest{Key: "grup_size", Values: []string{"4"}, From: "x.yaml: line 3"}, err: `x.yaml: line 3: unknown key "grup_size" (did you mean "rollout.group_size"?)`},
		{name: "seed", in: AxisRequest{Key: "seed", Values: []string{"1", "2"}}, err: "seed can't be an axis"},
		{name: "no values", in: AxisRequest{Key: "lr"}, err: "train.learning_rate has no values"},
		{name: "twice", in: AxisRequest{Key: "lr", Values: []string{"1e-3", "3e-3", "0.001"}}, err: "the values 1 and 3, 0.001, are the same (written 1e-3 and 0.001)"},
	}
	for _, test := range tests {
		got, err := axis(test.in)
		if test.err != "" {
			if !strings.Contains(fmt.Sprint(err), test.err) {
				t.Errorf("%s: got %v, want %s", test.name, err, test.err)
			}
			continue
		}
		if err != nil || got.Key != test.key || got.Short != test.short || got.Label != test.label || strings.Join(got.Values, " ") != test.values && len(test.values) > 0 || got.Log != test.log {
			t.Errorf("%s: got %+v, %v", test.name, got, err)
		}
	}
}

// An axis keeps how its numbers were typed, for figures and tables.
func TestAxisAsTyped(t *testing.T) {
	for _, tt := range []struct {
		key    string
		values []string
		want   string // empty: the values themselves
	}{
		{"lr", []string{"1e-5", "3e-5", "1e-4"}, "1e-5 3e-5 1e-4"},
		{"lr", []string{" 1E-3 ", "0.0030"}, "1E-3 0.0030"},
		{"lr", []string{"0.001", "0.003"}, ""},
		{"lr", []string{"log(1e-4,1e-2,n=3)"}, "1e-4 1e-3 1e-2"},
		{"lr", []string{"log(0.001,0.1,n=3)"}, ""},
		{"group_size", []string{"+4", "8"}, ""},
		{"loss_type", []string{"grpo", " grpo_clip"}, ""},
	} {
		got, err := axis(AxisRequest{Key: tt.key, Values: tt.values})
		if err != nil || strings.Join(got.Written, " ") != tt.want {
			t.Errorf("%s %q: written %q, %v", tt.key, tt.values, got.Written, err)
		}
	}
}

func spacedValues(t *testing.T, key, value string) ([]string, error) {
	t.Helper()
	k, err := config.FindKey(key)
	expect.OK(t, err)
	return spaced(k, value)
}

func TestSpaced(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"lr", "1e-3", "1e-3"},
		{"lr", "log(1e-5,1e-2,n=8)", "1e-5 2.68e-05 7.2e-05 0.000193 0.000518 0.00139 0.00373 1e-2"},
		{"lr", "log( 1e-4 , 1e-2, n= 3)", "1e-4 0.001 1e-2"},
		{"lr", "log(0.12345,1,n=2)", "0.12345 1"},
		{"loss_expr", "log(ratio)*-A", "log(ratio)*-A"},
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
		expect.Error(t, expect.Err(spacedValues(t, "lr", value)), want)
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
