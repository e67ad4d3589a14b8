package sweep

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/yamldoc"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// request writes the plan as a request. Its base is a set of all values that file,
// environment, request and command line set. Values that follow from others are left
// out, because the arms may change what they follow from.
func (p *planner) request(m sweepdir.Manifest) ([]byte, error) {
	f := requestForm{
		Name: yamldoc.Line(m.Name), Title: yamldoc.Line(m.Title), Question: yamldoc.Line(m.Question),
		Set: p.baseSettings(), Reference: yamldoc.Line(m.Reference), BestOver: yamldoc.Line(m.BestOver),
		Fixed: asLines(p.req.Fixed), Notes: asLines(p.req.Notes),
		Seeds: &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle},
	}
	for _, a := range p.req.Arms {
		set := &yaml.Node{Kind: yaml.MappingNode}
		for _, s := range a.Set {
			if k, err := config.FindKey(s.Key); err == nil { // planned already: the key is known
				set.Content = append(set.Content, quotable(k.Path), valueNode(k, s.Value))
			}
		}
		f.Arms = append(f.Arms, armForm{yamldoc.Line(a.Name), yamldoc.Line(a.Label), set, a.Control})
	}
	for _, a := range m.Axes {
		values := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		if k, err := config.FindKey(a.Key); err == nil {
			for _, v := range a.Values {
				values.Content = append(values.Content, valueNode(k, v))
			}
			for i, v := range a.Written { // numbers
				values.Content[i] = plain(v)
			}
		}
		f.Axes = append(f.Axes, axisForm{yamldoc.Line(a.Key), yamldoc.Line(a.Label), values})
	}
	for _, s := range m.Seeds {
		f.Seeds.Content = append(f.Seeds.Content, plain(strconv.FormatUint(s, 10)))
	}

	b := bytes.NewBufferString("# written by grpo; repeat with: grpo ablate this-file\n")
	e := yaml.NewEncoder(b)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	return b.Bytes(), nil
}

func asLines(texts []string) (out []yamldoc.Line) {
	for _, s := range texts {
		out = append(out, yamldoc.Line(s))
	}
	return out
}

// baseSettings are the keys of the base that some source set, except name and seed.
func (p *planner) baseSettings() *yaml.Node {
	set := &yaml.Node{Kind: yaml.MappingNode}
	for _, row := range p.base.Rows() {
		o := row.Origin
		follows := o.Source == config.SourceDefault || o.From != "" || o.AskedBy != ""
		if !follows && row.Key != "name" && row.Key != "seed" && !config.OfLauncher(row.Key) {
			set.Content = append(set.Content, quotable(row.Key), notation(row.Value))
		}
	}
	return set
}

// quotable is a string, in quotes where YAML would take it for something else.
func quotable(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// plain is a number or a boolean, as it is written.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// notation is a value as package config writes it, in YAML.
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
	case k.Kind == reflect.String:
		return quotable(s)
	case strings.HasPrefix(s, "["):
		return notation(s)
	}
	return plain(canonical(k, s))
}
