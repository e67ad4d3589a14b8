package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"grpo/configs"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
)

// compile makes a foreign validator of a schema of this program.
func compile(name string) (*jsonschema.Resolved, error) {
	for _, e := range schemas {
		if e.name != name {
			continue
		}
		text, err := rundir.Marshal(e.schema())
		if err != nil {
			return nil, err
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		return s.Resolve(nil) // checks that it is well formed
	}
	return nil, fmt.Errorf("there is no schema %s", name)
}

// checkPrinted checks the JSON of a command against the schema of its type.
func checkPrinted(v any, data []byte) error {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, e := range schemas {
		if e.of != t {
			continue
		}
		s, err := compile(e.name)
		if err != nil {
			return err
		}
		var doc any
		if err := json.Unmarshal(data, &doc); err != nil {
			return err
		}
		return s.Validate(doc)
	}
	return fmt.Errorf("the output %s has no schema", t)
}

// checkOutputs makes every --json of a process that this test binary runs as grpo check itself.
func checkOutputs() {
	printed = func(v any, data []byte) {
		if err := checkPrinted(v, data); err != nil {
			fmt.Fprintf(os.Stderr, "grpo: the output does not match its schema: %v\n", err)
			os.Exit(99)
		}
	}
}

func TestSchemasAreValid(t *testing.T) {
	names := map[string]bool{}
	for _, e := range schemas {
		if names[e.name] {
			t.Errorf("two schemas are named %s", e.name)
		}
		names[e.name] = true
		if _, err := compile(e.name); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
	if err := checkPrinted(struct{ X int }{}, []byte("{}")); err == nil || !strings.Contains(err.Error(), "no schema") {
		t.Errorf("an output without a schema: %v", err)
	}
	if err := checkPrinted(versionOutput{}, []byte(`{"version": 1}`)); err == nil {
		t.Error("a wrong output is valid")
	}
}

// validYAML validates a YAML document against a schema.
func validYAML(t *testing.T, s *jsonschema.Resolved, text []byte) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestEmbeddedMatchSchemas: every embedded file, and what the program writes, is valid.
func TestEmbeddedMatchSchemas(t *testing.T) {
	compiled := map[string]*jsonschema.Resolved{}
	for _, name := range []string{"config", "sft", "reward-model", "sweep"} {
		s, err := compile(name)
		if err != nil {
			t.Fatal(err)
		}
		compiled[name] = s
	}
	check := func(schema, file string, text []byte) {
		if err := validYAML(t, compiled[schema], text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	read := func(name string) []byte {
		text, err := configs.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	other := map[string]bool{}
	for _, n := range config.NamesSFT() {
		other[n] = true
		check("sft", n, read(n+".yaml"))
	}
	for _, n := range config.NamesRewardModel() {
		other[n] = true
		check("reward-model", n, read(n+".yaml"))
	}
	for _, folder := range []string{".", "presets"} {
		for _, n := range configs.Names(folder) {
			if folder != "." || !other[n] {
				check("config", n, read(filepath.ToSlash(filepath.Join(folder, n+".yaml"))))
			}
		}
	}
	for _, n := range sweep.AblationNames() {
		check("sweep", n, read("ablations/"+n+".yaml"))
		req, err := sweep.LoadRequest(n)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sweep.NewPlan(req, sweep.PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		check("sweep", "written "+n, p.Request)
	}
	check("config", "written", config.Marshal(config.Default()))
	for _, bad := range []struct{ schema, text string }{
		{"config", "trian: {learning_rate: 1}"}, {"config", "train: {learning_rate: fast}"}, {"config", "seed: -1"},
		{"config", "algorithm: {loss_type: gropo}"}, {"config", "train: {n_grpo_steps: 1.5}"},
		{"sweep", "name: x"}, {"sweep", "name: x\narms: [{name: a, set: {lrr: 1}}]"}, {"sweep", "name: x\naxes: [{key: lr}]"},
		{"sweep", "name: x\nseeds: 0\naxes: [{key: lr, values: [1]}]"}, {"sft", "stages: 3"},
	} {
		if validYAML(t, compiled[bad.schema], []byte(bad.text)) == nil {
			t.Errorf("%s: %q is valid", bad.schema, bad.text)
		}
	}
}

// TestSchemaMeanings: every key has a description, for the completion of editors.
func TestSchemaMeanings(t *testing.T) {
	for path, s := range config.KeySchemas() {
		if text, _ := s["description"].(string); text == "" {
			t.Errorf("%s has no description", path)
		}
	}
	var walk func(s map[string]any, path string)
	walk = func(s map[string]any, path string) {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			p := p.(map[string]any)
			if text, _ := p["description"].(string); text == "" {
				t.Errorf("%s%s has no description", path, name)
			}
			if items, ok := p["items"].(map[string]any); ok {
				walk(items, path+name+".")
			}
		}
	}
	walk(sweep.Schema(), "")
}
