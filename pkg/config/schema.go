package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"grpo/internal/jsonschema"
	"grpo/internal/yamldoc"
)

// Schema is the JSON Schema of a configuration file of `grpo train`: its sections and keys with
// their types, values, defaults and comments. It does not have the rules between keys, which [Load] checks.
func Schema() jsonschema.Schema {
	c, doc := defaults()
	s := schemaOf(&c, doc.Comments)
	rewardSchema(s["properties"].(jsonschema.Schema)["reward"].(jsonschema.Schema)["properties"].(jsonschema.Schema))
	oneOrMore(s, "algorithm", "dpo", "loss_type")
	return document("configuration of grpo train", s)
}

// oneOrMore allows one element of the list at a path in place of the list: see [shortForms].
func oneOrMore(s jsonschema.Schema, path ...string) {
	for _, part := range path[:len(path)-1] {
		s = s["properties"].(jsonschema.Schema)[part].(jsonschema.Schema)
	}
	properties, last := s["properties"].(jsonschema.Schema), path[len(path)-1]
	list := properties[last].(jsonschema.Schema)
	either := jsonschema.Schema{"anyOf": []jsonschema.Schema{
		{"type": list["type"], "items": list["items"]}, list["items"].(jsonschema.Schema),
	}}
	if text, ok := list["description"]; ok {
		either["description"] = text
	}
	properties[last] = either
}

// rewardSchema adds the custom functions to the schema of the section reward.
func rewardSchema(properties jsonschema.Schema) {
	var c CustomReward
	c.SetDefaults()
	of := schemaOf(&c, nil)
	keys := of["properties"].(jsonschema.Schema)
	delete(keys["name"].(jsonschema.Schema), "default")
	keys["on_error"] = jsonschema.Schema{"enum": []any{"fail", "null", nil}, "default": "fail"}
	of["required"] = []string{"name"}
	properties["custom"] = jsonschema.Schema{"type": "array", "items": of}

	inline := maps.Clone(of)
	inline["properties"] = maps.Clone(keys)
	delete(inline, "required")
	inline["anyOf"] = []jsonschema.Schema{{"required": []string{"name"}}, {"required": []string{"model"}}}
	inline["properties"].(jsonschema.Schema)["weight"] = jsonschema.Schema{"type": "number", "default": 1}
	functions := properties["functions"].(jsonschema.Schema)
	functions["items"] = jsonschema.Schema{"anyOf": []jsonschema.Schema{{"type": "string"}, inline}}
}

// SchemaSFT is [Schema] for the recipes of `grpo sft`.
func SchemaSFT() jsonschema.Schema {
	_, doc := defaults()
	comments := map[string]string{}
	for key, comment := range doc.Comments {
		comments[strings.TrimPrefix(key, "train.")] = comment // of train.lora, which is lora here
		comments[key] = comment
	}
	c := DefaultSFT()
	c.Stages = []Stage{DefaultStage()}
	if text, err := readEmbedded("base"); err == nil { // always, with go:embed
		for key, comment := range formOf(c).Decode("base.yaml", text, &SFT{}).Comments {
			if comment != "" {
				comments[key] = comment
			}
		}
	}
	return document("recipe of grpo sft", schemaOf(&c, comments))
}

func document(title string, s jsonschema.Schema) jsonschema.Schema {
	s["$schema"], s["title"] = jsonschema.Draft, title
	return s
}

// KeySchemas has the schema of the value of each key of [Config], by its path.
func KeySchemas() map[string]jsonschema.Schema {
	all, out := Schema(), map[string]jsonschema.Schema{}
	for _, k := range Keys() {
		s := all
		for part := range strings.SplitSeq(k.Path, ".") {
			s = s["properties"].(jsonschema.Schema)[part].(jsonschema.Schema)
		}
		out[k.Path] = s
	}
	return out
}

// KeyNames lists the names by which [FindKey] knows the keys of [Config], sorted.
func KeyNames() []string {
	var candidates, out []string
	for _, k := range Keys() {
		candidates = append(candidates, k.Path, yamldoc.LastPart(k.Path))
	}
	for second := range secondNames {
		candidates = append(candidates, second, yamldoc.LastPart(second))
	}
	for alias := range aliases {
		candidates = append(candidates, alias)
	}
	for _, name := range candidates {
		if _, err := FindKey(name); err == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// schemaWriter has the keys of a configuration and the comments on them.
type schemaWriter struct {
	keys     keyList
	comments map[string]string
}

// schemaOf is the schema of the configuration that root points to.
func schemaOf(root any, comments map[string]string) jsonschema.Schema {
	return schemaWriter{keysOf(root), comments}.section(reflect.ValueOf(root).Elem(), "")
}

func (w schemaWriter) section(v reflect.Value, path string) jsonschema.Schema {
	properties := jsonschema.Schema{}
	for _, f := range yamldoc.Fields(v.Type()) {
		properties[yamldoc.Name(f)] = w.value(v.FieldByIndex(f.Index), yamldoc.Join(path, yamldoc.Name(f)))
	}
	for second, own := range secondNames {
		if section := strings.TrimSuffix(own, "."+yamldoc.LastPart(own)); section == path {
			properties[yamldoc.LastPart(second)] = properties[yamldoc.LastPart(own)]
		}
	}
	s := jsonschema.Schema{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1}
	return w.describe(s, path)
}

func (w schemaWriter) describe(s jsonschema.Schema, path string) jsonschema.Schema {
	if text := w.comments[path]; text != "" {
		s["description"] = text
	}
	return s
}

func (w schemaWriter) value(v reflect.Value, path string) jsonschema.Schema {
	switch {
	case v.Kind() == reflect.Struct:
		return w.section(v, path)
	case yamldoc.IsSections(v.Type()) && v.Len() > 0:
		return w.describe(jsonschema.Schema{"type": "array", "items": w.section(v.Index(0), path+".0")}, path)
	}
	s := scalarSchema(v.Type())
	if k := w.keys.find(path); k != nil && k.of != nil {
		values := slices.Clone(k.of)
		of := s
		if items, ok := s["items"].(jsonschema.Schema); ok {
			of = items
		}
		for second := range secondValues[path] {
			values = append(values, second)
		}
		if of["type"] == "string" && v.Kind() == reflect.String && v.String() == "" {
			values = append(values, "")
		}
		slices.Sort(values)
		of["enum"] = slices.Compact(values)
	}
	if !strings.HasPrefix(path, "stages.0.name") && v.Kind() != reflect.Slice {
		s["default"] = v.Interface()
	}
	return w.describe(s, path)
}

// scalarSchema is the schema of a value of one type in YAML.
func scalarSchema(t reflect.Type) jsonschema.Schema {
	switch t.Kind() {
	case reflect.Bool:
		return jsonschema.Schema{"type": "boolean"}
	case reflect.String:
		return jsonschema.Schema{"type": "string"}
	case reflect.Int:
		return jsonschema.Schema{"type": "integer"}
	case reflect.Uint64:
		return jsonschema.Schema{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return jsonschema.Schema{"type": "number"}
	case reflect.Slice:
		return jsonschema.Schema{"type": "array", "items": scalarSchema(t.Elem())}
	case reflect.Array:
		return jsonschema.Schema{
			"type": "array", "items": scalarSchema(t.Elem()), "minItems": t.Len(), "maxItems": t.Len(),
		}
	}
	return jsonschema.Schema{}
}
