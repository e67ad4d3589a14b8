package jinja

import (
	"slices"
	"strconv"
)

// expr computes a value.
type expr func(*run) any

type parser struct {
	tokens []token
	at     int
	nest   int
	loops  int // around the statement, for break and continue
}

func (p *parser) must(ok bool, format string, args ...any) {
	must(ok, "line %d: "+format, append([]any{p.peek().line}, args...)...)
}

func (p *parser) fail(format string, args ...any) { p.must(false, format, args...) }

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

func (t token) is(texts ...string) bool {
	return (t.kind == kName || t.kind == kOperator) && slices.Contains(texts, t.text)
}

func (p *parser) accept(text string) bool {
	found := p.peek().is(text)
	if found {
		p.next()
	}
	return found
}

func (p *parser) expect(text string) {
	p.must(p.accept(text), "%.40q where %q belongs", p.peek().text, text)
}

func (p *parser) name() string {
	p.must(p.peek().kind == kName, "%.40q where a name belongs", p.peek().text)
	return p.next().text
}

// deeper bounds the recursion of the parser; what it returns is called at the end.
func (p *parser) deeper() func() {
	p.nest++
	p.must(p.nest <= maxNest, "more than %d brackets and blocks inside of each other", maxNest)
	return func() { p.nest-- }
}

// node counts an operation when it runs.
func node(f expr) expr {
	return func(r *run) any {
		r.enter()
		v := f(r)
		r.leave()
		return v
	}
}

func constant(v any) expr { return func(*run) any { return v } }

func (p *parser) expression() expr {
	defer p.deeper()()
	e := p.or()
	for p.accept("if") {
		yes, condition, no := e, p.or(), constant(undefined("a condition without else"))
		if p.accept("else") {
			no = p.expression()
		}
		e = node(func(r *run) any {
			if truth(condition(r)) {
				return yes(r)
			}
			return no(r)
		})
	}
	return e
}

// left reads operators of one level, which group from the left.
func (p *parser) left(operand func() expr, operators ...string) expr {
	e := operand()
	for p.peek().is(operators...) {
		op, a, b := p.next().text, e, operand()
		e = node(func(r *run) any {
			x := a(r)
			switch {
			case op == "or" && truth(x), op == "and" && !truth(x):
				return x
			case op == "or", op == "and":
				return b(r)
			}
			return r.operate(op, x, b(r))
		})
	}
	return e
}

func (p *parser) or() expr  { return p.left(p.and, "or") }
func (p *parser) and() expr { return p.left(p.not, "and") }

func (p *parser) not() expr {
	defer p.deeper()()
	if !p.accept("not") {
		return p.comparison()
	}
	e := p.not()
	return node(func(r *run) any { return !truth(e(r)) })
}

// comparison is one or several, such as 1 < x < 3.
func (p *parser) comparison() expr {
	operands, ops := []expr{p.sum()}, []string{}
	for {
		negated := p.peek().is("not") && p.tokens[p.at+1].is("in")
		if !negated && !p.peek().is("==", "!=", "<", "<=", ">", ">=", "in") {
			break
		}
		op := p.next().text
		if negated {
			op = "not " + p.next().text
		}
		operands, ops = append(operands, p.sum()), append(ops, op)
	}
	if len(ops) == 0 {
		return operands[0]
	}
	return node(func(r *run) any {
		a := operands[0](r)
		for i, op := range ops {
			b := operands[i+1](r)
			if !r.holds(op, a, b) {
				return false
			}
			a = b
		}
		return true
	})
}

func (p *parser) sum() expr    { return p.left(p.concat, "+", "-") }
func (p *parser) concat() expr { return p.left(p.product, "~") }
func (p *parser) product() expr {
	return p.left(func() expr { return p.unary(true) }, "*", "/", "//", "%")
}

func (p *parser) unary(filters bool) expr {
	defer p.deeper()()
	var e expr
	if p.peek().is("-", "+") {
		sign, of := map[string]int{"-": -1, "+": 1}[p.next().text], p.unary(false)
		e = node(func(r *run) any {
			v := of(r)
			must(isNumber(v), "a sign before %s", typeName(v))
			return r.operate("*", v, sign)
		})
	} else {
		e = p.primary()
	}
	for {
		of := e
		switch {
		case p.peek().is(".", "["):
			e = p.subscript(e)
		case filters && p.accept("|"):
			f := p.filter()
			e = node(func(r *run) any { return f(r, of(r)) })
		case filters && p.accept("is"):
			negated := p.accept("not")
			f := p.test()
			e = node(func(r *run) any { return truth(f(r, of(r))) != negated })
		default:
			return e
		}
	}
}

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
	switch {
	case isConstant:
		return constant(v)
	case name != "loop" && slices.Contains(reserved, name):
		p.fail("%s is not supported here", name)
	case isFunction && !p.accept("("):
		return constant(global(name))
	case isFunction:
		do := p.bind(name, f, p.arguments())
		return node(func(r *run) any { return do(r, nil) })
	case p.accept("("):
		a := p.arguments()
		return node(func(r *run) any {
			m, ok := r.lookup(name).(*macro)
			must(ok, "%.80s is not callable: it is no macro", name)
			return r.invoke(m, a)
		})
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
