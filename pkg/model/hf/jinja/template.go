// Package jinja renders chat templates with the text that jinja2 gives in transformers' sandbox. It has what
// published templates use. Everything else is an error: statements, filters, tests, methods and their arguments
// when a template is parsed, operations on other types when it is rendered.
package jinja

import (
	"fmt"
	"strings"
)

// Limits of templates, which may come from anyone. They hold before memory is taken.
const (
	maxSource = 128 << 10 // bytes of a template
	maxNest   = 200       // brackets and blocks inside of each other in the source
	maxDepth  = 2000      // operations inside of each other when it is rendered
	maxValue  = 16 << 20  // bytes of the text, and of any value on the way
	maxWork   = 64 << 20  // bytes of all values, and 16 for each operation
)

// Template is a parsed template.
type Template struct{ body block }

// failure is an error on its way to Parse or Render.
type failure struct{ error }

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func must(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args...)
	}
}

func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case failure:
		*err = p.error
	default:
		panic(p)
	}
}

// Parse reads a template. The error has the line.
func Parse(source string) (t *Template, err error) {
	defer caught(&err)
	must(len(source) <= maxSource, "it has %d bytes, the limit is %d", len(source), maxSource)
	p := &parser{tokens: lex(source)}
	body, _ := p.body()
	return &Template{body}, nil
}

// Field is a key of an object with its value.
type Field struct {
	Name  string
	Value any
}

// Render is the template's text. Values of vars are nil, bool, int, float64, string, []any and []Field.
func (t *Template) Render(vars map[string]any) (text string, err error) {
	defer caught(&err)
	var out strings.Builder
	r := &run{work: maxWork, out: &out, scope: &scope{vars: map[string]any{}}}
	for name, v := range vars {
		r.scope.vars[name] = r.value(v)
	}
	t.body(r)
	return out.String(), nil
}

func (r *run) value(v any) any {
	switch v := v.(type) {
	case nil, bool, int, float64, string:
		return v
	case []any:
		return list(r.each(v, r.value))
	case []Field:
		d := &dict{}
		for _, f := range v {
			r.set(d, f.Name, r.value(f.Value))
		}
		return d
	}
	fail("a variable of type %T", v)
	return nil
}

// run is one rendering.
type run struct {
	work, depth int
	scope       *scope
	out         *strings.Builder
}

// scope has the variables of a block; those of outer blocks can be read.
type scope struct {
	vars  map[string]any
	outer *scope
}

func (r *run) lookup(name string) any {
	for s := r.scope; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined(name)
}

// spend accounts for n values of some bytes before they are made.
func (r *run) spend(bytes, n int) {
	must(n <= 0 || bytes <= maxValue/n, "a value of more than %d MiB", maxValue>>20)
	if r.work -= bytes * max(n, 0); r.work < 0 {
		fail("it needs more than %d million operations or %d MiB of values", maxWork>>24, maxWork>>20)
	}
}

// enter counts an operation up to leave.
func (r *run) enter() {
	r.spend(16, 1)
	if r.depth++; r.depth > maxDepth {
		fail("more than %d operations inside of each other (does it recurse without end?)", maxDepth)
	}
}

func (r *run) leave() { r.depth-- }

// inside runs a block in a scope of its own.
func (r *run) inside(vars map[string]any, outer *scope, b block) flow {
	r.spend(256, 1)
	before := r.scope
	r.scope = &scope{vars, outer}
	end := b(r)
	r.scope = before
	return end
}

// captured is the text that a block writes.
func (r *run) captured(vars map[string]any, outer *scope, b block) string {
	before := r.out
	r.out = &strings.Builder{}
	r.inside(vars, outer, b)
	text := r.out.String()
	r.out = before
	return text
}
