package jinja

import "slices"

// block is a statement or several. It returns how it ended.
type block func(*run) flow

type flow byte

const (
	done flow = iota
	broken
	continued
)

// body reads up to one of the tags of ends and returns its name.
func (p *parser) body(ends ...string) (block, string) {
	defer p.deeper()()
	var blocks []block
	all := func(r *run) flow {
		r.enter()
		defer r.leave()
		for _, b := range blocks {
			r.spend(16, 1)
			if end := b(r); end != done {
				return end
			}
		}
		return done
	}
	for {
		switch t := p.next(); {
		case t.kind == kText:
			blocks = append(blocks, func(r *run) flow { r.put(r.out, t.text); return done })
		case t.kind == kEnd && len(ends) > 0:
			p.fail("{%% %s %%} is missing", ends[len(ends)-1])
		case t.kind == kEnd:
			return all, ""
		case t.text == "{{":
			e := p.tuple(true, false)
			p.close()
			blocks = append(blocks, func(r *run) flow { r.put(r.out, r.str(e(r))); return done })
		default:
			name := p.name()
			if slices.Contains(ends, name) {
				return all, name
			}
			blocks = append(blocks, p.statement(name))
		}
	}
}

// close reads the end of a tag.
func (p *parser) close() {
	p.must(p.peek().kind == kClose, "%.40q where the end of the tag belongs", p.peek().text)
	p.next()
}

// until reads the end of a tag, and the statements up to its end tag, which break and continue can't leave.
func (p *parser) until(tag string) block {
	loops := p.loops
	p.loops = 0
	p.close()
	b, _ := p.body(tag)
	p.close()
	p.loops = loops
	return b
}

func (p *parser) statement(name string) block {
	switch name {
	case "for":
		return p.forLoop()
	case "if":
		return p.ifBlock()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "generation":
		b := p.until("endgeneration")
		return func(r *run) flow { return r.inside(map[string]any{}, r.scope, b) }
	case "break", "continue":
		p.must(p.loops != 0, "%s outside of a loop", name)
		p.close()
		return func(*run) flow { return map[string]flow{"break": broken, "continue": continued}[name] }
	}
	p.fail("the tag %.40s is not supported", name)
	return nil
}

func (p *parser) ifBlock() block {
	var conditions []expr
	var blocks []block
	for tag := "if"; tag != "endif"; {
		condition, ends := constant(true), []string{"endif"}
		if tag != "else" {
			condition, ends = p.tuple(false, false), []string{"elif", "else", "endif"}
		}
		p.close()
		b, next := p.body(ends...)
		conditions, blocks, tag = append(conditions, condition), append(blocks, b), next
	}
	p.close()
	return func(r *run) flow {
		for i, c := range conditions {
			if truth(c(r)) {
				return blocks[i](r)
			}
		}
		return done
	}
}

// target reads what is assigned to: a name, several with commas, or the attribute of a namespace.
func (p *parser) target(set bool) func(*run, any) {
	var targets []func(*run, any)
	comma := false
	for len(targets) == 0 || p.peek().kind == kName && !p.peek().is("in") {
		targets = append(targets, p.oneTarget(set))
		if !p.accept(",") {
			break
		}
		comma = true
	}
	if !comma {
		return targets[0]
	}
	return func(r *run, v any) {
		items := r.iterate(v)
		must(len(items) == len(targets), "%d values for %d names", len(items), len(targets))
		for i, t := range targets {
			t(r, items[i])
		}
	}
}

func (p *parser) oneTarget(set bool) func(*run, any) {
	name := p.name()
	if _, isFunction := functions[name]; isFunction || slices.Contains(reserved, name) {
		p.fail("assigning to %s is not supported", name)
	}
	if !set || !p.accept(".") {
		return func(r *run, v any) { r.scope.vars[name] = v }
	}
	field := p.name()
	p.must(field[0] != '_', "a namespace can't have the attribute %.40s", field)
	return func(r *run, v any) {
		n, ok := r.lookup(name).(*namespace)
		must(ok, "%.40s is not a namespace: its attribute %.40s can't be set", name, field)
		r.spend(64, 1)
		n.vars[field] = v
	}
}

