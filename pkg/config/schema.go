package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// The structs of config.go are the schema: a key is the path of yaml tags that
// leads to a field, joined by dots, and its type is the field's. A list of
// structs (the stages of [SFT]) contributes one set of keys for each element,
// with the index as a part of the path: stages.0.steps.

// Root is a configuration that this package loads: [Config] for `grpo train`
// and whatever trains by GRPO, [SFT] for `grpo sft`.
type Root interface{ Config | SFT }

// leaf is one key of a configuration with the place of its value.
type leaf struct {
	path  string
	value reflect.Value
	// neutral is the value at which the key changes nothing, from the tag of
	// that name; the keys of the first version have none.
	neutral    string
	hasNeutral bool
	// was is the key that the first version used in place of this one, from the
	// tag of that name. Its value is the neutral one.
	was string
}

// isNeutral reports a key at its neutral value.
func (f leaf) isNeutral() bool {
	if !f.hasNeutral {
		return false
	}
	if f.value.Kind() == reflect.String {
		return f.value.String() == f.neutral
	}
	return formatValue(f.value) == f.neutral
}

// leaves lists the keys of a configuration in the order of its fields. The
// values can be set when root points to the configuration.
func leaves(root any) []leaf {
	var out []leaf
	collect(reflect.Indirect(reflect.ValueOf(root)), "", "", &out)
	for i, f := range out {
		if f.was == "" {
			continue
		}
		for _, o := range out {
			if o.path == f.was {
				out[i].neutral, out[i].hasNeutral = formatValue(o.value), true
			}
		}
	}
	return out
}

func collect(v reflect.Value, path string, tag reflect.StructTag, out *[]leaf) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			collect(v.Field(i), join(path, fieldName(f)), f.Tag, out)
		}
	case isSections(v.Type()):
		for i := range v.Len() {
			collect(v.Index(i), join(path, strconv.Itoa(i)), "", out)
		}
	default:
		neutral, ok := tag.Lookup("neutral")
		*out = append(*out, leaf{path, v, neutral, ok, tag.Get("was")})
	}
}

func fieldName(f reflect.StructField) string { return f.Tag.Get("yaml") }

// isSections reports whether t is a list whose elements have keys of their own.
func isSections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// pattern replaces indices by a star: stages.0.steps becomes stages.*.steps.
func pattern(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// typeName names a key's type for people, with its article.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Uint64:
		return "an integer of 0 or more"
	case reflect.Float64:
		return "a number"
	case reflect.Array:
		return fmt.Sprintf("a list of %d %ss", t.Len(), elementName(t))
	case reflect.Slice:
		return fmt.Sprintf("a list of %ss", elementName(t))
	}
	panic(fmt.Sprintf("config: no key may have the type %v", t))
}

func elementName(t reflect.Type) string {
	if t.Elem().Kind() == reflect.Struct {
		return "section"
	}
	return strings.TrimPrefix(strings.TrimPrefix(typeName(t.Elem()), "an "), "a ")
}

func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice || t.Kind() == reflect.Array }
