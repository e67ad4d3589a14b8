package jsonschema

import (
	"encoding/json"
	"reflect"
	"testing"

	"grpo/internal/expect"
)

type inner struct {
	Of    *float64 `json:"of,omitempty"`
	Parts []inner  `json:"parts"`
}

type Base struct {
	Name string `json:"name"`
}

type outer struct {
	Base
	Inner  inner          `json:"inner"`
	Counts map[string]int `json:"counts"`
	Pair   [2]uint64
	Hidden bool `json:"-"`
	Any    any  `json:"any"`
}

func TestOf(t *testing.T) {
	extra := Extra{reflect.TypeFor[inner](): func(s Schema, ref func(reflect.Type) Schema) {
		s["properties"].(Schema)["sum"] = ref(reflect.TypeFor[bool]())
	}}
	got, err := json.Marshal(Of("a test", reflect.TypeFor[outer](), extra))
	expect.OK(t, err)
	want := `{"$defs":{
		"inner":{"additionalProperties":false,"properties":{
			"of":{"anyOf":[{"type":["number","null"]},{"type":"null"}]},
			"parts":{"items":{"$ref":"#/$defs/inner"},"type":["array","null"]},
			"sum":{"type":"boolean"}},"required":["parts"],"type":"object"},
		"outer":{"additionalProperties":false,"properties":{
			"Pair":{"items":{"minimum":0,"type":"integer"},"maxItems":2,"minItems":2,"type":"array"},
			"any":{},
			"counts":{"additionalProperties":{"type":"integer"},"type":["object","null"]},
			"inner":{"$ref":"#/$defs/inner"},
			"name":{"type":"string"}},"required":["name","inner","counts","Pair","any"],"type":"object"}},
		"$ref":"#/$defs/outer","$schema":"https://json-schema.org/draft/2020-12/schema","title":"a test"}`
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s", got)
	}
}
