package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"grpo/configs"
)

// Key documents one key of a configuration.
type Key struct {
	// Path is the full path; the keys of a stage stand as stages.*.NAME.
	Path string
	// Type in words: "an integer", "a list of numbers", ...
	Type string
	// Default in YAML's notation; for stages that of [DefaultStage].
	Default string
	// Values are the valid texts, where the rules list them.
	Values []string
	// Env is the environment variable that sets the key.
	Env string
	// Alias is the short or second name that --set takes, if there is one.
	Alias string
	// Doc is the comment beside the key in the embedded default.yaml (base.yaml
	// for [SFT]), on one line.
	Doc string
}

// Keys lists the keys of [Config] in the order of the documentation.
func Keys() []Key { return slices.Clone(keysOfConfig()) }

var (
	keysOfConfig = sync.OnceValue(func() []Key { return describe(Default(), rulesConfig, "default") })
	keysOfSFT    = sync.OnceValue(func() []Key {
		c := DefaultSFT()
		c.Stages = []Stage{DefaultStage()}
		return describe(c, rulesSFT, "base")
	})
)

func describe(root any, rules []rule, file string) []Key {
	docs := comments(file)
	var out []Key
	for _, f := range leaves(root) {
		k := Key{
			Path: pattern(f.path), Type: typeName(f.value.Type()), Default: formatValue(f.value),
			Env: EnvName(f.path), Alias: aliasOf(f.path), Doc: docs[f.path],
		}
		for _, r := range rules {
			if r.keys[0] == k.Path && r.values != nil {
				k.Values = slices.Clone(r.values)
			}
		}
		out = append(out, k)
	}
	return out
}

// comments reads the words beside each key of an embedded configuration: the
// lines above it and the end of its own line.
func comments(name string) map[string]string {
	text, err := configs.FS.ReadFile(name + ".yaml")
	if err != nil {
		panic("config: embedded configuration: " + err.Error())
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic("config: embedded configuration: " + err.Error())
	}
	out := map[string]string{}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		switch n.Kind {
		case yaml.DocumentNode:
			walk(n.Content[0], path)
		case yaml.SequenceNode:
			for i, e := range n.Content {
				walk(e, join(path, fmt.Sprint(i)))
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key, value := n.Content[i], n.Content[i+1]
				p := join(path, key.Value)
				out[p] = prose(key.HeadComment, key.LineComment, value.LineComment)
				walk(value, p)
			}
		}
	}
	walk(&doc, "")
	return out
}

// prose joins comments into one line.
func prose(parts ...string) string {
	var words []string
	for _, p := range parts {
		for line := range strings.Lines(p) {
			words = append(words, strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "#"))...)
		}
	}
	return strings.Join(words, " ")
}