func (p *parser) set() block {
	t := p.target(true)
	if p.accept("=") {
		e := p.tuple(true, false)
		p.close()
		return func(r *run) flow { t(r, e(r)); return done }
	}
	b := p.until("endset")
	return func(r *run) flow { t(r, r.captured(map[string]any{}, r.scope, b)); return done }
}

// macro is a function that a template defines; home is the scope of its definition.
type macro struct {
	name     string
	params   []string
	defaults map[string]expr
	body     block
	home     *scope
}

func (p *parser) macro() block {
	m := macro{name: p.name(), defaults: map[string]expr{}}
	if _, isFunction := functions[m.name]; isFunction || slices.Contains(reserved, m.name) {
		p.fail("a macro can't be named %s", m.name)
	}
	p.expect("(")
	p.items(")", func() {
		name := p.name()
		p.must(!slices.Contains(append(m.params, reserved...), name), "the parameter %.40s is not supported", name)
		m.params = append(m.params, name)
		if p.accept("=") {
			m.defaults[name] = p.expression()
		} else if len(m.defaults) > 0 {
			p.fail("the parameter %.40s needs a default", name)
		}
	})
	m.body = p.until("endmacro")
	return func(r *run) flow {
		defined := m
		defined.home = r.scope
		r.scope.vars[m.name] = &defined
		return done
	}
}

// invoke is the text of a macro.
func (r *run) invoke(m *macro, a *arguments) any {
	if len(a.exprs) > len(m.params) {
		fail("the macro %.40s takes %d arguments, not %d", m.name, len(m.params), len(a.exprs))
	}
	vars := map[string]any{}
	for i, v := range r.all(a.exprs) {
		vars[m.params[i]] = v
	}
	for i, name := range a.names {
		if !slices.Contains(m.params[len(a.exprs):], name) {
			fail("the macro %.40s has no argument %.40s left", m.name, name)
		}
		vars[name] = a.named[i](r)
	}
	return r.captured(vars, m.home, func(r *run) flow {
		for _, name := range m.params {
			if _, given := vars[name]; given {
				continue
			}
			vars[name] = undefined(name)
			if value := m.defaults[name]; value != nil {
				vars[name] = value(r)
			}
		}
		return m.body(r)
	})
}

// loop is what a template sees of a loop.
type loop struct {
	items []any
	at    int
}

func (l *loop) attribute(name string) any {
	n, at := len(l.items), l.at
	switch name {
	case "index":
		return at + 1
	case "index0":
		return at
	case "revindex":
		return n - at
	case "revindex0":
		return n - at - 1
	case "first":
		return at == 0
	case "last":
		return at == n-1
	case "length":
		return n
	case "previtem", "nextitem":
		if at += map[string]int{"previtem": -1, "nextitem": 1}[name]; at >= 0 && at < n {
			return l.items[at]
		}
		return undefined("loop." + name)
	}
	fail("loop.%.40s is not supported", name)
	return nil
}

func (p *parser) forLoop() block {
	assign := p.target(false)
	p.expect("in")
	items, condition := p.tuple(false, false), expr(nil)
	if p.accept("if") {
		condition = p.expression()
	}
	p.close()
	p.loops++
	body, end := p.body("else", "endfor")
	p.loops--
	none := func(*run) flow { return done }
	if p.close(); end == "else" {
		none, _ = p.body("endfor")
		p.close()
	}
	return func(r *run) flow {
		l := &loop{items: r.iterate(items(r))}
		if condition != nil {
			l.items = slices.DeleteFunc(slices.Clone(l.items), func(item any) bool {
				keep := false
				r.inside(map[string]any{"loop": undefined("loop")}, r.scope, func(r *run) flow {
					assign(r, item)
					keep = truth(condition(r))
					return done
				})
				return !keep
			})
		}
		for i, item := range l.items {
			l.at = i
			end := r.inside(map[string]any{"loop": l}, r.scope, func(r *run) flow { assign(r, item); return body(r) })
			if end == broken {
				break
			}
		}
		if len(l.items) == 0 {
			return r.inside(map[string]any{}, r.scope, none)
		}
		return done
	}
}
