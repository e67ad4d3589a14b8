package explain

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// fields reads an object. Its methods remember the first error and which fields
// were asked for; done returns the error, or one for a field that has no meaning.
type fields struct {
	at     node
	order  []string
	values map[string]json.RawMessage
	asked  []string
	err    error
	top    bool // the object of a whole file: a colon after its name
}

// fields opens an object. Names that begin with "_" are remarks and left out.
func (n node) fields() *fields { return n.open(false) }

func (n node) open(top bool) *fields {
	f := &fields{at: n, values: map[string]json.RawMessage{}, top: top}
	if !n.is('{') {
		f.err = n.errorf("%s; it must be an object", n.kind())
		return f
	}
	dec := json.NewDecoder(bytes.NewReader(n.raw))
	if _, err := dec.Token(); err != nil {
		f.err = n.errorf("%w", err)
		return f
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			f.err = n.errorf("%w", err)
			return f
		}
		name, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			f.err = n.errorf("%w", err)
			return f
		}
		if _, twice := f.values[name]; twice {
			f.err = f.child(name, nil).errorf("the field is there twice")
			return f
		}
		f.values[name] = raw
		f.order = append(f.order, name)
	}
	return f
}

func (f *fields) child(name string, raw json.RawMessage) node {
	sep := "."
	if f.top {
		sep = ": "
	}
	return node{f.at.path + sep + shown(name), raw}
}

// get returns a field; ok is false where it is missing or null.
func (f *fields) get(name string) (n node, ok bool) {
	f.asked = append(f.asked, name)
	raw, there := f.values[name]
	n = f.child(name, raw)
	return n, there && !n.null()
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// must returns a field that has to be there.
func (f *fields) must(name string) (node, bool) {
	n, ok := f.get(name)
	if !ok {
		f.fail(n.errorf("missing"))
	}
	return n, ok
}

// ignore names fields that may stand there and are not read here.
func (f *fields) ignore(names ...string) { f.asked = append(f.asked, names...) }

func (f *fields) float(name string, def float64) float64 {
	if v := f.floatOrNil(name); v != nil {
		return *v
	}
	return def
}

func (f *fields) floatOrNil(name string) *float64 {
	n, ok := f.get(name)
	if !ok {
		return nil
	}
	v, err := n.number()
	if err != nil {
		f.fail(err)
	}
	return &v
}

func (f *fields) integer(name string, def, lo, hi int) int {
	n, ok := f.get(name)
	if !ok {
		return def
	}
	v, err := n.number()
	if err == nil && (v != math.Trunc(v) || v < float64(lo) || v > float64(hi)) {
		err = n.errorf("%v; it must be a whole number from %d to %d", v, lo, hi)
	}
	if err != nil {
		f.fail(err)
		return def
	}
	return int(v)
}

func (f *fields) boolean(name string) bool {
	n, ok := f.get(name)
	if !ok {
		return false
	}
	var v bool
	if json.Unmarshal(n.raw, &v) != nil {
		f.fail(n.errorf("%s; it must be true or false", n.kind()))
	}
	return v
}

func (f *fields) text(name, def string) string {
	n, ok := f.get(name)
	if !ok {
		return def
	}
	var v string
	if json.Unmarshal(n.raw, &v) != nil {
		f.fail(n.errorf("%s; it must be a text", n.kind()))
	}
	return v
}

// choice is a text that must be one of known.
func (f *fields) choice(name, def string, known ...string) string {
	v := f.text(name, def)
	if f.err == nil && !slices.Contains(known, v) {
		n, _ := f.get(name)
		f.fail(n.errorf("unknown name %q (known: %s)", clip(v), strings.Join(known, ", ")))
	}
	return v
}

// done returns the first error, or one for a field that nothing asked for.
func (f *fields) done() error {
	if f.err != nil {
		return f.err
	}
	for _, name := range f.order {
		if !strings.HasPrefix(name, "_") && !slices.Contains(f.asked, name) {
			known := slices.Compact(slices.Sorted(slices.Values(f.asked)))
			return f.child(name, nil).errorf("unknown field (known: %s)", strings.Join(known, ", "))
		}
	}
	return nil
}
