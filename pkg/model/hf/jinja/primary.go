package jinja

import (
	"slices"
	"strconv"
)

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case kName:
		return p.variable(t.text)
	case kString:
		for p.peek().kind == kString {
			t.text += p.next().text
		}
		return constant(t.text)
	case kInt:
		n, err := strconv.Atoi(t.text)
		p.must(err == nil, "the number %.40s is too large", t.text)
		return constant(n)
	case kFloat:
		f, _ := strconv.ParseFloat(t.text, 64) // too large is infinite, as in Python
		return constant(f)
	}
	switch {
	case t.is("("):
		e := p.tuple(true, true)
		p.expect(")")
		return e
	case t.is("["):
		var items []expr
		p.items("]", func() { items = append(items, p.expression()) })
		return node(func(r *run) any { return list(r.all(items)) })
	case t.is("{"):
		var pairs []expr
		p.items("}", func() {
			pairs = append(pairs, p.expression())
			p.expect(":")
			pairs = append(pairs, p.expression())
		})
		return node(func(r *run) any {
			d := &dict{}
			for i := 0; i < len(pairs); i += 2 {
				key := pairs[i](r)
				r.set(d, key, pairs[i+1](r))
			}
			return d
		})
	}
	p.fail("%.40q where an expression belongs", t.text)
	return nil
}

// reserved are names with a meaning of their own, which can't be variables.
var reserved = []string{"true", "false", "none", "True", "False", "None", "loop", "dict", "lipsum", "cycler",
	"joiner", "self", "super", "varargs", "kwargs", "caller", "not", "and", "or", "in", "is", "if", "else"}

// variable is a variable, a constant, or a call of a function or a macro.
func (p *parser) variable(name string) expr {
	f, isFunction := functions[name]
	constants := map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}
	v, isConstant := constants[name]
	if name == "caller" {
		p.callers++
	}
	switch {
	case isConstant:
		return constant(v)
	case name != "loop" && name != "caller" && slices.Contains(reserved, name):
		p.fail("%s is not supported here", name)
	case isFunction && !p.accept("("):
		return constant(global(name))
	case isFunction:
		do := p.bind(name, f, p.arguments())
		return node(func(r *run) any { return do(r, nil) })
	case p.accept("("):
		a := p.arguments()
		return node(func(r *run) any { return r.invoke(name, a, nil) })
	}
	return node(func(r *run) any { return r.lookup(name) })
}

// items reads items with commas up to a bracket.
func (p *parser) items(end string, item func()) {
	for n := 0; !p.accept(end); n++ {
		if n > 0 {
			p.expect(",")
			if p.accept(end) {
				return
			}
		}
		item()
	}
}

func (r *run) all(items []expr) []any {
	r.spend(16, len(items))
	out := make([]any, len(items))
	for i, e := range items {
		out[i] = e(r)
	}
	return out
}

// tuple reads one expression, or several with commas.
func (p *parser) tuple(conditions, brackets bool) expr {
	item := map[bool]func() expr{true: p.expression, false: p.or}[conditions]
	var items []expr
	comma := false
	for p.peek().kind != kClose && !p.peek().is(")") {
		items = append(items, item())
		if comma = p.accept(",") || comma; !p.tokens[p.at-1].is(",") {
			break
		}
	}
	if len(items) == 1 && !comma {
		return items[0]
	} else if len(items) == 0 && !brackets {
		p.fail("%.40q where an expression belongs", p.peek().text)
	}
	return node(func(r *run) any { return &sequence{kind: "tuple", items: r.all(items)} })
}

// subscript reads .name, .method(...), .1, [x] and [x:y:z].
func (p *parser) subscript(of expr) expr {
	if p.next().text == "." {
		t := p.next()
		if t.kind == kInt {
			i, _ := strconv.Atoi(t.text)
			return node(func(r *run) any { return r.item(of(r), i) })
		} else if t.kind != kName {
			p.fail("%.40q where a name belongs", t.text)
		}
		if !p.accept("(") {
			return node(func(r *run) any { return r.attribute(of(r), t.text) })
		}
		f, ok := methods[t.text]
		p.must(ok, "the method .%.40s() is not supported", t.text)
		do := p.bind("."+t.text+"()", f, p.arguments())
		return node(func(r *run) any { return do(r, of(r)) })
	}
	parts := []expr{nil}
	for !p.accept("]") {
		last := &parts[len(parts)-1]
		if p.accept(":") {
			parts = append(parts, nil)
		} else if *last != nil {
			p.fail("%.40q where %q belongs", p.peek().text, "]")
		} else {
			*last = p.expression()
		}
	}
	switch {
	case len(parts) == 1 && parts[0] != nil:
		return node(func(r *run) any { v := of(r); return r.item(v, parts[0](r)) })
	case len(parts) == 1 || len(parts) > 3:
		p.fail("an index can't be read")
	}
	return node(func(r *run) any {
		v, by := of(r), [3]any{}
		for i, e := range parts {
			if e != nil {
				by[i] = e(r)
			}
		}
		return r.slice(v, by)
	})
}
