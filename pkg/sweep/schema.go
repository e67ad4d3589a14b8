package sweep

import (
	"maps"
	"reflect"

	"grpo/internal/jsonschema"
	"grpo/pkg/config"
)

// form is a part of a JSON Schema.
type form = jsonschema.Schema

// Schema is the JSON Schema of a sweep's file (see [Request]), as `grpo ablate FILE` takes it.
func Schema() jsonschema.Schema {
	text := form{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	flag := form{"type": "boolean"}
	key := form{"enum": config.KeyNames()}
	settings := form{"$ref": "#/$defs/settings"}
	list := func(of form) form { return form{"type": "array", "minItems": 1, "items": of} }
	texts := list(text)
	texts["uniqueItems"] = true
	arm := section(map[string]docForm{
		"name":    {"Name of the arm, unique in the sweep.", text},
		"label":   {"Name in legends; without it: the name.", text},
		"set":     {"The arm's own settings. They override the others; setting such a key on the command line is an error.", settings},
		"control": {"The arm is expected to fail: it is compared, but never proposed as the best.", flag},
	}, "name")
	axis := section(map[string]docForm{
		"key":   {"The key of the configuration.", key},
		"label": {"Name of the key in figures and tables.", text},
		"values": {
			`The values; "log(1e-5,1e-2,n=8)" is 8 values, evenly spaced on a logarithmic scale.`,
			list(form{"$ref": "#/$defs/value"}),
		},
	}, "key", "values")
	seeds := form{"anyOf": []form{
		{"type": "integer", "minimum": 1, "maximum": maxRuns}, list(form{"type": "integer", "minimum": 0}),
		{"type": "string", "pattern": `^[0-9]+\.\.[0-9]+$`},
	}}
	s := section(map[string]docForm{
		"name":      {"Short name, for tables and messages.", text},
		"title":     {"Title of figures and tables.", text},
		"question":  {"The question that the verdict answers; it ends with a question mark.", text},
		"config":    {`Base configuration: a name of "grpo config list" or a file. Without it: the defaults.`, text},
		"set":       {"Keys over the base, as for --set; --set and flags override them.", settings},
		"arms":      {"Named settings that are compared.", list(arm)},
		"axes":      {"Keys with values: every arm is trained at every point of their grid.", list(axis)},
		"reference": {"The arm that the others are compared with. Without it: the best one.", text},
		"best_over": {"An axis over which each arm is tuned: arms are compared at their own best values.", key},
		"choice_seeds": {
			"With best_over: the number of seeds on which the values are chosen. Without it: as many as are compared.",
			form{"type": "integer", "minimum": 1},
		},
		"reuse_choice": {
			"With best_over: compare on the seeds of the choice, not on fresh ones; fewer runs, and biased.",
			form{"type": "boolean"},
		},
		"fixed": {"Keys that all arms share and that readers should know.", texts},
		"notes": {"Caveats that the verdict repeats.", texts},
		"seeds": {"A number (4 = the seeds 1 to 4) or a list ([1, 2, 5]); 4..16 looks at 4, 8 and 16 of the seeds 1 to 16, planned before the first result.", seeds},
	}, "name")
	s["$schema"], s["title"] = jsonschema.Draft, "sweep of grpo ablate"
	s["anyOf"] = []form{{"required": []string{"arms"}}, {"required": []string{"axes"}}}
	looseValue := form{ // as --set takes it
		"type":  []string{"string", "number", "boolean", "array"},
		"items": form{"type": []string{"string", "number", "boolean"}},
	}
	s["$defs"] = form{"settings": settingsSchema(), "value": looseValue}
	return s
}

// docForm is the form of a key's value with the meaning of the key.
type docForm struct {
	doc  string
	form form
}

func section(keys map[string]docForm, required ...string) form {
	properties := form{}
	for name, k := range keys {
		described := form{"description": k.doc}
		maps.Copy(described, k.form)
		properties[name] = described
	}
	return form{"type": "object", "properties": properties, "additionalProperties": false, "required": required}
}

// settingsSchema is the schema of a set: any name of a key, with a value of its type or its text.
func settingsSchema() form {
	properties, keys := form{}, config.KeySchemas()
	for _, name := range config.KeyNames() {
		k, err := config.FindKey(name)
		if err != nil || k.Path == "seed" || config.OfLauncher(k.Path) {
			continue
		}
		forms := []form{keys[k.Path]}
		if k.Kind != reflect.String {
			forms = append(forms, form{"type": "string"})
		}
		properties[name] = form{"description": k.Path + ": " + k.Doc, "anyOf": forms}
	}
	return form{
		"type": "object", "properties": properties, "additionalProperties": false,
		"patternProperties": form{`^reward\.custom\.[0-9]+\.[a-z_]+$`: form{
			"description": "A key of a custom reward function, as a written sweep.yaml has it; " +
				"reward.functions defines one in a configuration.",
		}},
	}
}
