package jinja

import (
	"math"
	"slices"
	"strings"
)

// operate is the value of an operator.
func (r *run) operate(op string, a, b any) any {
	if op == "~" {
		s, t := r.str(a), r.str(b)
		r.spend(1, len(s)+len(t))
		return s + t
	} else if op == "*" && isInt(a) && !isNumber(b) {
		a, b = b, a
	}
	switch x := a.(type) {
	case string:
		switch {
		case op == "%":
			return r.percent(x, b)
		case op == "+":
			r.spend(1, len(x)+len(text(b)))
			return x + text(b)
		case op == "*":
			r.spend(max(1, len(x)), number(b))
			return strings.Repeat(x, max(0, number(b)))
		}
	case *sequence:
		y, _ := b.(*sequence)
		switch {
		case op == "+" && y != nil && isPlain(x) && x.kind == y.kind:
			r.spend(16, len(x.items)+len(y.items))
			return &sequence{kind: x.kind, items: slices.Concat(x.items, y.items)}
		case op == "*" && isPlain(x):
			r.spend(16*max(1, len(x.items)), number(b))
			return &sequence{kind: x.kind, items: slices.Repeat(x.items, max(0, number(b)))}
		}
	}
	if !isNumber(a) || !isNumber(b) {
		fail("%s %s %s", typeName(a), op, typeName(b))
	}
	if isInt(a) && isInt(b) && op != "/" {
		return integer(op, number(a), number(b))
	}
	return floating(op, float(a), float(b))
}

// integer is an operation of two integers.
func integer(op string, a, b int) any {
	c, ok := 0, true
	switch op {
	case "+":
		c = a + b
		ok = (c > a) == (b > 0)
	case "-":
		c = a - b
		ok = (c < a) == (b > 0)
	case "*":
		c = a * b
		ok = a == 0 || c/a == b && (a != -1 || b != math.MinInt)
	default: // rounded down
		if ok = b != 0 && a != math.MinInt; !ok {
			break
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient, rest = quotient-1, rest+b
		}
		c = map[string]int{"//": quotient, "%": rest}[op]
	}
	must(ok, "%d %s %d is not a number of 64 bits", a, op, b)
	return c
}

func floating(op string, a, b float64) any {
	switch {
	case op == "+":
		return a + b
	case op == "-":
		return a - b
	case op == "*":
		return a * b
	case op == "/" && b != 0:
		return a / b
	}
	fail("%v %s %v is not supported", a, op, b)
	return nil
}

// holds reports if a comparison is true.
func (r *run) holds(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	c := r.compare(a, b)
	return op == "<" && c < 0 || op == "<=" && c <= 0 || op == ">" && c == 1 || op == ">=" && (c == 0 || c == 1)
}

// attributes that values have in Python, besides methods that are supported: an error, not undefined.
var attributes = strings.Fields(`
	append as_integer_ratio bit_count bit_length capitalize casefold center clear close conjugate copy count
	denominator encode endswith expandtabs extend find format format_map from_bytes fromhex fromkeys get hex
	imag index insert is_integer isalnum isalpha isascii isdecimal isdigit isdisjoint isidentifier islower
	isnumeric isprintable isspace istitle isupper items join keys ljust lower lstrip maketrans mapping
	numerator partition pop popitem real remove removeprefix removesuffix replace reverse rfind rindex rjust
	rpartition rsplit rstrip send setdefault sort split splitlines start startswith step stop strip swapcase
	throw title to_bytes translate update upper values zfill`)

// ofDict are those of them that a dict has: there they come before its items.
var ofDict = strings.Fields("clear copy fromkeys get items keys pop popitem setdefault update values")

// attribute is v.name.
func (r *run) attribute(v any, name string) any {
	_, isDict := v.(*dict)
	switch {
	case strings.HasPrefix(name, "_"):
		fail("the attribute %.40s is not supported", name)
	case isDict && slices.Contains(ofDict, name):
		return global(name)
	case isDict:
		return r.item(v, name)
	}
	return r.member(v, name)
}

