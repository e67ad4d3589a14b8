package hf

import (
	"fmt"
	"reflect"

	"github.com/ardanlabs/jinja"
)

// maxGrowth is the largest factor by which one operation of a template may lengthen a
// text. [watch] finds what grows step by step; a single operation must not ask for more
// memory than there is.
const maxGrowth = 64

// checkGrowth refuses templates with an operation that can make a text of any length at
// once: 'x' * n, and replace, join, indent, tojson and slices with unknown arguments. It
// reads the syntax tree of jinja v1.4.0, which is not exported.
func checkGrowth(t *jinja.Template) error {
	return growth(reflect.ValueOf(t).Elem().FieldByName("nodes"))
}

func growth(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return growth(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if err := growth(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[jinja.Value]() {
			return nil
		}
		if what := unbounded(v); what != "" {
			return fmt.Errorf("%s is not supported: its result may have any length", what)
		}
		for i := range v.NumField() {
			if err := growth(v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unbounded names the operation of a node if it is one that [checkGrowth] refuses.
func unbounded(n reflect.Value) string {
	switch n.Type().Name() {
	case "binExpr":
		if n.FieldByName("op").String() == "*" && !number(n.FieldByName("left")) && !short(n.FieldByName("right")) {
			return "multiplication by a variable (*)"
		}
	case "sliceExpr":
		if !n.FieldByName("step").IsNil() && !(short(n.FieldByName("start")) && short(n.FieldByName("stop"))) {
			return "a slice with a step and variable bounds"
		}
	case "filterExpr":
		return unboundedCall(n, n.FieldByName("name").String())
	case "callExpr":
		if fn := node(n.FieldByName("fn")); fn.IsValid() && fn.Type().Name() == "attrExpr" {
			return unboundedCall(n, fn.FieldByName("attr").String())
		}
	}
	return ""
}

// unboundedCall is [unbounded] for a filter or a method. The text that it inserts must be
// a short literal.
func unboundedCall(n reflect.Value, name string) string {
	inserted, ok := map[string]int{"replace": 1, "join": 0, "indent": 0, "tojson": 0}[name]
	if name == "format" {
		return "format()"
	}
	if !ok {
		return ""
	}
	args, kwargs := n.FieldByName("args"), n.FieldByName("kwargs")
	fits := inserted >= args.Len() || short(args.Index(inserted))
	for i := range kwargs.Len() {
		k := kwargs.Index(i)
		fits = fits && (k.FieldByName("name").String() == "attribute" || short(k.FieldByName("value")))
	}
	if fits {
		return ""
	}
	return name + " with a variable"
}

// node is the struct that an expression points to; invalid for nil.
func node(e reflect.Value) reflect.Value {
	for e.Kind() == reflect.Interface || e.Kind() == reflect.Pointer {
		e = e.Elem()
	}
	return e
}

// literal is the value of a literal, which may have a sign; invalid for other expressions.
func literal(e reflect.Value) reflect.Value {
	n := node(e)
	if n.IsValid() && n.Type().Name() == "unaryExpr" {
		n = node(n.FieldByName("operand"))
	}
	if !n.IsValid() || n.Type().Name() != "litExpr" {
		return reflect.Value{}
	}
	return n.FieldByName("val").FieldByName("v").Elem()
}

func number(e reflect.Value) bool {
	v := literal(e)
	return v.IsValid() && (v.CanInt() || v.CanFloat())
}

// short says that an expression is absent, or a literal of at most maxGrowth.
func short(e reflect.Value) bool {
	if !node(e).IsValid() {
		return true
	}
	switch v := literal(e); {
	case !v.IsValid():
		return false
	case v.CanInt():
		return v.Int() <= maxGrowth && v.Int() >= -maxGrowth
	case v.Kind() == reflect.String:
		return v.Len() <= maxGrowth
	default:
		return v.Kind() == reflect.Bool || v.CanFloat()
	}
}
