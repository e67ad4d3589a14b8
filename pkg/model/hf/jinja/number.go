package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"grpo/internal/pattern"
)

var wholeNumber = pattern.Of(`^[+-]?\d+(?:_\d+)*$`)

// toInt is Python's int, of a text with an integer or without a number, and the default otherwise.
func toInt(_ *run, v any, a []any) any {
	f, isFloat := v.(float64)
	s, isText := v.(string)
	s = strings.TrimFunc(s, isSpace)
	switch {
	case isInt(v):
		return number(v)
	case isFloat && math.Abs(f) < 1<<53:
		return int(f)
	case wholeNumber().MatchString(s):
		n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		must(err == nil, "the number %.40q is too large", s)
		return n
	}
	must(v == nil || isPlain(v) || isText && !hasNumeral(s), "int of %s %.40q is not supported", typeName(v), s)
	return a[0]
}

// round is Python's: half to even, of the exact value.
func round(r *run, v any, a []any) any {
	digits := number(a[0])
	if must(digits >= 0 && digits < 20 && a[1] == "common", "these arguments of round are not supported"); isInt(v) {
		return number(v)
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(float(v), 'f', digits, 64), 64)
	return f
}

var decimal = pattern.Of(`^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$`)

// toFloat is Python's float, of a number or a text with a decimal one or without any, and the default otherwise.
func toFloat(_ *run, v any, a []any) any {
	s, isText := v.(string)
	s = strings.TrimFunc(s, isSpace)
	switch {
	case isNumber(v):
		return float(v)
	case isText && decimal().MatchString(s):
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	must(v == nil || isPlain(v) || isText && !hasNumeral(s), "float of %s %.40q is not supported", typeName(v), s)
	return a[0]
}

// hasNumeral reports a text that Python may read as a number in some way, such as nan.
func hasNumeral(s string) bool {
	return strings.ContainsFunc(s, unicode.IsNumber) || strings.Contains(strings.ToLower(s), "n") && len(s) < 10
}