// member is an attribute of what is not a dict.
func (r *run) member(v any, name string) any {
	switch v := v.(type) {
	case undefined:
		fail("%.80q is undefined and has no attribute %.80q", string(v), name)
	case *namespace:
		if a, ok := v.vars[name]; ok {
			return a
		}
		return undefined(name)
	case *loop:
		return v.attribute(name)
	case *sequence:
		if i := slices.Index(v.names, name); i >= 0 {
			return v.items[i]
		}
	case global:
		if slices.Contains(ofDict, string(v)) {
			return undefined(name)
		}
	}
	others := []string{"object", "safe text"}
	if slices.Contains(others, typeName(v)) || slices.Contains(attributes, name) {
		fail("the attribute %.40s of %s is not supported", name, typeName(v))
	}
	return undefined(name)
}

// item is v[key].
func (r *run) item(v, key any) any {
	switch x := v.(type) {
	case string:
		if isInt(key) {
			v, x = &sequence{kind: "tuple", items: r.iterate(v)}, ""
		}
	case *dict:
		if isPlain(key) || typeName(key) == "dict" { // no key of a dict is one
			return undefined("an item of a dict")
		}
		item, ok := x.get(key)
		if name, isText := key.(string); !ok && isText && slices.Contains(ofDict, name) {
			return global(name)
		} else if !ok {
			return undefined(r.plain(key))
		}
		return item
	}
	if s, ok := v.(*sequence); ok && isInt(key) && (isPlain(v) || s.kind == "range") {
		i := number(key)
		if i < 0 {
			i += len(s.items)
		}
		if i >= 0 && i < len(s.items) {
			return s.items[i]
		}
		return undefined("an item of a " + s.kind)
	}
	if name, ok := key.(string); ok && !strings.HasPrefix(name, "_") {
		return r.member(v, name)
	}
	if v == nil || isNumber(v) || isPlain(v) || typeName(v) == "str" {
		return undefined("an item of " + typeName(v))
	}
	fail("%s has no items", typeName(v))
	return nil
}

// slice is v[from:to:step].
func (r *run) slice(v any, by [3]any) any {
	_, isText := v.(string)
	if !isText && !isPlain(v) {
		fail("a slice of %s", typeName(v))
	}
	items, out := r.iterate(v), []any{}
	r.spend(16, len(items))
	step, low, high := 1, 0, len(items)
	if by[2] != nil {
		step = number(by[2])
	}
	if step == 0 {
		fail("a slice with step 0")
	} else if step < 0 {
		low, high = -1, len(items)-1
	}
	ends := [2]int{low, high}
	if step < 0 {
		ends = [2]int{high, low}
	}
	for i, x := range by[:2] {
		if x == nil {
			continue
		}
		if ends[i] = number(x); ends[i] < 0 {
			ends[i] += len(items)
		}
		ends[i] = max(low, min(ends[i], high))
	}
	step = max(-len(items)-1, min(step, len(items)+1))
	for i := ends[0]; step > 0 && i < ends[1] || step < 0 && i > ends[1]; i += step {
		out = append(out, items[i])
	}
	if isText {
		return r.join("", out)
	}
	return &sequence{kind: typeName(v), items: out}
}

// percent is Python's format % values, for %s and %d.
func (r *run) percent(format string, v any) string {
	values := []any{v}
	if t, ok := v.(*sequence); ok && t.kind == "tuple" {
		values = t.items
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(format, "%")
		r.put(&b, before)
		switch {
		case !found && len(values) == 0:
			return b.String()
		case strings.HasPrefix(after, "%"):
			r.put(&b, "%")
		case len(values) > 0 && (strings.HasPrefix(after, "s") || strings.HasPrefix(after, "d") && isInt(values[0])):
			value := values[0]
			if after[0] == 'd' {
				value = number(value)
			}
			r.put(&b, r.plain(value))
			values = values[1:]
		default:
			fail("the format %%%.10s with this value is not supported", after)
		}
		format = after[1:]
	}
}
