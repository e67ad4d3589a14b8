package jinja

import (
	"math"
	"slices"
	"strings"
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

// folded is a key without the case of letters, unless that counts.
func folded(key any, caseSensitive bool) any {
	if s, ok := key.(string); ok && !caseSensitive {
		return lower(s)
	}
	return key
}

// extreme makes the filters min and max.
func extreme(largest bool) builtin {
	return builtin{"case_sensitive=false attribute=none", func(r *run, v any, a []any) any {
		all := r.sorted(r.iterate(v), func(x any) any { return r.path(x, a[1]) }, truth(a[0]), largest).items
		if len(all) == 0 {
			return undefined("an item of an empty list")
		}
		return all[0]
	}}
}

// groupby are the items of each value of an attribute, which is that of the first of them.
func groupby(r *run, v any, a []any) any {
	var groups []any
	var last any
	key := func(x any) any { return folded(r.path(x, a[0]), false) }
	for _, x := range r.sorted(r.iterate(v), key, true, false).items {
		if len(groups) == 0 || !r.equal(last, key(x)) {
			last = key(x)
			items, names := []any{r.path(x, a[0]), list(nil)}, []string{"grouper", "list"}
			groups = append(groups, &sequence{kind: "tuple", items: items, names: names})
		}
		items := groups[len(groups)-1].(*sequence).items[1].(*sequence)
		items.items = append(items.items, x)
	}
	return list(groups)
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escape(r *run, v any, _ []any) any {
	if m, ok := v.(markup); ok {
		return m
	}
	r.spend(5, len(r.str(v)))
	return markup(escapes.Replace(r.str(v)))
}

// sorted makes a filter that sorts items by keys, equal ones in their order.
func (r *run) sorted(items []any, key func(any) any, caseSensitive, reverse bool) *sequence {
	pairs := r.each(items, func(x any) any {
		return [2]any{folded(key(x), caseSensitive), x}
	})
	slices.SortStableFunc(pairs, func(a, b any) int {
		c := r.compare(a.([2]any)[0], b.([2]any)[0])
		must(c != 2, "sorting NaN")
		return c * (1 - 2*number(reverse))
	})
	return list(r.each(pairs, func(p any) any { return p.([2]any)[1] }))
}

var filters = map[string]builtin{
	"upper": ofText("", methods["upper"]), "lower": ofText("", methods["lower"]),
	"trim":       ofText("chars=none", methods["strip"]),
	"capitalize": ofText("", methods["capitalize"]),
	"title":      ofText("", change(true, func(s string) string { return words().ReplaceAllStringFunc(s, capitalized) })),
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
		lines := lineEnds().Split(text(v), -1)
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
	"int": {"default=0", toInt},
	"abs": {"", func(r *run, v any, _ []any) any {
		if isInt(v) && number(v) >= 0 {
			return number(v)
		} else if isInt(v) {
			return integer("-", 0, number(v))
		}
		return math.Abs(float(v))
	}},
	"round": {"precision=0 method=common", round},
	"float": {"default=0.0", toFloat},
	"sum": {"attribute=none start=0", func(r *run, v any, a []any) any {
		sum := a[1]
		for _, x := range r.iterate(v) {
			sum = r.operate("+", sum, r.path(x, a[0]))
		}
		return sum
	}},
	"min": extreme(false), "max": extreme(true),
	"unique": {"case_sensitive=false attribute=none", func(r *run, v any, a []any) any {
		seen := &dict{}
		return iterator(slices.DeleteFunc(slices.Clone(r.iterate(v)), func(x any) bool {
			key := folded(r.path(x, a[1]), truth(a[0]))
			_, again := seen.get(key)
			r.set(seen, key, nil)
			return again
		}))
	}},
	"groupby": {"attribute", groupby},
	"escape":  {"", escape}, "e": {"", escape},
	"tojson": {"ensure_ascii=false indent=none separators=none sort_keys=false", tojson},
}
