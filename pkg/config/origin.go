package config

import "fmt"

// Source is a layer of the configuration. A later one overrides an earlier one.
type Source int

// The layers, from the weakest to the strongest.
const (
	SourceDefault  Source = iota
	SourceEmbedded        // a file that comes with the program
	SourceFile
	SourceEnv
	SourceSet
	SourceFlag
)

// Origin is where a key's value comes from.
type Origin struct {
	Source Source
	// Name is the file, the environment variable or the flag.
	Name string
	// Line is the key's line in the file; for a default in a list of sections, the first line of
	// its section.
	Line int
	// From is set if the value was 0 for "the same as" this other key.
	From string
	// AskedBy is the key that determined the value, if it was left open or its default contradicted
	// that key.
	AskedBy string
}

// String formats an origin for messages and tables: "default", "x.yaml: line 4", "GRPO_SEED",
// "--set seed", "--seed"; followed by the key that determined a value left open.
func (o Origin) String() string {
	s := o.Name
	switch o.Source {
	case SourceDefault:
		s = "default"
		if o.Line > 0 {
			s = fmt.Sprintf("default in the section at %s: line %d", o.Name, o.Line)
		}
	case SourceEmbedded, SourceFile:
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
	// Config is valid and resolved (see [Resolve]).
	Config  T
	origins map[string]Origin
	// resolved is the label of a file that [Marshal] wrote; empty without one.
	resolved string
}

// Resolved is what [Load] returns.
type Resolved = Loaded[Config]

// Origin returns where the value of a key comes from; the zero Origin
// ("default") for an unknown key.
func (l *Loaded[T]) Origin(key string) Origin { return l.origins[key] }

// Chosen reports whether the user gave the value of a key: it is not from a file that comes with the
// program, or that the program wrote.
func (l *Loaded[T]) Chosen(key string) bool {
	o := l.origins[key]
	return o.Source > SourceFile || o.Source == SourceFile && o.Name != l.resolved
}

// Row is one line of `grpo config show`.
type Row struct {
	Key, Value string
	Origin     Origin
}

// Rows lists all keys in the order of the documentation, each with its value in
// YAML's notation and its origin.
func (l *Loaded[T]) Rows() []Row {
	var rows []Row
	for _, k := range keysOf(l.Config) {
		rows = append(rows, Row{k.path, k.format(), l.origins[k.path]})
	}
	return rows
}
