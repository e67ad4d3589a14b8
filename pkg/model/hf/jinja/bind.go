package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// builtin is a filter, test, method or function of a value and arguments. Its parameters are written as
// "old new count=-1"; "/" begins those that can't be named, "*" takes any number, "**" names and their values.
type builtin struct {
	params string
	do     func(r *run, v any, a []any) any
}

// defaults of parameters that are no integers; none is nil.
var defaults = map[string]any{"false": false, "''": "", "key": "key", "common": "common", "0.0": 0.0}

// arguments of a call. texts has those of exprs that are strings in the source: names of filters and tests.
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
		isText := t.kind == kString && p.tokens[p.at+1].is(",", ")")
		a.texts = append(a.texts, map[bool]string{true: t.text}[isText])
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
				exprs = append(exprs, constant(defaults[value]))
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

// chain reads filters with | between them.
func (p *parser) chain() func(*run, any) any {
	f := p.filter()
	if !p.accept("|") {
		return f
	}
	rest := p.chain()
	return func(r *run, v any) any { return rest(r, f(r, v)) }
}

func (p *parser) test() func(*run, any) any {
	name, a := p.name(), &arguments{}
	if t := p.peek(); p.accept("(") {
		a = p.arguments()
	} else if (t.kind >= kFloat && t.kind <= kString || t.is("[", "{")) && !t.is("and", "or", "else") {
		p.must(!t.is("is", "in", "if", "not"), "%q after a test is not supported", t.text)
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
