package jinja

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A value is nil (None), a bool, int, float64, string, macro, loop, or one of these.
type (
	undefined string // the name of what is not defined
	global    string // the name of a function: it is defined
	markup    string // text of the filter safe: it can be printed and joined, nothing else
	sequence  struct {
		kind  string // "list", "tuple", "range", "iterator", "dict_keys"... as Python calls it
		items []any
		spent bool     // an iterator was read
		names []string // of the items, of what groupby yields
	}
	dict struct {
		keys, values []any
		index        map[any]int
	}
	namespace struct{ vars map[string]any }
)

func list(items []any) *sequence     { return &sequence{kind: "list", items: items} }
func iterator(items []any) *sequence { return &sequence{kind: "iterator", items: items} }

// typeName is Python's name of a value's type; a bool is an int.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *sequence:
		return v.kind
	case *dict:
		return "dict"
	case undefined:
		return "undefined"
	case markup:
		return "safe text"
	}
	return "object"
}

func isInt(v any) bool    { return typeName(v) == "int" }
func isNumber(v any) bool { return isInt(v) || typeName(v) == "float" }
func isPlain(v any) bool  { return typeName(v) == "list" || typeName(v) == "tuple" }

// number is an int, or a bool as one.
func number(v any) int {
	if b, ok := v.(bool); ok {
		return map[bool]int{true: 1}[b]
	} else if i, ok := v.(int); ok {
		return i
	}
	fail("%s instead of an integer", typeName(v))
	return 0
}

// float is a number as a float, which has to be the same number.
func float(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	i := number(v)
	if i > 1<<53 || i < -1<<53 {
		fail("integers beyond 2^53 as floats are not supported")
	}
	return float64(i)
}

// text is a value that has to be a text.
func text(v any) string {
	s, ok := v.(string)
	must(ok, "%s instead of a text", typeName(v))
	return s
}

// hash is a value as a key of a dict: 1, 1.0 and true are the same key.
func hash(v any) any {
	switch v := v.(type) {
	case bool:
		return number(v)
	case nil, int, string:
		return v
	}
	fail("%s as a key is not supported", typeName(v))
	return nil
}

func (d *dict) get(key any) (any, bool) {
	if typeName(key) == "undefined" {
		return nil, false
	}
	i, found := d.index[hash(key)]
	if !found {
		return nil, false
	}
	return d.values[i], true
}

func (r *run) set(d *dict, key, value any) {
	r.spend(64, 1)
	if d.index == nil {
		d.index = map[any]int{}
	}
	i, found := d.index[hash(key)]
	if !found {
		i = len(d.keys)
		d.index[hash(key)], d.keys, d.values = i, append(d.keys, key), append(d.values, value)
	}
	d.values[i] = value
}

// pairs are the items of a dict.
func (r *run) pairs(v any) []any {
	d, ok := v.(*dict)
	must(ok, "items of %s", typeName(v))
	r.spend(64, len(d.keys))
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		out[i] = &sequence{kind: "tuple", items: []any{k, d.values[i]}}
	}
	return out
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *sequence:
		return v.kind == "iterator" || len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return !isInt(v) || number(v) != 0
}

// iterate is what a loop over a value yields.
func (r *run) iterate(v any) []any {
	switch v := v.(type) {
	case undefined:
		return nil
	case string:
		r.spend(32, len(v))
		out := []any{}
		for _, c := range v {
			out = append(out, string(c))
		}
		return out
	case *dict:
		return v.keys
	case *sequence:
		must(!v.spent, "reading an iterator twice is not supported")
		v.spent = v.kind == "iterator"
		return v.items
	}
	fail("%s is not iterable", typeName(v))
	return nil
}

func (r *run) each(items []any, f func(any) any) []any {
	r.spend(16, len(items))
	out := make([]any, len(items))
	for i, x := range items {
		r.enter()
		out[i] = f(x)
		r.leave()
	}
	return out
}

// equal is Python's ==.
func (r *run) equal(a, b any) bool {
	r.enter()
	defer r.leave()
	if isNumber(a) && isNumber(b) {
		return order(a, b) == 0
	}
	switch x := a.(type) {
	case nil, undefined:
		return typeName(a) == typeName(b)
	case string:
		if typeName(b) != "safe text" {
			r.spend(1, len(x))
			return a == b
		}
	case *dict:
		y, ok := b.(*dict)
		return ok && len(x.keys) == len(y.keys) && !slices.ContainsFunc(x.keys, func(k any) bool {
			other, found := y.get(k)
			mine, _ := x.get(k)
			return !found || !r.equal(mine, other)
		})
	case *sequence:
		if y, ok := b.(*sequence); ok && isPlain(x) && x.kind == y.kind {
			return slices.EqualFunc(x.items, y.items, r.equal)
		}
	}
	if typeName(a) == typeName(b) || strings.Contains(typeName(a)+typeName(b), "safe text") {
		fail("comparing %s with %s is not supported", typeName(a), typeName(b))
	}
	return false
}

// order compares two numbers; NaN gives 2.
func order(a, b any) int {
	if isInt(a) && isInt(b) {
		return cmp.Compare(number(a), number(b))
	}
	x, y := float(a), float(b)
	if math.IsNaN(x) || math.IsNaN(y) {
		return 2
	}
	return cmp.Compare(x, y)
}

// compare is negative if a < b and zero if they are equal; NaN gives 2.
func (r *run) compare(a, b any) int {
	s, ok := a.(string)
	t, same := b.(string)
	if ok && same {
		r.spend(1, min(len(s), len(t)))
		return strings.Compare(s, t)
	} else if !isNumber(a) || !isNumber(b) {
		fail("%s and %s can't be ordered", typeName(a), typeName(b))
	}
	return order(a, b)
}

// contains is Python's in.
func (r *run) contains(v, item any) bool {
	switch v := v.(type) {
	case string:
		r.spend(1, len(v))
		return strings.Contains(v, text(item))
	case *dict:
		_, ok := v.get(item)
		return ok
	}
	return slices.ContainsFunc(r.iterate(v), func(x any) bool { return r.equal(x, item) })
}
