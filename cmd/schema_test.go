package cmd

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	foreign "github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"grpo/configs"
	"grpo/internal/expect"
	"grpo/internal/jsonschema"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
)

// compile makes a foreign validator of a schema of this program.
func compile(name string) (*foreign.Resolved, error) {
	for _, e := range schemas {
		if e.name != name {
			continue
		}
		text, err := rundir.Marshal(e.schema())
		if err != nil {
			return nil, err
		}
		var s foreign.Schema
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
	expect.Error(t, checkPrinted(struct{ X int }{}, []byte("{}")), "no schema")
	if err := checkPrinted(versionOutput{}, []byte(`{"version": 1}`)); err == nil {
		t.Error("a wrong output is valid")
	}
}

// validYAML validates a YAML document against a schema.
func validYAML(t *testing.T, s *foreign.Resolved, text []byte) error {
	t.Helper()
	var v any
	expect.OK(t, yaml.Unmarshal(text, &v))
	return s.Validate(v)
}

// TestEmbeddedMatchSchemas: every embedded file, and what the program writes, is valid.
func TestEmbeddedMatchSchemas(t *testing.T) {
	compiled := map[string]*foreign.Resolved{}
	for _, name := range []string{"config", "sft", "reward-model", "sweep"} {
		s, err := compile(name)
		expect.OK(t, err)
		compiled[name] = s
	}
	check := func(schema, file string, text []byte) {
		if err := validYAML(t, compiled[schema], text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	read := func(name string) []byte {
		text, err := configs.FS.ReadFile(name)
		expect.OK(t, err)
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
		expect.OK(t, err)
		p, err := sweep.NewPlan(req, sweep.PlanOptions{})
		expect.OK(t, err)
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

var pin = flag.Bool("pin", false, "write testdata/keys.txt again")

// TestDocumentsKeepTheirKeys pins the name of every schema and every key of the documents: others read
// them. A new key is a new line; after that, run the test with -pin.
func TestDocumentsKeepTheirKeys(t *testing.T) {
	const file = "testdata/keys.txt"
	var lines []string
	for _, e := range schemas {
		lines = append(lines, e.name)
		doc := e.schema()
		defs, _ := doc["$defs"].(jsonschema.Schema)
		keys := keysOf(doc, defs, "", nil)
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			lines = append(lines, "  "+k)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	if *pin {
		expect.OK(t, os.WriteFile(file, []byte(got), 0o644))
	}
	data, err := os.ReadFile(file)
	expect.OK(t, err)
	if string(data) == got {
		return
	}
	pinned := strings.Split(string(data), "\n")
	for _, l := range pinned {
		if !slices.Contains(lines, l) && l != "" {
			t.Errorf("gone:%s", l)
		}
	}
	for _, l := range lines {
		if !slices.Contains(pinned, l) {
			t.Errorf("new:%s", l)
		}
	}
	if !t.Failed() {
		t.Errorf("a key has moved to another document: git diff after -pin shows it")
	}
}

// keysOf lists the keys of a document by their paths with the JSON type of their values. open are the
// names of the types that the path goes through: a type within itself ends the path.
func keysOf(s, defs jsonschema.Schema, path string, open []string) []string {
	var keys []string
	if ref, ok := s["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if def, _ := defs[name].(jsonschema.Schema); def != nil && !slices.Contains(open, name) {
			keys = append(keys, keysOf(def, defs, path, append(slices.Clone(open), name))...)
		}
	}
	properties, _ := s["properties"].(jsonschema.Schema)
	for key, value := range properties {
		of, _ := value.(jsonschema.Schema)
		at := path + key
		if kind, ok := of["type"]; ok {
			keys = append(keys, fmt.Sprintf("%s %v", at, kind))
		} else {
			keys = append(keys, at)
		}
		keys = append(keys, keysOf(of, defs, at+".", open)...)
	}
	for _, within := range []string{"items", "additionalProperties"} {
		if of, ok := s[within].(jsonschema.Schema); ok {
			keys = append(keys, keysOf(of, defs, path, open)...)
		}
	}
	for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
		of, _ := s[choice].([]jsonschema.Schema)
		for _, one := range of {
			keys = append(keys, keysOf(one, defs, path, open)...)
		}
	}
	return keys
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("a run failed"), 1},
		{usagef(&cobra.Command{}, "unknown flag"), 2},
		{config.ErrConfig, 2},
		{rundir.ErrNotRun, 2},
		{rundir.ErrInterrupted, 75},
		{rundir.ErrNothingSaved, 130},
		{errStopped, 130},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if got := exitCode(fmt.Errorf("training: %w", c.err)); got != c.want {
			t.Errorf("%v, wrapped: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
