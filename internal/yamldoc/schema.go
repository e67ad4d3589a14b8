package yamldoc

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// knownFields are the results of [Fields] by type.
var knownFields sync.Map // reflect.Type to []reflect.StructField

// Fields lists the fields of a struct that are keys, in their order: those of an embedded struct stand in its place.
func Fields(t reflect.Type) []reflect.StructField {
	if known, ok := knownFields.Load(t); ok {
		return known.([]reflect.StructField)
	}
	fields := slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
	knownFields.Store(t, fields)
	return fields
}

// Name returns the key of a field.
func Name(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// OmitsZero reports whether the zero of a field is left out where a document is written.
func OmitsZero(f reflect.StructField) bool { return strings.HasSuffix(f.Tag.Get("yaml"), ",omitempty") }

// Join adds a name to a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// LastPart returns the name at the end of a path.
func LastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// IsSections reports whether a type is a list whose elements have their own keys.
func IsSections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// IsList reports whether a type is a list.
func IsList(t reflect.Type) bool { return t.Kind() == reflect.Slice || t.Kind() == reflect.Array }

// TypeName names a key's type for people, with its article.
func TypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Uint64:
		return "an integer of 0 or more"
	case reflect.Float64:
		return "a number"
	case reflect.Struct:
		return "a section with keys"
	case reflect.Array:
		return fmt.Sprintf("a list of %d %ss", t.Len(), noun(t.Elem()))
	}
	if t.Elem().Kind() == reflect.Struct {
		return "a list of sections"
	}
	return fmt.Sprintf("a list of %ss", noun(t.Elem()))
}

// noun is [TypeName] without the article.
func noun(t reflect.Type) string {
	_, name, _ := strings.Cut(TypeName(t), " ")
	return name
}
