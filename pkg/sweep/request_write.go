package sweep

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// request writes what was planned as a request of the same form. The base is
// written by value: what file, environment, request and command line set, and no
// more. Values that follow from others are left to follow again, because the
// arms may change what they follow from.
func (p *planner) request(m sweepdir.Manifest) ([]byte, error) {
	root := mapping{}
	root.text("name", m.Name)
	root.text("title", m.Title)
	root.text("question", m.Question)
	root.add("set", baseSettings(p.base))
	if len(p.req.Arms) > 0 {
		root.add("arms", armNodes(p.req.Arms))
	}
	if len(m.Axes) > 0 {
		root.add("axes", axisNodes(m.Axes))
	}
	root.text("reference", m.Reference)
	root.text("best_over", m.BestOver)
	root.texts("fixed", p.req.Fixed)
	root.texts("notes", p.req.Notes)
	seeds := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range m.Seeds {
		seeds.Content = append(seeds.Content, scalar(strconv.FormatUint(s, 10)))
	}
	root.add("seeds", seeds)

	var b bytes.Buffer
	fmt.Fprintf(&b, "# written by grpo; repeat with: grpo ablate this-file\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root.node()); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	return b.Bytes(), nil
}

// baseSettings are the keys of the base that some source set. Name and seed are
// the runs' own.
func baseSettings(base *config.Resolved) *yaml.Node {
	var set mapping
	for _, row := range base.Rows() {
		o := row.Origin
		if o.Source == config.SourceDefault || o.From != "" || o.AskedBy != "" || row.Key == "name" || row.Key == "seed" {
			continue
		}
		set.add(row.Key, notation(row.Value))
	}
	return set.node()
}

func armNodes(arms []ArmRequest) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, a := range arms {
		var arm, set mapping
		arm.text("name", a.Name)
		arm.text("label", a.Label)
		for _, s := range a.Set {
			k, err := findKey(s.Key)
			if err != nil {
				continue // planned already: the key is known
			}
			set.add(k.Path, valueNode(k, s.Value))
		}
		arm.add("set", set.node())
		if a.Control {
			arm.add("control", scalar("true"))
		}
		list.Content = append(list.Content, arm.node())
	}
	return list
}

func axisNodes(axes []sweepdir.Axis) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, a := range axes {
		var x mapping
		x.text("key", a.Key)
		x.text("label", a.Label)
		values := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		if k, err := findKey(a.Key); err == nil {
			for _, v := range a.Values {
				values.Content = append(values.Content, valueNode(k, v))
			}
		}
		x.add("values", values)
		list.Content = append(list.Content, x.node())
	}
	return list
}

// mapping is a YAML section under construction.
type mapping struct{ content []*yaml.Node }

func (m *mapping) add(key string, value *yaml.Node) {
	m.content = append(m.content, quotable(key), value)
}

// text adds a text, unless it is empty.
func (m *mapping) text(key, value string) {
	if value != "" {
		m.add(key, quotable(value))
	}
}

func (m *mapping) texts(key string, values []string) {
	if len(values) == 0 {
		return
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range values {
		list.Content = append(list.Content, quotable(v))
	}
	m.add(key, list)
}

func (m *mapping) node() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: m.content} }

// quotable is a text, in quotes where YAML would take it for something else.
func quotable(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// scalar is a number or a boolean, as it is written.
func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// notation is a value in the notation of package config, which is YAML's.
func notation(s string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Content) != 1 {
		return quotable(s)
	}
	return doc.Content[0]
}

// valueNode is the value of a key, as --set takes it.
func valueNode(k config.Key, s string) *yaml.Node {
	switch {
	case k.Type == "a text":
		return quotable(s)
	case strings.HasPrefix(s, "["):
		return notation(s)
	}
	return scalar(canonical(k, s))
}
