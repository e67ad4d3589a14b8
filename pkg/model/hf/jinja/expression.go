package jinja

import "slices"

// expr computes a value.
type expr func(*run) any

type parser struct {
	tokens  []token
	at      int
	nest    int
	loops   int // around the statement, for break and continue
	callers int // uses of the function caller
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
