// Package jsonschema derives JSON Schemas (draft 2020-12) from the Go types that are written as JSON,
// as package rundir writes them: a float may be null, because JSON has no NaN.
package jsonschema

import (
	"maps"
	"reflect"
	"strings"
)

// Schema is a JSON Schema or a part of one.
type Schema = map[string]any

// Draft is the value of $schema.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Extra completes the schemas of types that write their own JSON: a function adds what the fields of
// the type do not have. ref returns the schema of another type.
type Extra map[reflect.Type]func(fields Schema, ref func(reflect.Type) Schema)

// Of is the schema of what a value of type t becomes.
func Of(title string, t reflect.Type, extra Extra) Schema {
	g := &generator{extra: extra, defs: Schema{}, names: map[reflect.Type]string{}}
	out := g.of(t)
	out["$schema"], out["title"] = Draft, title
	if len(g.defs) > 0 {
		out["$defs"] = g.defs
	}
	return out
}

// generator collects the named structs of a document, each once.
type generator struct {
	extra Extra
	defs  Schema
	names map[reflect.Type]string
}

func (g *generator) of(t reflect.Type) Schema {
	switch t.Kind() {
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": []string{"number", "null"}}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}
	case reflect.Pointer:
		return Schema{"anyOf": []Schema{g.of(t.Elem()), {"type": "null"}}}
	case reflect.Slice: // a nil slice is null
		return Schema{"type": []string{"array", "null"}, "items": g.of(t.Elem())}
	case reflect.Array:
		return Schema{"type": "array", "items": g.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return Schema{"type": []string{"object", "null"}, "additionalProperties": g.of(t.Elem())}
	case reflect.Struct:
		return g.structOf(t)
	}
	return Schema{} // an interface: anything
}

// structOf puts a named struct into $defs.
func (g *generator) structOf(t reflect.Type) Schema {
	if t.Name() == "" {
		return g.fields(t)
	}
	name, known := g.names[t]
	if !known {
		name = t.Name()
		for _, taken := g.defs[name]; taken; _, taken = g.defs[name] {
			name += "_"
		}
		g.names[t], g.defs[name] = name, nil // taken, also within itself
		fields := g.fields(t)
		if complete := g.extra[t]; complete != nil {
			complete(fields, g.of)
		}
		g.defs[name] = fields
	}
	return Schema{"$ref": "#/$defs/" + name}
}

// fields is the schema of a struct with the keys of its json tags.
func (g *generator) fields(t reflect.Type) Schema {
	properties, required := Schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && key == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			inner := g.fields(embedded)
			maps.Copy(properties, inner["properties"].(Schema))
			required = append(required, inner["required"].([]string)...)
			continue
		case !f.IsExported() || key == "-":
			continue
		case key == "":
			key = f.Name
		}
		properties[key] = g.of(f.Type)
		if option != "omitempty" {
			required = append(required, key)
		}
	}
	return Schema{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}
