package rundir

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// CompareMetrics returns nil when a and b are the same lines bit for bit,
// times apart, and otherwise an error that names the first line and field in
// which they differ. Numbers that are not finite are equal to each other,
// because the file holds null for all of them.
func CompareMetrics(a, b []Metrics) error {
	return compareLines("metrics", a, b, func(m Metrics) int { return m.Step }, "time")
}

// CompareEvals is [CompareMetrics] for the lines of eval.jsonl.
func CompareEvals(a, b []Eval) error {
	return compareLines("evaluations", a, b, func(e Eval) int { return e.Step })
}

// CompareSamples is [CompareMetrics] for the lines of samples.jsonl.
func CompareSamples(a, b []Sample) error {
	return compareLines("samples", a, b, func(s Sample) int { return s.Step })
}

func compareLines[T any](what string, a, b []T, step func(T) int, ignore ...string) error {
	for i := range min(len(a), len(b)) {
		if d := difference(reflect.ValueOf(a[i]), reflect.ValueOf(b[i]), "", ignore); d != "" {
			return fmt.Errorf("compare %s: line %d (step %d): %s", what, i+1, step(a[i]), d)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("compare %s: %d lines and %d lines (the first %d are equal)", what, len(a), len(b), min(len(a), len(b)))
	}
	return nil
}

// difference describes the first field in which x and y differ, or is empty.
func difference(x, y reflect.Value, path string, ignore []string) string {
	differ := func() string { return fmt.Sprintf("%s: %s and %s", path, show(x), show(y)) }
	switch x.Kind() {
	case reflect.Float32, reflect.Float64:
		if f, g := x.Float(), y.Float(); math.Float64bits(f) != math.Float64bits(g) && (finite(f) || finite(g)) {
			return differ()
		}
	case reflect.Pointer:
		x, y := normalise(x), normalise(y)
		switch {
		case x.IsNil() && y.IsNil():
		case x.IsNil() || y.IsNil():
			return fmt.Sprintf("%s: %s and %s", path, show(x), show(y))
		default:
			return difference(x.Elem(), y.Elem(), path, ignore)
		}
	case reflect.Struct:
		for i := range x.NumField() {
			name, _, ok, err := jsonField(x.Type().Field(i))
			if !ok || err != nil || slices.Contains(ignore, join(path, name)) {
				continue
			}
			if d := difference(x.Field(i), y.Field(i), join(path, name), ignore); d != "" {
				return d
			}
		}
	case reflect.Map:
		return mapDifference(x, y, path, ignore)
	default:
		if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			return differ()
		}
	}
	return ""
}

// mapDifference goes through the keys of both maps in order.
func mapDifference(x, y reflect.Value, path string, ignore []string) string {
	var keys []string
	for _, m := range []reflect.Value{x, y} {
		for _, k := range m.MapKeys() {
			keys = append(keys, k.String())
		}
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		key := reflect.ValueOf(k)
		u, v := x.MapIndex(key), y.MapIndex(key)
		if !u.IsValid() || !v.IsValid() {
			return fmt.Sprintf("%s: only in one of the two", join(path, k))
		}
		if d := difference(u, v, join(path, k), ignore); d != "" {
			return d
		}
	}
	return ""
}

// normalise takes a pointer to a number that is not finite for nil, as a trip
// through the file does.
func normalise(p reflect.Value) reflect.Value {
	if !p.IsNil() && p.Elem().Kind() == reflect.Float64 && !finite(p.Elem().Float()) {
		return reflect.Zero(p.Type())
	}
	return p
}

// show prints a value so that two different ones look different.
func show(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
