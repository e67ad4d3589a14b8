package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/yamldoc"
)

// validator collects the problems of a configuration. Its methods take the addresses of fields, so
// that messages show key, value and origin: seed (7, x.yaml: line 4).
type validator struct {
	root    root
	keys    keyList
	byField map[any]*key      // by the field's address
	origins map[string]Origin // nil: unknown
	// broken keys have no valid value and are already reported.
	broken map[string]bool
	// partial: the sources have other problems, such as a misspelled key. Comparing keys would
	// report their consequences.
	partial bool
	only    string // see [LoadOptions].Only
	found   []finding
}

// root is a pointer to a [Root].
type root interface {
	// validate rejects what the declarations of the keys do not exclude.
	validate(v *validator)
	// train returns the sections that it shares with the configuration of a run.
	train() *Config
}

// finding is a problem of one key, or a contradiction between several.
type finding struct {
	keys []string
	text string
}

// newValidator prepares for the configuration that root points to.
func newValidator(root root, origins map[string]Origin) *validator {
	v := &validator{
		root: root, keys: keysOf(root), byField: map[any]*key{}, origins: origins, broken: map[string]bool{},
	}
	for i := range v.keys {
		v.byField[v.keys[i].field()] = &v.keys[i]
	}
	return v
}

// reject reports a problem. A field's address among the arguments is shown as its key. Each broken
// key is reported once.
func (v *validator) reject(format string, args ...any) {
	var keys []string
	shown := slices.Clone(args)
	for i, a := range args {
		if k, ok := v.byField[a]; ok {
			keys = append(keys, k.path)
			shown[i] = v.show(k)
		}
	}
	if len(keys) == 1 {
		if v.broken[keys[0]] {
			return
		}
		v.broken[keys[0]] = true
	}
	v.found = append(v.found, finding{keys, fmt.Sprintf(format, shown...)})
}

// show formats a key with its value and origin.
func (v *validator) show(k *key) string {
	value := k.format()
	if k.value.Kind() == reflect.String {
		value = strconv.Quote(k.value.String())
	}
	if r := []rune(value); len(r) > 80 {
		value = string(r[:77]) + "..."
	}
	if v.origins != nil {
		value += ", " + v.origins[k.path].String()
	}
	return fmt.Sprintf("%s (%s)", k.path, value)
}

// declared checks a key by itself: it can be written and read back, and is what its tags allow.
func (v *validator) declared(k *key) {
	if err := yamldoc.Check(k.value); err != nil {
		v.reject("%s %v", k.field(), err)
	}
	if k.in != nil {
		v.in(*k.in, k.field())
	}
	values := k.of
	if c, ok := v.root.(*Config); ok && k.path == "reward.functions" {
		values = c.Reward.names()
	}
	switch s := k.value; {
	case values == nil:
	case s.Kind() == reflect.Slice:
		v.someOf(k.field().(*[]string), values)
	case s.String() == "" && k.orEmpty:
	case !slices.Contains(values, s.String()):
		v.reject("%s must be one of %s%s", k.field(), strings.Join(values, ", "), suggest.DidYouMean(s.String(), values))
	}
}

// in checks that a number, or all elements of a list, are in an interval.
func (v *validator) in(r interval, field any) {
	var list []float64
	switch x := field.(type) {
	case *int:
		if !r.contains(float64(*x)) {
			v.reject("%s must be %s", x, r)
		}
	case *float64:
		if !r.contains(*x) {
			v.reject("%s must be %s", x, r)
		}
	case *[]float64:
		list = *x
	case *[]int:
		for _, n := range *x {
			list = append(list, float64(n))
		}
	case *[2]float64:
		list = x[:]
	}
	if i := slices.IndexFunc(list, func(x float64) bool { return !r.contains(x) }); i >= 0 {
		v.reject("%s: element %d must be %s", field, i+1, r)
	}
}

// someOf checks that a list has at least one element, each one of values and none
// twice.
func (v *validator) someOf(field *[]string, values []string) {
	if len(*field) == 0 {
		v.reject("%s must name at least one of %s", field, strings.Join(values, ", "))
	}
	for i, e := range *field {
		if !slices.Contains(values, e) {
			v.reject("%s: %q must be one of %s%s", field, e, strings.Join(values, ", "), suggest.DidYouMean(e, values))
			return
		}
		if slices.Contains((*field)[:i], e) {
			v.reject("%s: %q appears twice", field, e)
			return
		}
	}
}

func (v *validator) notEmpty(field *string) {
	if *field == "" {
		v.reject("%s must not be empty", field)
	}
}

// atMost checks that no number exceeds another.
func atMost[N int | float64](v *validator, field, limit *N) {
	if *field > *limit {
		v.reject("%s must be at most %s", field, limit)
	}
}

// multiple checks that a number is a multiple of another, unless that is 0, which
// means "the same".
func (v *validator) multiple(field, of *int) {
	if *of != 0 && *field%*of != 0 {
		v.reject("%s must be a multiple of %s", field, of)
	}
}

// compatible reports that a field contradicts another, unless ok.
func (v *validator) compatible(ok bool, field, other any, why string) {
	if !ok {
		v.reject("%s contradicts %s: %s", field, other, why)
	}
}

// validate returns all problems.
func (v *validator) validate() []string {
	for i := range v.keys {
		v.declared(&v.keys[i])
	}
	v.root.validate(v)
	v.effects(false)
	var problems []string
	for _, f := range v.found {
		isBroken := func(key string) bool { return v.broken[key] }
		if len(f.keys) != 1 && (v.partial || slices.ContainsFunc(f.keys, isBroken)) {
			continue
		}
		problems = append(problems, f.text)
	}
	return problems
}

// Validate checks a configuration that was not made by [Load] or another loader (which call it) and
// reports all problems at once in an [*Error].
func Validate[T Root](c *T) error {
	if problems := newValidator(any(c).(root), nil).validate(); len(problems) > 0 {
		return &Error{Doing: "check config", Problems: problems}
	}
	return nil
}
