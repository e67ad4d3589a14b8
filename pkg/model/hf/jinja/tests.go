package jinja

import (
	"slices"
	"strings"
)

var tests = makeTests()

func makeTests() map[string]builtin {
	is := func(kinds ...string) builtin {
		return builtin{"", func(_ *run, v any, _ []any) any { return slices.Contains(kinds, typeName(v)) }}
	}
	oneOf := func(values ...any) builtin {
		return builtin{"", func(_ *run, v any, _ []any) any { return slices.Contains(values, v) }}
	}
	tests := map[string]builtin{
		"undefined": is("undefined"), "none": oneOf(nil), "true": oneOf(true), "false": oneOf(false),
		"boolean": oneOf(true, false),
		"defined": {"", func(_ *run, v any, _ []any) any { return typeName(v) != "undefined" }},
		"integer": {"", func(_ *run, v any, _ []any) any { return isInt(v) && v != true && v != false }},
		"float":   is("float"), "number": is("int", "float"), "string": is("str", "safe text"), "mapping": is("dict"),
		"sequence": is("str", "safe text", "list", "tuple", "range", "dict", "undefined"),
		"iterable": is("str", "safe text", "list", "tuple", "range", "dict", "undefined", "iterator",
			"dict_keys", "dict_values", "dict_items"),
		"sameas": {"other", func(_ *run, v any, a []any) any {
			must(a[0] == nil || a[0] == true || a[0] == false, "sameas is supported for none, true and false")
			return v == a[0]
		}},
		"in":          {"seq", func(r *run, v any, a []any) any { return r.contains(a[0], v) }},
		"divisibleby": {"num", func(r *run, v any, a []any) any { return r.equal(r.operate("%", v, a[0]), 0) }},
	}
	for i, name := range []string{"even", "odd"} {
		tests[name] = builtin{"", func(r *run, v any, _ []any) any { return r.equal(r.operate("%", v, 2), i) }}
	}
	for op, names := range map[string]string{"==": "eq equalto", "!=": "ne", "<": "lt lessthan", "<=": "le",
		">": "gt greaterthan", ">=": "ge"} {
		for _, name := range append(strings.Fields(names), op) {
			tests[name] = builtin{"/other", func(r *run, v any, a []any) any { return r.holds(op, v, a[0]) }}
		}
	}
	return tests
}
