package cmd

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"grpo/internal/jsonschema"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

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
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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
