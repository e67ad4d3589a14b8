package config

import (
	"fmt"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"

	"grpo/internal/words"
	"grpo/internal/yamldoc"
)

// value reads what stands behind a key; line is the key's.
func (d *document) value(n *yaml.Node, t reflect.Type, path string, line int) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.broken[path] = true
		d.problem(n.Line, "%s is the alias *%s: aliases are not supported (write the value out)", path, words.Show(n.Value))
	case n.Style&yaml.TaggedStyle != 0:
		d.broken[path] = true
		d.problem(n.Line, "%s has the tag %s: tags are not supported (remove it)", path, words.Show(n.Tag))
	case t.Kind() == reflect.Struct:
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			d.problem(line, "%s must be a section with keys, not %s%s", path, yamldoc.Kind(n), emptyHint(n))
			return
		}
		d.mapping(n, t, path)
	case isSections(t):
		d.sequence(n, t, path, line)
	default:
		v, err := parseNode(n, t)
		if err != nil {
			d.broken[path] = true
			d.problem(max(n.Line, line), "%s %v", path, err)
			return
		}
		d.settings = append(d.settings, setting{path, ownValue(path, v), Origin{Source: SourceFile, Name: d.label, Line: line}})
	}
}

func emptyHint(n *yaml.Node) string {
	if n.Tag == "!!null" || n.Kind == yaml.MappingNode {
		return " (remove the line or give it keys)"
	}
	return ""
}

// sequence reads a list of sections.
func (d *document) sequence(n *yaml.Node, t reflect.Type, path string, line int) {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.problem(line, "%s must be %s, not %s", path, typeName(t), yamldoc.Kind(n))
		return
	case len(n.Content) > maxSections:
		d.problem(line, "%s has %d sections, more than %d", path, len(n.Content), maxSections)
		return
	}
	d.sections[path] = len(n.Content)
	for i, e := range n.Content {
		element := join(path, strconv.Itoa(i))
		d.begins[element] = e.Line
		d.value(e, t.Elem(), element, e.Line)
	}
}

// parseNode reads a scalar or a list of scalars. A YAML value has a kind of its
// own (the text "8" in quotes is no number, the bare word 8 is no text), which
// must be the key's.
func parseNode(n *yaml.Node, t reflect.Type) (any, error) {
	if isList(t) {
		if n.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("must be %s, not %s (write [a, b])", typeName(t), yamldoc.Kind(n))
		}
		var elements []any
		for i, e := range n.Content {
			v, err := parseNode(e, t.Elem())
			if err != nil {
				return nil, fmt.Errorf("element %d %w", i+1, err)
			}
			elements = append(elements, v)
		}
		return makeList(elements, t)
	}
	isText := n.Kind == yaml.ScalarNode && n.Tag == "!!str"
	inQuotes := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&yaml.TaggedStyle != 0:
		return nil, mustBe(t, yamldoc.Kind(n), "")
	case n.Tag == "!!null" && !inQuotes:
		return nil, mustBe(t, "nothing", "give a value or remove the line")
	case t.Kind() == reflect.String && !isText:
		return nil, mustBe(t, yamldoc.Kind(n), fmt.Sprintf("write %s, in quotes", words.Quote(n.Value)))
	case t.Kind() != reflect.String && inQuotes:
		return nil, mustBe(t, "the text "+words.Quote(n.Value), "remove the quotes")
	}
	return parseScalar(n.Value, t)
}
