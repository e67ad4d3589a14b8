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
	case "call":
		return p.call()
	case "filter":
		f, b := p.chain(), p.until("endfilter")
		return func(r *run) flow { r.put(r.out, text(f(r, r.captured(map[string]any{}, r.scope, b)))); return done }
	case "with":
		return p.with()
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

// free reads a name without a meaning of its own.
func (p *parser) free() string {
	name := p.name()
	if _, isFunction := functions[name]; isFunction || slices.Contains(reserved, name) {
		p.fail("giving %s another meaning is not supported", name)
	}
	return name
}

func (p *parser) oneTarget(set bool) func(*run, any) {
	name := p.free()
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
	f := func(_ *run, v any) any { return v }
	if p.accept("|") {
		f = p.chain()
	}
	b := p.until("endset")
	return func(r *run) flow { t(r, f(r, r.captured(map[string]any{}, r.scope, b))); return done }
}

// with reads variables of a block; their values do not see them.
func (p *parser) with() block {
	var targets []func(*run, any)
	var values []expr
	for p.peek().kind != kClose {
		if len(targets) > 0 {
			p.expect(",")
		}
		targets = append(targets, p.target(false))
		p.expect("=")
		values = append(values, p.expression())
	}
	b := p.until("endwith")
	return func(r *run) flow {
		all := r.all(values)
		return r.inside(map[string]any{}, r.scope, func(r *run) flow {
			for i, t := range targets {
				t(r, all[i])
			}
			return b(r)
		})
	}
}
