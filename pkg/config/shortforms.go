package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"grpo/internal/yamldoc"
)

// shortForms replaces the short forms of a file: a single name in algorithm.dpo.loss_type, and
// [inlineRewards].
func shortForms(d *yamldoc.Document, root *yaml.Node) {
	if n := valueOf(valueOf(valueOf(root, "algorithm"), "dpo"), "loss_type"); n != nil && n.Kind == yaml.ScalarNode {
		name := *n
		*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Content: []*yaml.Node{&name}}
	}
	inlineRewards(d, root)
}

// inlineRewards moves the sections in reward.functions to reward.custom and leaves their names, and
// makes reward.reward_weights of their weights unless the file has that key.
func inlineRewards(d *yamldoc.Document, root *yaml.Node) {
	section := valueOf(root, "reward")
	functions := valueOf(section, "functions")
	if functions == nil || functions.Kind != yaml.SequenceNode {
		return
	}
	custom := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: functions.Line}
	weights := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: functions.Line}
	hasWeights := valueOf(section, "reward_weights") != nil
	for i, e := range functions.Content {
		weight := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "1", Line: e.Line}
		if e.Kind == yaml.MappingNode {
			if w := take(e, "weight"); w != nil && hasWeights {
				d.Problem(w.Line, "weight can't be combined with reward_weights (write all weights in reward_weights)")
			} else if w != nil {
				weight = w
			}
			name := valueOf(e, "name")
			if m := valueOf(e, "model"); name == nil && m != nil {
				name = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: LearnedReward, Line: m.Line}
				appendPair(e, "name", name)
			}
			if name == nil {
				d.Problem(e.Line, "reward.functions: element %d has no name (add name: to it, for metrics and tables)", i+1)
				d.Broken["reward.functions"] = true
				continue
			}
			quoteNull(valueOf(e, "on_error"))
			custom.Content = append(custom.Content, e)
			functions.Content[i] = name
		}
		weights.Content = append(weights.Content, weight)
	}
	own := valueOf(section, "custom")
	if own != nil && own.Kind == yaml.SequenceNode {
		for _, e := range own.Content {
			quoteNull(valueOf(e, "on_error"))
		}
		own.Content = append(own.Content, custom.Content...)
	}
	if len(custom.Content) == 0 {
		return
	}
	if own == nil {
		appendPair(section, "custom", custom)
	}
	if !hasWeights {
		appendPair(section, "reward_weights", weights)
	}
}

// valueOf returns the value of a key in a section, or nil.
func valueOf(section *yaml.Node, key string) *yaml.Node {
	if section == nil || section.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Value == key {
			return section.Content[i+1]
		}
	}
	return nil
}

// take removes a key from a section and returns its value, or nil.
func take(section *yaml.Node, key string) *yaml.Node {
	value := valueOf(section, key)
	if i := slices.Index(section.Content, value); value != nil && i > 0 {
		section.Content = slices.Delete(section.Content, i-1, i+1)
	}
	return value
}

func appendPair(section *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: value.Line}
	section.Content = append(section.Content, name, value)
}

// quoteNull makes null the string of that name.
func quoteNull(n *yaml.Node) {
	if n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == "null" {
		n.Tag = "!!str"
	}
}
