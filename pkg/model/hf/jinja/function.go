package jinja

import (
	"slices"
	"strings"
	"time"

	"grpo/internal/pattern"
)

// maxRange is the limit of jinja2's sandbox.
const maxRange = 100_000

// today is what templates see as the date, the default of Llama 3's: prompts must not change from day to day.
var today = time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC)

var (
	dates   = pattern.Of(`%-?(?s:.|$)`)
	layouts = map[string]string{"%Y": "2006", "%m": "01", "%d": "02", "%H": "15", "%M": "04", "%S": "05", "%B": "January",
		"%b": "Jan", "%A": "Monday", "%a": "Mon", "%p": "PM", "%I": "03", "%y": "06", "%j": "002", "%-d": "2", "%-m": "1",
		"%%": "%"}
)

var functions = map[string]builtin{
	"range": {"/a b= step=1", func(r *run, _ any, a []any) any {
		from, to, step := 0, number(a[0]), number(a[2])
		if a[1] != nil {
			from, to = to, number(a[1])
		}
		must(step != 0, "range with step 0")
		out := &sequence{kind: "range"}
		for i := from; step > 0 && i < to || step < 0 && i > to; i = integer("+", i, step).(int) {
			if r.spend(16, 1); len(out.items) == maxRange {
				fail("range: more than %d elements", maxRange)
			}
			out.items = append(out.items, i)
		}
		return out
	}},
	"namespace": {"**", func(_ *run, _ any, a []any) any {
		n := &namespace{map[string]any{}}
		for i := 0; i < len(a); i += 2 {
			if n.vars[a[i].(string)] = a[i+1]; a[i].(string)[0] == '_' {
				fail("a namespace can't have the attribute %.40s", a[i])
			}
		}
		return n
	}},
	"raise_exception": {"message", func(r *run, _ any, a []any) any {
		fail("%.300s", strings.Join(strings.Fields(r.str(a[0])), " "))
		return nil
	}},
	"strftime_now": {"format", func(r *run, _ any, a []any) any {
		r.spend(9, len(text(a[0])))
		return dates().ReplaceAllStringFunc(text(a[0]), func(s string) string {
			layout, ok := layouts[s]
			must(ok, "strftime_now: the directive %.10q is not supported", s)
			return today.Format(layout)
		})
	}},
}

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
