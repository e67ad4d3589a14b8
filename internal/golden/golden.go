// Package golden finds the reference data that is kept beside the repository,
// in ../shared, and not in it. It is for tests only.
package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or folder of the reference data. The test
// skips, saying so, where it is not there.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Skip("no go.mod above the working directory: cannot find the reference data")
		}
		dir = up
	}
	path := filepath.Join(append([]string{filepath.Dir(dir), "shared"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the reference data is not here: ../shared/%s", filepath.ToSlash(filepath.Join(parts...)))
	}
	return path
}

// File returns the content of a file of the reference data; it skips as [Path]
// does.
func File(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
