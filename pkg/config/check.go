package config

import (
	"fmt"
	"math"
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
	root    any
	keys    map[any]leaf      // by the field's address
	origins map[string]Origin // nil: unknown
	// broken keys have no valid value and are already reported.
	broken map[string]bool
	// partial: the sources have other problems, such as a misspelled key. Comparing keys would
	// report their consequences.
	partial bool
	only    string // see [LoadOptions].Only
	found   []finding
	// values has the keys that accept only listed values.
	values map[string][]string
}

// finding is a problem of one key, or a contradiction between several.
type finding struct {
	keys []string
	text string
}

// newValidator prepares for the configuration that root points to.
func newValidator[T Root](root *T, origins map[string]Origin) *validator {
	v := &validator{
		root: root, origins: origins, keys: map[any]leaf{},
		broken: map[string]bool{}, values: map[string][]string{},
	}
	for _, f := range leaves(root) {
		v.keys[f.value.Addr().Interface()] = f
	}
	return v
}

// reject reports a problem. A field's address among the arguments is shown as its key. Each broken
// key is reported once.
func (v *validator) reject(format string, args ...any) {
	var keys []string
	shown := slices.Clone(args)
	for i, a := range args {
		if f, ok := v.keys[a]; ok {
			keys = append(keys, f.path)
			shown[i] = v.show(f)
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
func (v *validator) show(f leaf) string {
	value := yamldoc.Format(f.value)
	if f.value.Kind() == reflect.String {
		value = strconv.Quote(f.value.String())
	}
	if r := []rune(value); len(r) > 80 {
		value = string(r[:77]) + "..."
	}
	if v.origins != nil {
		value += ", " + v.origins[f.path].String()
	}
	return fmt.Sprintf("%s (%s)", f.path, value)
}

// interval is a range of numbers; an infinite end means no limit.
type interval struct {
	low, high         float64
	lowOpen, highOpen bool
}

func (r interval) contains(x float64) bool {
	return (x > r.low || x == r.low && !r.lowOpen) && (x < r.high || x == r.high && !r.highOpen)
}

func (r interval) String() string {
	low, high := "at least "+yamldoc.FormatFloat(r.low), "at most "+yamldoc.FormatFloat(r.high)
	if r.lowOpen {
		low = "more than " + yamldoc.FormatFloat(r.low)
	}
	if r.highOpen {
		high = "less than " + yamldoc.FormatFloat(r.high)
	}
	if math.IsInf(r.high, 1) {
		return low
	}
	return low + " and " + high
}

// IsTemperature reports whether a sampling temperature is in its bounds.
func IsTemperature(t float64) bool { return t >= temperature.low && t <= temperature.high }

var (
	nonNegative = interval{low: 0, high: math.Inf(1)}
	positive    = interval{low: 0, high: math.Inf(1), lowOpen: true}
	fraction    = interval{low: 0, high: 1}
	// temperature keeps logits divided by it finite in float32.
	temperature   = interval{low: 1e-30, high: 1e30}
	positiveUpTo1 = interval{low: 0, high: 1, lowOpen: true}
	belowOne      = interval{low: 0, high: 1, highOpen: true}
	// moderate is for rewards, which are multiplied and added: results must be finite.
	moderate = interval{low: -1e100, high: 1e100}
	// size is for objects in memory: a typing error must not ask for terabytes.
	size       = interval{low: 1, high: 1 << 20}
	sizeOrNone = interval{low: 0, high: 1 << 20}
	tokens     = interval{low: 1, high: 1 << 16}
	anyTokens  = interval{low: 0, high: 1 << 16}
	// counter is for steps, which number random streams by 32 bits.
	counter       = interval{low: 1, high: 1<<31 - 1}
	counterOrNone = interval{low: 0, high: 1<<31 - 1}
)

// in checks that numbers, or all elements of lists, are in an interval.
func (v *validator) in(r interval, fields ...any) {
	for _, field := range fields {
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
			v.eachIn(r, x, *x)
		case *[2]float64:
			v.eachIn(r, x, x[:])
		}
	}
}

func (v *validator) eachIn(r interval, field any, list []float64) {
	for i, x := range list {
		if !r.contains(x) {
			v.reject("%s: element %d must be %s", field, i+1, r)
			return
		}
	}
}

// oneOf checks that a string is one of values.
func oneOf[S ~string](v *validator, field *S, values ...string) {
	v.values[v.keys[field].path] = values
	if s := string(*field); !slices.Contains(values, s) {
		v.reject("%s must be one of %s%s", field, strings.Join(values, ", "), suggest.DidYouMean(s, values))
	}
}

// oneOfOrEmpty checks that a string is one of values, or empty.
func oneOfOrEmpty[S ~string](v *validator, field *S, values ...string) {
	v.values[v.keys[field].path] = values
	if *field != "" {
		oneOf(v, field, values...)
	}
}

// someOf checks that a list has at least one element, each one of values and none
// twice.
func (v *validator) someOf(field *[]string, values ...string) {
	v.values[v.keys[field].path] = values
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

// noEffect reports those of the fields that are not at their neutral value but have no effect
// because of another. Otherwise a run would differ from what its author expects, and all arms of a
// sweep over the key would be equal.
func (v *validator) noEffect(because any, fix string, fields ...any) {
	for _, field := range fields {
		if !v.keys[field].isNeutral() {
			v.reject("%s has no effect, because of %s (%s)", field, because, fix)
		}
	}
}

// validate returns all problems.
func (v *validator) validate() []string {
	for _, f := range leaves(v.root) {
		if err := yamldoc.Check(f.value); err != nil {
			v.reject("%s %v", f.value.Addr().Interface(), err)
		}
	}
	switch c := v.root.(type) {
	case *Config:
		c.validate(v)
	case *SFT:
		c.validate(v)
	case *RewardModel:
		c.validate(v)
	}
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
	if problems := newValidator(c, nil).validate(); len(problems) > 0 {
		return &Error{Doing: "check config", Problems: problems}
	}
	return nil
}
