package config

import (
	"fmt"
	"reflect"
)

// Source is a layer of the configuration. A later one overrides an earlier one.
type Source int

// The layers, from the weakest to the strongest.
const (
	SourceDefault Source = iota
	SourceFile
	SourceEnv
	SourceSet
	SourceFlag
)

// Origin says where a key's value comes from.
type Origin struct {
	Source Source
	// Name is the file, the environment variable or the flag.
	Name string
	// Line is the key's line in the file; of a default, the line at which the
	// section begins that leaves the key out, if the section is one of a list.
	Line int
	// From is set when the value was 0 for "the same as" and stands for the
	// value of this other key.
	From string
	// AskedBy is set when the value was left open, or contradicted by default,
	// and is what this other key asks for.
	AskedBy string
}

// String writes an origin as messages and tables show it: "default",
// "x.yaml: line 4", "GRPO_SEED", "--set seed", "--seed"; followed by the key that
// decided a value that was left open.
func (o Origin) String() string {
	s := o.Name
	switch o.Source {
	case SourceDefault:
		s = "default"
		if o.Line > 0 {
			s = fmt.Sprintf("default in the section at %s: line %d", o.Name, o.Line)
		}
	case SourceFile:
		s = fmt.Sprintf("%s: line %d", o.Name, o.Line)
	}
	if o.From != "" {
		s += ", the same as " + o.From
	}
	if o.AskedBy != "" {
		s += ", as " + o.AskedBy + " asks"
	}
	return s
}

// Loaded is a configuration with the origin of each of its keys.
type Loaded[T Root] struct {
	// Config is complete: valid, and with the numbers that zeros stood for.
	Config  T
	origins map[string]Origin
}

// Resolved is what [Load] returns.
type Resolved = Loaded[Config]

// ResolvedSFT is what [LoadSFT] returns.
type ResolvedSFT = Loaded[SFT]

// Origin returns where the value of a key comes from; the zero Origin
// ("default") for an unknown key.
func (l *Loaded[T]) Origin(key string) Origin { return l.origins[key] }

// Row is one line of `grpo config show`.
type Row struct {
	Key, Value string
	Origin     Origin
}

// Rows lists all keys in the order of the documentation, each with its value in
// YAML's notation and its origin.
func (l *Loaded[T]) Rows() []Row {
	var rows []Row
	for _, f := range leaves(&l.Config) {
		rows = append(rows, Row{f.path, formatValue(f.value), l.origins[f.path]})
	}
	return rows
}

// leafPaths lists the keys of a configuration.
func leafPaths(root any) []string {
	var out []string
	for _, f := range leaves(root) {
		out = append(out, f.path)
	}
	return out
}

// leafTypes maps the keys of a configuration to their types.
func leafTypes(root any) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range leaves(root) {
		out[f.path] = f.value.Type()
	}
	return out
}
