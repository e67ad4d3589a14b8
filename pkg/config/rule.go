package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/words"
)

// rule is a condition on the values of one or more keys. A key with a star
// (stages.*.steps) makes it a rule for each section of that list.
type rule struct {
	keys []string
	// check returns what is wrong, as a sentence about keys, or "".
	check func(v *view, keys []string) string
	// values are the valid texts of an enumeration.
	values []string
}

// view gives rules the values of a configuration, and the words for a key.
type view struct {
	values  map[string]reflect.Value
	neutral map[string]bool   // keys at their neutral value
	origins map[string]Origin // nil: unknown
}

// viewOf prepares a configuration for rules.
func viewOf(root any, origins map[string]Origin) *view {
	v := &view{values: map[string]reflect.Value{}, neutral: map[string]bool{}, origins: origins}
	for _, f := range leaves(root) {
		v.values[f.path], v.neutral[f.path] = f.value, f.isNeutral()
	}
	return v
}

func (v *view) num(key string) float64 {
	f := v.values[key]
	switch f.Kind() {
	case reflect.Int:
		return float64(f.Int())
	case reflect.Uint64:
		return float64(f.Uint())
	}
	return f.Float()
}

func (v *view) text(key string) string { return v.values[key].String() }

func (v *view) on(key string) bool { return v.values[key].Bool() }

// given reports a key that some source sets; false where sources are unknown.
func (v *view) given(key string) bool { return v.origins[key].Source != SourceDefault }

// list returns the elements of a list of texts.
func (v *view) list(key string) []string { return v.values[key].Interface().([]string) }

// name writes a key with its value and origin: seed (7, x.yaml: line 4).
func (v *view) name(key string) string {
	value := formatValue(v.values[key])
	if v.values[key].Kind() == reflect.String {
		value = strconv.Quote(v.text(key))
	}
	if r := []rune(value); len(r) > 80 {
		value = string(r[:77]) + "..."
	}
	if v.origins == nil {
		return fmt.Sprintf("%s (%s)", key, value)
	}
	return fmt.Sprintf("%s (%s, %s)", key, value, v.origins[key])
}

// interval is a range of numbers; an infinite end is no limit.
type interval struct {
	low, high         float64
	lowOpen, highOpen bool
}

func (r interval) contains(x float64) bool {
	return (x > r.low || x == r.low && !r.lowOpen) && (x < r.high || x == r.high && !r.highOpen)
}

func (r interval) String() string {
	low, high := "at least "+formatFloat(r.low), "at most "+formatFloat(r.high)
	if r.lowOpen {
		low = "more than " + formatFloat(r.low)
	}
	if r.highOpen {
		high = "less than " + formatFloat(r.high)
	}
	if math.IsInf(r.high, 1) {
		return low
	}
	return low + " and " + high
}

var (
	nonNegative = interval{low: 0, high: math.Inf(1)}
	positive    = interval{low: 0, high: math.Inf(1), lowOpen: true}
	share       = interval{low: 0, high: 1}
	// moderate is for rewards, which are multiplied and added: none of that may
	// leave the range of a number.
	moderate = interval{low: -1e100, high: 1e100}
	// size is for what is counted in memory; the limit keeps a slip of the
	// finger from asking for terabytes.
	size     = interval{low: 1, high: 1 << 20}
	sizeOrNo = interval{low: 0, high: 1 << 20}
	// counter is for steps, which number random streams by 32 bits.
	counter     = interval{low: 1, high: 1<<31 - 1}
	counterOrNo = interval{low: 0, high: 1<<31 - 1}
)

// in: the key's value lies in the interval.
func in(r interval, key string) rule {
	return rule{keys: []string{key}, check: func(v *view, k []string) string {
		if !r.contains(v.num(k[0])) {
			return fmt.Sprintf("%s must be %s", v.name(k[0]), r)
		}
		return ""
	}}
}

