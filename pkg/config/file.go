package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/words"
	"grpo/internal/yamldoc"
)

// setting is one value of one source, already of the key's type.
type setting struct {
	path   string
	value  any
	origin Origin
}

// document is what a YAML text says, checked against the schema of a root.
type document struct {
	label    string
	settings []setting
	// sections holds the length of each list of sections that the text gives.
	sections map[string]int
	// begins holds the line of each of their elements, by path (stages.0).
	begins   map[string]int
	problems []string
	// broken keys were given, with a value that does not fit.
	broken map[string]bool
	// keys are all keys of the schema, for suggestions.
	keys []string
}

// maxProblems bounds the list: a data file given by mistake has one in each line.
const maxProblems = 50

func (d *document) full() bool { return len(d.problems) > maxProblems }

func (d *document) problem(line int, format string, args ...any) {
	if len(d.problems) == maxProblems {
		d.problems = append(d.problems, d.label+": further problems are not listed")
	}
	if d.full() {
		return
	}
	d.problems = append(d.problems, fmt.Sprintf("%s: line %d: ", d.label, line)+fmt.Sprintf(format, args...))
}

// readDocument checks a text against the schema given by t, a struct type, with
// those keys. What yaml.v3 would convert, drop or merge in silence is a problem
// here, and each problem has its line.
func readDocument(src source, t reflect.Type, keys []string) *document {
	d := &document{label: src.label, sections: map[string]int{}, begins: map[string]int{}, broken: map[string]bool{}, keys: keys}
	root, problem := file.Parse(src.text)
	switch {
	case problem != nil && problem.Line == 0:
		d.problems = append(d.problems, d.label+": "+problem.Text)
		return d
	case problem != nil:
		d.problem(problem.Line, "%s", problem.Text)
		return d
	}
	if root.Kind != yaml.MappingNode {
		d.problem(root.Line, "want keys (such as \"seed: 1\") at the top, not %s", yamldoc.Kind(root))
		return d
	}
	d.mapping(root, t, "")
	return d
}

// place is where a key was first given, and under which name.
type place struct {
	line int
	as   string
}

func otherName(first, now string) string {
	if first == now {
		return ""
	}
	return fmt.Sprintf(", as %q", first)
}

// mapping reads the keys of a section: n into the struct type t at path.
func (d *document) mapping(n *yaml.Node, t reflect.Type, path string) {
	lines := map[string]place{}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			d.problem(key.Line, "merge keys (<<) are not supported (write the keys out)")
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.problem(key.Line, "want a key, not %s", yamldoc.Kind(key))
			continue
		}
		name := key.Value
		if own, ok := secondNames[join(path, name)]; ok {
			name = lastPart(own)
		}
		field, ok := fieldByName(t, name)
		if !ok {
			d.problem(key.Line, "unknown key %s%s", words.Quote(key.Value), d.suggest(t, path, key.Value))
			continue
		}
		if first, ok := lines[name]; ok {
			d.problem(key.Line, "duplicate key %q: it stands in line %d already%s", join(path, key.Value), first.line, otherName(first.as, key.Value))
			continue
		}
		lines[name] = place{key.Line, key.Value}
		d.value(value, field.Type, join(path, name), key.Line)
	}
}

func fieldByName(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); fieldName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// suggest answers an unknown key of the struct type t at path.
func (d *document) suggest(t reflect.Type, path, word string) string {
	for i := range t.NumField() {
		name := fieldName(t.Field(i))
		if rest, ok := strings.CutPrefix(word, name+"."); ok {
			return fmt.Sprintf(" (write %s: and below it, indented, %s:)", name, rest)
		}
	}
	var here []string
	for i := range t.NumField() {
		here = append(here, fieldName(t.Field(i)))
	}
	return suggestKey(word, here, d.keys)
}
