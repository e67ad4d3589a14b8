package jinja

import "slices"

// macro is a function that a template defines; home is the scope of its definition.
type macro struct {
	name     string
	params   []string
	defaults map[string]expr
	body     block
	caller   bool // it calls the block of a call
	home     *scope
}

func (p *parser) macro() block {
	name := p.free()
	p.must(p.peek().is("("), "%.40q where %q belongs", p.peek().text, "(")
	m := p.signature(name)
	m.define(p, "endmacro")
	return func(r *run) flow { r.scope.vars[name] = m.at(r.scope); return done }
}

// call reads a call of a macro, which gets the block as its function caller.
func (p *parser) call() block {
	caller := p.signature("caller")
	name := p.name()
	p.expect("(")
	a := p.arguments()
	caller.define(p, "endcall")
	return func(r *run) flow {
		r.put(r.out, r.invoke(name, a, caller.at(r.scope)))
		return done
	}
}

// define reads the body.
func (m *macro) define(p *parser, end string) {
	before := p.callers
	m.body = p.until(end)
	m.caller = p.callers > before
}

func (m macro) at(home *scope) *macro {
	m.home = home
	return &m
}

// signature reads parameters in brackets, if there are any.
func (p *parser) signature(name string) *macro {
	m := &macro{name: name, defaults: map[string]expr{}}
	if !p.accept("(") {
		return m
	}
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
	return m
}

// invoke is the text of a macro. caller is the block of a call, or nil.
func (r *run) invoke(name string, a *arguments, caller *macro) string {
	m, ok := r.lookup(name).(*macro)
	must(ok, "%.80s is not callable: it is no macro", name)
	must(m.caller || caller == nil, "the macro %.40s has no place for the block of a call", name)
	if len(a.exprs) > len(m.params) {
		fail("the macro %.40s takes %d arguments, not %d", m.name, len(m.params), len(a.exprs))
	}
	vars := map[string]any{"caller": undefined("caller")}
	if caller != nil {
		vars["caller"] = caller
	}
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
