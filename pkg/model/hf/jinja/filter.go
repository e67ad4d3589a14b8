package jinja

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ofText makes a filter of a method of texts, for values that are none too.
func ofText(params string, b builtin) builtin {
	return builtin{params, func(r *run, v any, a []any) any { return b.do(r, r.plain(v), a) }}
}

func length(_ *run, v any, _ []any) any {
	switch v := v.(type) {
	case undefined:
		return 0
	case string:
		return len([]rune(v))
	case *dict:
		return len(v.keys)
	case *sequence:
		if v.kind != "iterator" {
			return len(v.items)
		}
	}
	fail("%s has no length", typeName(v))
	return nil
}

func or(r *run, v any, a []any) any {
	if _, missing := v.(undefined); missing || truth(a[1]) && !truth(v) {
		return a[0]
	}
	return v
}

// oneOf makes the filters first and last.
func oneOf(index func(n int) int) builtin {
	return builtin{"", func(r *run, v any, _ []any) any {
		items := r.iterate(v)
		if len(items) == 0 {
			return undefined("an item of an empty list")
		}
		return items[index(len(items))]
	}}
}

// sorted makes a filter that sorts items by keys, equal ones in their order.
func (r *run) sorted(items []any, key func(any) any, caseSensitive, reverse bool) any {
	pairs := r.each(items, func(x any) any {
		k := key(x)
		if s, ok := k.(string); ok && !caseSensitive {
			k = lower(s)
		}
		return [2]any{k, x}
	})
	slices.SortStableFunc(pairs, func(a, b any) int {
		c := r.compare(a.([2]any)[0], b.([2]any)[0])
		must(c != 2, "sorting NaN")
		return c * (1 - 2*number(reverse))
	})
	return list(r.each(pairs, func(p any) any { return p.([2]any)[1] }))
}

var wholeNumber = regexp.MustCompile(`^[+-]?\d+(?:_\d+)*$`)

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
	case wholeNumber.MatchString(s):
		n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		must(err == nil, "the number %.40q is too large", s)
		return n
	}
	isNumeral := strings.ContainsFunc(s, unicode.IsNumber) || strings.Contains(strings.ToLower(s), "n") && len(s) < 10
	must(v == nil || isPlain(v) || isText && !isNumeral, "int of %s %.40q is not supported", typeName(v), s)
	return a[0]
}

var filters = map[string]builtin{
	"upper": ofText("", methods["upper"]), "lower": ofText("", methods["lower"]),
	"trim":       ofText("chars=none", methods["strip"]),
	"capitalize": ofText("", methods["capitalize"]),
	"title":      ofText("", change(true, func(s string) string { return words.ReplaceAllStringFunc(s, capitalized) })),
	"string":     {"", func(r *run, v any, _ []any) any { return r.plain(v) }},
	"safe":       {"", func(r *run, v any, _ []any) any { return markup(r.plain(v)) }},
	"replace": {"old new count=-1", func(r *run, v any, a []any) any {
		return r.replace(r.plain(v), r.plain(a[0]), r.plain(a[1]), a[2])
	}},
	"format": {"*", func(r *run, v any, a []any) any { return r.percent(r.plain(v), &sequence{kind: "tuple", items: a}) }},
	"indent": {"width=4 first=false blank=false", func(r *run, v any, a []any) any {
		by, isText := a[0].(string)
		if !isText {
			by = r.operate("*", " ", a[0]).(string)
		}
		r.spend(32, len(text(v)))
		lines := lineEnds.Split(text(v), -1)
		for i, line := range lines {
			if i == 0 && truth(a[1]) || i > 0 && (line != "" || truth(a[2])) {
				r.spend(1, len(by)+len(line))
				lines[i] = by + line
			}
		}
		return strings.Join(lines, "\n")
	}},
	"length": {"", length}, "count": {"", length}, "default": {"default_value='' boolean=false", or},
	"d":     {"default_value='' boolean=false", or},
	"first": oneOf(func(int) int { return 0 }), "last": oneOf(func(n int) int { return n - 1 }),
	"list":  {"", func(r *run, v any, _ []any) any { return list(r.iterate(v)) }},
	"items": {"", func(r *run, v any, _ []any) any { return iterator(r.pairs(v)) }},
	"join": {"d='' attribute=none", func(r *run, v any, a []any) any {
		return r.join(r.str(a[0]), r.each(r.iterate(v), func(x any) any { return r.path(x, a[1]) }))
	}},
	"reverse": {"", func(r *run, v any, _ []any) any {
		items := slices.Clone(r.iterate(v))
		if slices.Reverse(items); typeName(v) == "str" {
			return r.join("", items)
		} else if !isPlain(v) {
			fail("reverse of %s is not supported", typeName(v))
		}
		return iterator(items)
	}},
	"sort": {"reverse=false case_sensitive=false attribute=none", func(r *run, v any, a []any) any {
		return r.sorted(r.iterate(v), func(x any) any { return r.path(x, a[2]) }, truth(a[1]), truth(a[0]))
	}},
	"dictsort": {"case_sensitive=false by=key reverse=false", func(r *run, v any, a []any) any {
		i := slices.Index([]any{"key", "value"}, a[1])
		must(i >= 0, "dictsort by %.40q", r.plain(a[1]))
		return r.sorted(r.pairs(v), func(x any) any { return r.item(x, i) }, truth(a[0]), truth(a[2]))
	}},
	"int":    {"default=0", toInt},
	"tojson": {"ensure_ascii=false indent=none separators=none sort_keys=false", tojson},
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
