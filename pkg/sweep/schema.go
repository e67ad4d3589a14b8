package sweep

import (
	"reflect"

	"grpo/internal/jsonschema"
	"grpo/internal/yamldoc"
	"grpo/pkg/config"
)

// requestDocs are the meanings of the keys of a sweep's file, by their paths.
var requestDocs = map[string]string{
	"name":         "Short name, for tables and messages.",
	"title":        "Title of figures and tables.",
	"question":     "The question that the verdict answers; it ends with a question mark.",
	"config":       "Base configuration: a name of \"grpo config list\" or a file. Without it: the defaults.",
	"set":          "Keys over the base, as for --set; --set and flags override them.",
	"arms":         "Named settings that are compared.",
	"arms.name":    "Name of the arm, unique in the sweep.",
	"arms.label":   "Name in legends; without it: the name.",
	"arms.set":     "The arm's own settings. They override everything else, including the command line.",
	"arms.control": "The arm is expected to fail: it is compared, but never proposed as the best.",
	"axes":         "Keys with values: every arm is trained at every point of their grid.",
	"axes.key":     "The key of the configuration.",
	"axes.label":   "Name of the key in figures and tables.",
	"axes.values":  "The values; \"log(1e-5,1e-2,n=8)\" is 8 values, evenly spaced on a logarithmic scale.",
	"reference":    "The arm that the others are compared with. Without it: the best one.",
	"best_over":    "An axis over which each arm is tuned: arms are compared at their own best values.",
	"fixed":        "Keys that all arms share and that readers should know.",
	"notes":        "Caveats that the verdict repeats.",
	"seeds":        "A number (4 = the seeds 1 to 4) or a list ([1, 2, 5]).",
}

// Schema is the JSON Schema of a sweep's file (see [Request]), as `grpo ablate FILE` takes it.
func Schema() jsonschema.Schema {
	s := requestSchema(reflect.TypeFor[requestForm](), "")
	s["$schema"], s["title"], s["required"] = jsonschema.Draft, "sweep of grpo ablate", []string{"name"}
	s["anyOf"] = []jsonschema.Schema{{"required": []string{"arms"}}, {"required": []string{"axes"}}}
	s["$defs"] = jsonschema.Schema{"settings": settingsSchema(), "value": looseValue}
	return s
}

// looseValue is a value as --set takes it.
var looseValue = jsonschema.Schema{
	"type":  []string{"string", "number", "boolean", "array"},
	"items": jsonschema.Schema{"type": []string{"string", "number", "boolean"}},
}

func requestSchema(t reflect.Type, path string) jsonschema.Schema {
	properties := jsonschema.Schema{}
	for i := range t.NumField() {
		name := yamldoc.Name(t.Field(i))
		key := yamldoc.Join(path, name)
		s := fieldSchema(t.Field(i).Type, key)
		s["description"] = requestDocs[key]
		properties[name] = s
	}
	return jsonschema.Schema{"type": "object", "properties": properties, "additionalProperties": false}
}

func fieldSchema(t reflect.Type, key string) jsonschema.Schema {
	line := jsonschema.Schema{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	switch key {
	case "set", "arms.set":
		return jsonschema.Schema{"$ref": "#/$defs/settings"}
	case "axes.values":
		return jsonschema.Schema{"type": "array", "minItems": 1, "items": jsonschema.Schema{"$ref": "#/$defs/value"}}
	case "axes.key", "best_over":
		return jsonschema.Schema{"enum": config.KeyNames()}
	case "seeds":
		return jsonschema.Schema{"anyOf": []jsonschema.Schema{
			{"type": "integer", "minimum": 1, "maximum": maxRuns},
			{"type": "array", "minItems": 1, "items": jsonschema.Schema{"type": "integer", "minimum": 0}},
		}}
	}
	switch {
	case t.Kind() == reflect.Bool:
		return jsonschema.Schema{"type": "boolean"}
	case yamldoc.IsSections(t):
		items := requestSchema(t.Elem(), key)
		items["required"] = map[string][]string{"arms": {"name"}, "axes": {"key", "values"}}[key]
		return jsonschema.Schema{"type": "array", "minItems": 1, "items": items}
	case yamldoc.IsList(t):
		return jsonschema.Schema{"type": "array", "minItems": 1, "uniqueItems": true, "items": line}
	}
	return line
}

// settingsSchema is the schema of a set: any name of a key, with a value of its type or its text.
func settingsSchema() jsonschema.Schema {
	properties, keys := jsonschema.Schema{}, config.KeySchemas()
	for _, name := range config.KeyNames() {
		k, err := config.FindKey(name)
		if err != nil || k.Path == "seed" || config.OfLauncher(k.Path) {
			continue
		}
		s := keys[k.Path]
		value := jsonschema.Schema{"description": k.Path + ": " + k.Doc}
		if k.Kind == reflect.String {
			value["anyOf"] = []jsonschema.Schema{s}
		} else {
			value["anyOf"] = []jsonschema.Schema{s, {"type": "string"}}
		}
		properties[name] = value
	}
	return jsonschema.Schema{
		"type": "object", "properties": properties, "additionalProperties": false,
		"patternProperties": jsonschema.Schema{`^reward\.custom\.[0-9]+\.[a-z_]+$`: jsonschema.Schema{
			"description": "A key of a custom reward function, as a written sweep.yaml has it; reward.functions defines one in a configuration.",
		}},
	}
}
