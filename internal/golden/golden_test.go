package golden

import (
	"fmt"
	"strings"
	"testing"
)

// recorder notes how a test ended, and continues.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Skip(args ...any)             { r.ended = "skip: " + fmt.Sprint(args...) }
func (r *recorder) Fatalf(f string, args ...any) { r.ended = "fail: " + fmt.Sprintf(f, args...) }

// stopper ends like a failed test.
type stopper struct{ recorder }

func (s *stopper) Fatalf(f string, args ...any) {
	s.recorder.Fatalf(f, args...)
	panic(s.ended)
}

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

// A key that a test does not read fails it, at any depth, unless the test names it.
func TestUnknownKeys(t *testing.T) {
	type cases struct {
		Cases []struct {
			Params  struct{ Beta float64 }
			Metrics map[string]float64
		}
	}
	for data, ended := range map[string]string{
		`{"versions": {"x": "1"}, "cases": [{"params": {"beta": 0.5}, "metrics": {"any": 1}, "margins": [1]}]}`: "",
		`{"cases": [{"params": {"beta": 0.5, "loss_weights": [1, 2]}}]}`:                                        `unknown field "loss_weights"`,
		`{"cases": [{"metrics": {"any": 1}, "extra": 1}]}`:                                                      `unknown field "extra"`,
		`{"cases": [`: "unexpected",
	} {
		r := &stopper{recorder{TB: t}}
		var v cases
		func() {
			defer func() { _ = recover() }()
			Decode(r, "f", []byte(data), &v, "margins")
		}()
		if (ended == "") != (r.ended == "") || !strings.Contains(r.ended, ended) {
			t.Errorf("%s: ended with %q, want %q", data, r.ended, ended)
		}
		if ended == "" && v.Cases[0].Params.Beta != 0.5 {
			t.Errorf("%s: read %+v", data, v)
		}
	}
}
