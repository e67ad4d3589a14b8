package jinja

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// builtin is a filter, test, method or function of a value and arguments. Its parameters are written as
// "old new count=-1"; "/" begins those that can't be named, "*" takes any number, "**" names and their values.
type builtin struct {
	params string
	do     func(r *run, v any, a []any) any
}

// arguments of a call. texts are the first ones that are strings in the source: names of filters and tests.
type arguments struct {
	exprs []expr
	texts []string
	names []string
	named []expr
}

func (p *parser) arguments() *arguments {
	a := &arguments{}
	p.items(")", func() {
		t := p.peek()
		p.must(!t.is("*", "**"), "lists of arguments are not supported")
		if t.kind == kName && p.tokens[p.at+1].is("=") {
			if p.at += 2; slices.Contains(a.names, t.text) {
				p.fail("the argument %.40s is given twice", t.text)
			}
			a.names, a.named = append(a.names, t.text), append(a.named, p.expression())
			return
		}
		p.must(len(a.names) == 0, "an argument without a name after one with a name")
		a.texts = append(a.texts, map[bool]string{true: t.text}[t.kind == kString])
		a.exprs = append(a.exprs, p.expression())
	})
	return a
}

// bind checks arguments and puts them in the order of the parameters.
func (p *parser) bind(what string, b builtin, a *arguments) func(*run, any) any {
	exprs, params := slices.Clone(a.exprs), strings.Fields(strings.TrimPrefix(b.params, "/"))
	used := 0
	switch {
	case b.params == "**" && len(exprs) == 0:
		for i, name := range a.names {
			exprs = append(exprs, constant(name), a.named[i])
		}
		used = len(a.names)
	case b.params != "*":
		if len(exprs) > len(params) || b.params == "**" {
			p.fail("%s takes %d arguments, not %d", what, len(params), len(exprs))
		}
		for _, param := range params[len(exprs):] {
			name, value, optional := strings.Cut(param, "=")
			if i := slices.Index(a.names, name); i >= 0 && b.params[0] != '/' {
				exprs = append(exprs, a.named[i])
				used++
			} else if number, err := strconv.Atoi(value); err == nil {
				exprs = append(exprs, constant(number))
			} else if optional {
				exprs = append(exprs, constant(map[string]any{"false": false, "''": "", "key": "key"}[value]))
			} else {
				p.fail("%s needs the argument %s", what, name)
			}
		}
	}
	p.must(used == len(a.names), "%s has an argument that is not supported", what)
	return func(r *run, v any) any { return b.do(r, v, r.all(exprs)) }
}

// filter reads the name and the arguments of a filter.
func (p *parser) filter() func(*run, any) any {
	name, a := p.name(), &arguments{}
	if p.accept("(") {
		a = p.arguments()
	}
	if each, attribute := strings.CutSuffix(name, "attr"); each == "map" || each == "select" || each == "reject" {
		return p.each(each, attribute, a)
	}
	f, ok := filters[name]
	p.must(ok, "the filter %.40s is not supported", name)
	return p.bind("the filter "+name, f, a)
}

func (p *parser) test() func(*run, any) any {
	name, a := p.name(), &arguments{}
	if t := p.peek(); p.accept("(") {
		a = p.arguments()
	} else if p.must(!t.is("is"), "tests can't be chained"); t.kind >= kFloat && t.kind <= kString && !t.is(reserved...) ||
		t.is("[", "{", "none", "true", "false") {
		of := p.primary()
		for p.peek().is(".", "[") {
			of = p.subscript(of)
		}
		a.exprs = append(a.exprs, of)
	}
	f, ok := tests[name]
	p.must(ok, "the test %.40s is not supported", name)
	return p.bind("the test "+name, f, a)
}

// each reads map, select and reject, and the latter with an attribute.
func (p *parser) each(name string, attribute bool, a *arguments) func(*run, any) any {
	path, f := constant(nil), func(_ *run, v any) any { return v }
	rest := *a
	if name == "map" && len(a.exprs) == 0 && len(a.names) == 1 && a.names[0] == "attribute" {
		path, rest = a.named[0], arguments{}
	} else if attribute {
		p.must(len(a.exprs) != 0, "%s needs an attribute", name)
		path, rest.exprs, rest.texts = a.exprs[0], a.exprs[1:], a.texts[1:]
	}
	if len(rest.exprs) > 0 {
		from := map[bool]map[string]builtin{true: filters, false: tests}[name == "map"]
		b, ok := from[rest.texts[0]]
		p.must(ok, "%.40q in the filter %s is not supported", rest.texts[0], name)
		rest.exprs = rest.exprs[1:]
		f = p.bind(name, b, &rest)
	} else if len(rest.names) > 0 || name == "map" && len(a.names) == 0 {
		p.fail("the arguments of the filter %s are not supported", name)
	}
	return func(r *run, v any) any {
		by := path(r)
		if name == "map" {
			return iterator(r.each(r.iterate(v), func(x any) any { return f(r, r.path(x, by)) }))
		}
		return iterator(slices.DeleteFunc(slices.Clone(r.iterate(v)), func(x any) bool {
			r.enter()
			defer r.leave()
			return truth(f(r, r.path(x, by))) != (name == "select")
		}))
	}
}

