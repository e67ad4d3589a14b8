package golden

import (
	"fmt"
	"testing"
)

// recorder notes how a test ended, and continues.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Skip(args ...any)             { r.ended = "skip: " + fmt.Sprint(args...) }
func (r *recorder) Fatalf(f string, args ...any) { r.ended = "fail: " + fmt.Sprintf(f, args...) }

// Missing reference data skips a test on a developer's machine and fails it in
// CI.
func TestMissingData(t *testing.T) {
	for ci, want := range map[string]string{
		"":     "skip: no reference data: ../shared/golden/none.json is missing",
		"true": "fail: no reference data: ../shared/golden/none.json is missing (CI is set, so this test must not be skipped)",
	} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		if path := Path(r, "golden", "none.json"); path != "" || r.ended != want {
			t.Errorf("CI=%q: path %q, ended with %q, want %q", ci, path, r.ended, want)
		}
	}
}
