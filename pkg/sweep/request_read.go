package sweep

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"grpo/internal/words"
	"grpo/internal/yamldoc"
)

// ParseRequest reads a request from YAML, as strictly as configurations are
// read: what the form does not know, or would have to convert, is an error with
// its line, and all problems are reported at once. label is the name of the file in
// messages. Keys and values of settings are checked when the sweep is planned.
func ParseRequest(label string, text []byte) (Request, error) {
	r := &reader{label: label}
	var req Request
	if root := r.document(text); root != nil {
		req = r.request(root)
	}
	if len(r.problems) > 0 {
		return Request{}, configError("read sweep", r.problems...)
	}
	return req, nil
}

// maxProblems bounds the list: a data file given by mistake has one a line.
const maxProblems = 20

type reader struct {
	label    string
	problems []string
}

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, fmt.Sprintf("%s: %s", r.at(n), fmt.Sprintf(format, args...)))
	}
}

func (r *reader) at(n *yaml.Node) string { return fmt.Sprintf("%s: line %d", r.label, max(n.Line, 1)) }

// document returns the mapping of the text's only document.
func (r *reader) document(text []byte) *yaml.Node {
	root, problem := requestFile.Parse(text)
	switch {
	case problem != nil:
		r.problem(&yaml.Node{Line: problem.Line}, "%s", problem.Text)
		return nil
	case root.Kind != yaml.MappingNode:
		r.problem(root, "want keys (such as \"name: my-sweep\") at the top, not %s", yamldoc.Kind(root))
		return nil
	}
	return root
}

// field is a key of a section and what reads its value.
type field struct {
	name string
	read func(*yaml.Node)
}

// section reads the keys of a mapping, each at most once, and returns the names
// that it met.
func (r *reader) section(n *yaml.Node, what string, fields []field) map[string]bool {
	met := map[string]bool{}
	if n.Kind != yaml.MappingNode {
		r.problem(n, "%s must be a section with keys, not %s", what, yamldoc.Kind(n))
		return met
	}
	r.pairs(n, func(key, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			var names []string
			for _, f := range fields {
				names = append(names, f.name)
			}
			hint := words.DidYouMean(key.Value, names)
			if hint == "" {
				hint = fmt.Sprintf(" (%s has %s)", what, strings.Join(names, ", "))
			}
			r.problem(key, "unknown key %s%s", words.Quote(key.Value), hint)
			return
		}
		met[key.Value] = true
		fields[i].read(value)
	})
	return met
}

// pairs calls f for each key of a mapping that can be one.
func (r *reader) pairs(n *yaml.Node, f func(key, value *yaml.Node)) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content) && len(r.problems) < maxProblems; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Style&yaml.TaggedStyle != 0:
			r.problem(key, "want a key, not %s", yamldoc.Kind(key))
		case twice:
			r.problem(key, "duplicate key %s: it is already in line %d", words.Quote(key.Value), first)
		default:
			lines[key.Value] = key.Line
			f(key, value)
		}
	}
}

// line reads a text of one line.
func (r *reader) line(what string, to *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Style&yaml.TaggedStyle != 0:
			r.problem(n, "%s must be a text, not %s", what, yamldoc.Kind(n))
		case strings.TrimSpace(n.Value) == "":
			r.problem(n, "%s must not be empty (remove the line)", what)
		case strings.ContainsFunc(strings.TrimSuffix(n.Value, "\n"), func(c rune) bool { return !unicode.IsPrint(c) }):
			r.problem(n, "%s must be one line of printable text", what)
		default:
			*to = strings.TrimSpace(n.Value)
		}
	}
}

// boolean reads true or false.
func (r *reader) boolean(what string, to *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Value != "true" && n.Value != "false" {
			r.problem(n, "%s must be true or false, not %s", what, yamldoc.Kind(n))
			return
		}
		*to = n.Value == "true"
	}
}

// list reads a list that is not empty, element by element.
func (r *reader) list(what string, each func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch {
		case n.Kind != yaml.SequenceNode:
			r.problem(n, "%s must be a list, not %s", what, yamldoc.Kind(n))
		case len(n.Content) == 0:
			r.problem(n, "%s must not be an empty list (remove the line)", what)
		default:
			for _, e := range n.Content {
				each(e)
			}
		}
	}
}

// value reads a value as --set takes it: a scalar as it is written, a list as
// [a, b].
func (r *reader) value(what string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.SequenceNode && n.Style&yaml.TaggedStyle == 0:
		parts := make([]string, len(n.Content))
		for i, e := range n.Content {
			v, ok := r.value(what, e)
			if !ok {
				return "", false
			}
			if e.Kind != yaml.ScalarNode || strings.ContainsAny(v, ",[]") {
				r.problem(e, "%s: an element of a list must be a single value without commas and brackets, not %s", what, yamldoc.Kind(e))
				return "", false
			}
			parts[i] = v
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case n.Kind == yaml.MappingNode:
		r.problem(n, "%s must be a value, not a section (write the key with dots: %s.KEY)", what, what)
		return "", false
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Style&yaml.TaggedStyle != 0:
		r.problem(n, "%s must be a value, not %s", what, yamldoc.Kind(n))
		return "", false
	}
	return n.Value, true
}