// path is the value at an attribute such as "a.b.0", or the value if attribute is nil.
func (r *run) path(v, attribute any) any {
	if attribute == nil {
		return v
	}
	for part := range strings.SplitSeq(text(attribute), ".") {
		if i, err := strconv.Atoi(part); err == nil && part[0] >= '0' && part[0] <= '9' {
			v = r.item(v, i)
		} else {
			v = r.item(v, part)
		}
	}
	return v
}

// maxRange is the limit of jinja2's sandbox.
const maxRange = 100_000

// today is what templates see as the date, the default of Llama 3's: prompts must not change from day to day.
var today = time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC)

var (
	dates   = regexp.MustCompile(`%-?(?s:.|$)`)
	layouts = map[string]string{"%Y": "2006", "%m": "01", "%d": "02", "%H": "15", "%M": "04", "%S": "05", "%B": "January",
		"%b": "Jan", "%A": "Monday", "%a": "Mon", "%p": "PM", "%I": "03", "%y": "06", "%j": "002", "%-d": "2", "%-m": "1", "%%": "%"}
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
		fail("the template refuses the conversation: %.300q", r.str(a[0]))
		return nil
	}},
	"strftime_now": {"format", func(r *run, _ any, a []any) any {
		r.spend(9, len(text(a[0])))
		return dates.ReplaceAllStringFunc(text(a[0]), func(s string) string {
			layout, ok := layouts[s]
			must(ok, "strftime_now: the directive %.10q is not supported", s)
			return today.Format(layout)
		})
	}},
}

func upper(s string) string { return cases.Upper(language.Und).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

var (
	ascii    = regexp.MustCompile(`^[\x00-\x7f]*$`)
	letters  = regexp.MustCompile(`[A-Za-z]+`)
	words    = regexp.MustCompile(`[^-({\[<\t-\r\x1c-\x20]+`) // of the filter title, which is not the method
	lineEnds = regexp.MustCompile(`\r\n|[\n\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]`)
)

// capitalized has its first character in upper case, the others in lower case.
func capitalized(s string) string { return upper(s[:min(1, len(s))]) + lower(s[min(1, len(s)):]) }

// change makes a builtin of a function of a text, which may have three times its bytes. With asciiOnly,
// letters of other scripts, which Python treats in its own way, are an error.
func change(asciiOnly bool, f func(string) string) builtin {
	return builtin{"", func(r *run, v any, _ []any) any {
		if r.spend(3, len(text(v))); asciiOnly && !ascii.MatchString(text(v)) {
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

var methods map[string]builtin

func init() {
	methods = map[string]builtin{
		"upper": change(false, upper), "lower": change(false, lower), "capitalize": change(true, capitalized),
		"title": change(true, func(s string) string { return letters.ReplaceAllStringFunc(s, capitalized) }),
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"split": split(false), "rsplit": split(true), "startswith": hasEnd(strings.HasPrefix), "endswith": hasEnd(strings.HasSuffix),
		"find": find(strings.Index), "rfind": find(strings.LastIndex), "count": {"/x", count},
		"splitlines": {"", func(r *run, v any, _ []any) any {
			r.spend(32, len(text(v)))
			parts := lineEnds.Split(text(v), -1)
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
}

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

var filters map[string]builtin

func init() {
	filters = map[string]builtin{
		"upper": ofText("", methods["upper"]), "lower": ofText("", methods["lower"]), "trim": ofText("chars=none", methods["strip"]),
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
		"length": {"", length}, "count": {"", length}, "default": {"default_value='' boolean=false", or}, "d": {"default_value='' boolean=false", or},
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
}

var tests map[string]builtin

func init() {
	is := func(kinds ...string) builtin {
		return builtin{"", func(_ *run, v any, _ []any) any { return slices.Contains(kinds, typeName(v)) }}
	}
	oneOf := func(values ...any) builtin {
		return builtin{"", func(_ *run, v any, _ []any) any { return slices.Contains(values, v) }}
	}
	tests = map[string]builtin{
		"undefined": is("undefined"), "none": oneOf(nil), "true": oneOf(true), "false": oneOf(false), "boolean": oneOf(true, false),
		"defined": {"", func(_ *run, v any, _ []any) any { return typeName(v) != "undefined" }},
		"integer": {"", func(_ *run, v any, _ []any) any { return isInt(v) && v != true && v != false }},
		"float":   is("float"), "number": is("int", "float"), "string": is("str", "safe text"), "mapping": is("dict"),
		"sequence":    is("str", "safe text", "list", "tuple", "range", "dict", "undefined"),
		"iterable":    is("str", "safe text", "list", "tuple", "range", "dict", "undefined", "iterator", "dict_keys", "dict_values", "dict_items"),
		"in":          {"seq", func(r *run, v any, a []any) any { return r.contains(a[0], v) }},
		"divisibleby": {"num", func(r *run, v any, a []any) any { return r.equal(r.operate("%", v, a[0]), 0) }},
	}
	for i, name := range []string{"even", "odd"} {
		tests[name] = builtin{"", func(r *run, v any, _ []any) any { return r.equal(r.operate("%", v, 2), i) }}
	}
	for op, names := range map[string]string{"==": "eq equalto", "!=": "ne", "<": "lt lessthan", "<=": "le", ">": "gt greaterthan", ">=": "ge"} {
		for _, name := range append(strings.Fields(names), op) {
			tests[name] = builtin{"/other", func(r *run, v any, a []any) any { return r.holds(op, v, a[0]) }}
		}
	}
}
