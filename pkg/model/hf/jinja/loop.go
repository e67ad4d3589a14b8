package jinja

import "slices"

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
	case "depth", "depth0": // only recursive loops count
		return len("depth0") - len(name)
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
