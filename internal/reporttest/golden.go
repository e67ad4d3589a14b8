package reporttest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"grpo/internal/expect"
)

var update = flag.Bool("update", false, "rewrite the golden files; check them before committing")

// Golden compares got with a file in testdata. Pictures may differ slightly: processors with fused
// multiply-add round anti-aliased edges differently.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		expect.OK(t, os.MkdirAll("testdata", 0o755))
		expect.OK(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if filepath.Ext(name) == ".png" {
		if ok, err := cmpimg.EqualApprox("png", got, want, 0.05); err != nil || !ok {
			failed := filepath.Join(os.TempDir(), "grpo-report-"+name)
			os.WriteFile(failed, got, 0o644)
			t.Errorf("the picture is not that of %s (%v); it is in %s", path, err, failed)
		}
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant (%s)\n%s", got, path, want)
	}
}
