package jinja

import (
	"slices"
	"strings"

	"grpo/internal/pattern"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

func upper(s string) string { return cases.Upper(language.Und).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

var (
	ascii    = pattern.Of(`^[\x00-\x7f]*$`)
	letters  = pattern.Of(`[A-Za-z]+`)
	words    = pattern.Of(`[^-({\[<\t-\r\x1c-\x20]+`) // of the filter title, which is not the method
	lineEnds = pattern.Of(`\r\n|[\n\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]`)
)

// capitalized has its first character in upper case, the others in lower case.
func capitalized(s string) string { return upper(s[:min(1, len(s))]) + lower(s[min(1, len(s)):]) }

// change makes a builtin of a function of a text, which may have three times its bytes. With asciiOnly,
// letters of other scripts, which Python treats in its own way, are an error.
func change(asciiOnly bool, f func(string) string) builtin {
	return builtin{"", func(r *run, v any, _ []any) any {
		if r.spend(3, len(text(v))); asciiOnly && !ascii().MatchString(text(v)) {
			fail("this change of letters is supported for ASCII only, not for %.40q", v)
		}
		return f(text(v))
	}}
}

func strip(left, right bool) builtin {
	return builtin{"/chars=none", func(_ *run, v any, a []any) any {
		s, cut := text(v), isSpace
		if a[0] != nil {
			chars := text(a[0])
			cut = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return s
	}}
}

func texts(parts []string) any {
	out := make([]any, len(parts))
	for i, s := range parts {
		out[i] = s
	}
	return list(out)
}

// hasEnd makes startswith and endswith.
func hasEnd(has func(s, end string) bool) builtin {
	return builtin{"/x", func(r *run, v any, a []any) any {
		options := a
		if typeName(a[0]) == "tuple" {
			options = r.iterate(a[0])
		}
		return slices.ContainsFunc(options, func(x any) bool { return has(text(v), text(x)) })
	}}
}

// find is the place of a text, counted in characters.
func find(index func(string, string) int) builtin {
	return builtin{"/x", func(r *run, v any, a []any) any {
		r.spend(4, len(text(v)))
		i := index(text(v), text(a[0]))
		return len([]rune(text(v)[:max(0, i)])) + min(0, i)
	}}
}

// split is Python's, from the left or the right.
func split(right bool) builtin {
	return builtin{"sep=none maxsplit=-1", func(r *run, v any, a []any) any {
		s, limit := text(v), number(a[1])
		r.spend(32, len(s))
		if limit < 0 {
			limit = len(s) + 1
		}
		if a[0] == nil {
			must(limit > len(s), "split by white space with maxsplit is not supported")
			return texts(strings.FieldsFunc(s, isSpace))
		}
		sep := text(a[0])
		switch parts := strings.Split(s, sep); {
		case sep == "":
			fail("split by an empty text")
		case right && len(parts) > limit+1:
			n := len(parts) - limit
			return texts(append([]string{strings.Join(parts[:n], sep)}, parts[n:]...))
		}
		return texts(strings.SplitN(s, sep, limit+1))
	}}
}

func (r *run) replace(s, old, by string, count any) any {
	n := strings.Count(s, old)
	if c := number(count); c >= 0 {
		n = min(n, c)
	}
	r.spend(1, len(s))
	r.spend(len(by), n)
	return strings.Replace(s, old, by, n)
}

func count(r *run, v any, a []any) any {
	if s, ok := v.(string); ok {
		return strings.Count(s, text(a[0]))
	} else if !isPlain(v) {
		fail("count of %s", typeName(v))
	}
	n := 0
	for _, x := range r.iterate(v) {
		n += number(r.equal(x, a[0]))
	}
	return n
}

// ofDicts makes a method of dicts.
func ofDicts(params string, f func(r *run, d *dict, a []any) any) builtin {
	return builtin{params, func(r *run, v any, a []any) any {
		d, ok := v.(*dict)
		must(ok, "a method of dicts on %s", typeName(v))
		return f(r, d, a)
	}}
}

var methods = map[string]builtin{
	"upper": change(false, upper), "lower": change(false, lower), "capitalize": change(true, capitalized),
	"title": change(true, func(s string) string { return letters().ReplaceAllStringFunc(s, capitalized) }),
	"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
	"split": split(false), "rsplit": split(true), "startswith": hasEnd(strings.HasPrefix),
	"endswith": hasEnd(strings.HasSuffix),
	"find":     find(strings.Index), "rfind": find(strings.LastIndex), "count": {"/x", count},
	"splitlines": {"", func(r *run, v any, _ []any) any {
		r.spend(32, len(text(v)))
		parts := lineEnds().Split(text(v), -1)
		if parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
		return texts(parts)
	}},
	"join": {"/items", func(r *run, v any, a []any) any {
		return r.join(text(v), r.each(r.iterate(a[0]), func(x any) any { return text(x) }))
	}},
	"replace": {"/old new count=-1", func(r *run, v any, a []any) any {
		return r.replace(text(v), text(a[0]), text(a[1]), a[2])
	}},
	"cycle": {"*", func(_ *run, v any, a []any) any {
		l, ok := v.(*loop)
		must(ok && len(a) > 0, "cycle of %s, or of no values", typeName(v))
		return a[l.at%len(a)]
	}},
	"removeprefix": {"/x", func(_ *run, v any, a []any) any { return strings.TrimPrefix(text(v), text(a[0])) }},
	"removesuffix": {"/x", func(_ *run, v any, a []any) any { return strings.TrimSuffix(text(v), text(a[0])) }},
	"get": ofDicts("/key default=none", func(_ *run, d *dict, a []any) any {
		if v, ok := d.get(a[0]); ok {
			return v
		}
		return a[1]
	}),
	"items":  ofDicts("", func(r *run, d *dict, _ []any) any { return &sequence{kind: "dict_items", items: r.pairs(d)} }),
	"keys":   ofDicts("", func(_ *run, d *dict, _ []any) any { return &sequence{kind: "dict_keys", items: d.keys} }),
	"values": ofDicts("", func(_ *run, d *dict, _ []any) any { return &sequence{kind: "dict_values", items: d.values} }),
}