// eachIn: the same for the elements of a list of numbers.
func eachIn(r interval, key string) rule {
	return rule{keys: []string{key}, check: func(v *view, k []string) string {
		list := v.values[k[0]]
		for i := range list.Len() {
			if !r.contains(list.Index(i).Float()) {
				return fmt.Sprintf("%s: element %d must be %s", v.name(k[0]), i+1, r)
			}
		}
		return ""
	}}
}

// oneOf: the text is one of values.
func oneOf(key string, values ...string) rule {
	return rule{keys: []string{key}, values: values, check: func(v *view, k []string) string {
		if slices.Contains(values, v.text(k[0])) {
			return ""
		}
		want := "must be one of " + strings.Join(values, ", ")
		if len(values) == 1 {
			want = "must be " + values[0]
		}
		return fmt.Sprintf("%s %s%s", v.name(k[0]), want, words.DidYouMean(v.text(k[0]), values))
	}}
}

// oneOfOrNone: the text is one of values, or empty.
func oneOfOrNone(key string, values ...string) rule {
	r := oneOf(key, values...)
	one := r.check
	r.check = func(v *view, k []string) string {
		if v.text(k[0]) == "" {
			return ""
		}
		return one(v, k)
	}
	return r
}

// someOf: the list has at least one element, each one of values and none twice.
func someOf(key string, values ...string) rule {
	return rule{keys: []string{key}, values: values, check: func(v *view, k []string) string {
		list := v.values[k[0]]
		if list.Len() == 0 {
			return fmt.Sprintf("%s must name at least one of %s", v.name(k[0]), strings.Join(values, ", "))
		}
		seen := map[string]bool{}
		for i := range list.Len() {
			e := list.Index(i).String()
			if !slices.Contains(values, e) {
				return fmt.Sprintf("%s: %q must be one of %s%s", v.name(k[0]), e, strings.Join(values, ", "), words.DidYouMean(e, values))
			}
			if seen[e] {
				return fmt.Sprintf("%s: %q stands there twice", v.name(k[0]), e)
			}
			seen[e] = true
		}
		return ""
	}}
}

// filled: the text is not empty.
func filled(key string) rule {
	return rule{keys: []string{key}, check: func(v *view, k []string) string {
		if v.text(k[0]) == "" {
			return v.name(k[0]) + " must not be empty"
		}
		return ""
	}}
}

// atMost: the first key's number does not exceed the second's.
func atMost(a, b string) rule {
	return rule{keys: []string{a, b}, check: func(v *view, k []string) string {
		if v.num(k[0]) > v.num(k[1]) {
			return fmt.Sprintf("%s must be at most %s", v.name(k[0]), v.name(k[1]))
		}
		return ""
	}}
}

// multiple: the first key's number is a multiple of the second's, unless that
// is 0, which stands for "the same".
func multiple(a, b string) rule {
	return rule{keys: []string{a, b}, check: func(v *view, k []string) string {
		if d := v.values[k[1]].Int(); d != 0 && v.values[k[0]].Int()%d != 0 {
			return fmt.Sprintf("%s must be a multiple of %s", v.name(k[0]), v.name(k[1]))
		}
		return ""
	}}
}

// effective: a key that is not at its neutral value needs other keys to be such
// that it has an effect, or the run would not be what its author thinks it is,
// and the arms of a sweep over it would all be the same. The fix completes
// "has no effect, because of KEY (VALUE)".
func effective(key, other, fix string, ok func(v *view) bool) rule {
	return rule{keys: []string{key, other}, check: func(v *view, k []string) string {
		if v.neutral[k[0]] || ok(v) {
			return ""
		}
		return fmt.Sprintf("%s has no effect, because of %s (%s)", v.name(k[0]), v.name(k[1]), fix)
	}}
}

// custom is for conditions of one kind only.
func custom(check func(v *view, k []string) string, keys ...string) rule {
	return rule{keys: keys, check: check}
}
