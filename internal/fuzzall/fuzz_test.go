package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const passed = `fuzz: elapsed: 0s, gathering baseline coverage: 0/3 completed
fuzz: elapsed: 3s, gathering baseline coverage: 3/3 completed, now fuzzing with 1 workers
fuzz: elapsed: 3s, execs: 679 (95/sec), new interesting: 2 (total: 574)
fuzz: elapsed: 1m0s, execs: 17962 (0/sec), new interesting: 70 (total: 642)
PASS
ok  	grpo/pkg/config	60.380s
`

const failed = `fuzz: elapsed: 3s, execs: 10 (3/sec), new interesting: 0 (total: 574)
--- FAIL: FuzzYAML (3.05s)
    --- FAIL: FuzzYAML (0.00s)
        fuzz_test.go:84: line 3 of 2
    Failing input written to testdata/fuzz/FuzzYAML/c2ff
FAIL
`

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, out          string
		execs, interesting int
	}{
		{"the last line counts", passed, 17962, 70},
		{"a target that failed", failed, 10, 0},
		{"nothing was run", "FAIL\n", 0, 0},
		{"only the baseline", strings.SplitAfter(passed, "\n")[0], 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := parse(c.out); r.execs != c.execs || r.interesting != c.interesting {
				t.Errorf("got %+v", r)
			}
		})
	}
	if r := parse(passed); r.fuzzing != 57*time.Second || r.speed() < 315 || r.speed() > 316 {
		t.Errorf("17962 executions in %v, %.1f a second", r.fuzzing, r.speed())
	}
	if r := parse("FAIL\n"); r.speed() != 1 {
		t.Errorf("speed %v of nothing", r.speed())
	}
	if got := why(failed, errors.New("exit status 1")); got != "fuzz_test.go:84: line 3 of 2" {
		t.Errorf("why: %q", got)
	}
	if lateStop(failed) || !lateStop("    context deadline exceeded\nFAIL\n") {
		t.Error("a late stop differs from a failure: no input was written")
	}
}

func TestShares(t *testing.T) {
	second := time.Second
	done := []result{{execs: 100, fuzzing: second}, {execs: 10000, fuzzing: second}, {execs: 50, fuzzing: second, failure: "x"}}
	got := shares(1_000_000, done)
	sum := done[0].execs + done[1].execs + done[2].execs
	for _, n := range got {
		sum += n
	}
	if sum < 1_000_000 || sum > 1_000_003 || got[2] != 0 {
		t.Errorf("shares %v, %d in all", got, sum)
	}
	if ratio := float64(got[1]) / float64(got[0]); ratio < 9.9 || ratio > 10.1 {
		t.Errorf("100 times the speed got %.2f times the share, want 10", ratio)
	}
	// Equal times below 100 per second: a tenth of the speed, a tenth of the share.
	got = shares(1_000_000, []result{{execs: 2, fuzzing: second}, {execs: 20, fuzzing: second}, {execs: 2000, fuzzing: second}})
	if ratio := float64(got[1]) / float64(got[0]); ratio < 9.9 || ratio > 10.1 {
		t.Errorf("two slow targets got %v", got)
	}
	if got := shares(100, done); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("all was done already, but %v is asked for", got)
	}
}

func TestFindTargets(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":       "module m\n\ngo 1.26\n",
		"a/a.go":       "package a\n\nfunc FuzzNot() {}\n",
		"a/a_test.go":  "package a\n\nimport \"testing\"\n\nfunc FuzzOne(f *testing.F) {}\n\nfunc TestFuzz(t *testing.T) {}\n",
		"a/x_test.go":  "package a_test\n\nimport \"testing\"\n\nfunc FuzzTwo(f *testing.F) {}\n",
		"b/b.go":       "package b\n",
		"b/b_test.go":  "package b\n\nimport \"testing\"\n\nfunc FuzzThree(f *testing.F) {}\n",
		"b/c_test.go":  "//go:build never\n\npackage b\n\nimport \"testing\"\n\nfunc FuzzFour(f *testing.F) {}\n",
		"b/d/testdata": "",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for match, want := range map[string][]target{
		"":     {{"m/a", "FuzzOne"}, {"m/a", "FuzzTwo"}, {"m/b", "FuzzThree"}},
		"m/b ": {{"m/b", "FuzzThree"}},
		"Four": nil,
	} {
		got, err := findTargets(t.Context(), regexp.MustCompile(match))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", match, got, err)
		}
	}
}

func TestTable(t *testing.T) {
	table, total := markdown([]target{{"grpo/pkg/a", "FuzzA"}, {"grpo/pkg/b", "FuzzB"}}, []result{{execs: 10, took: time.Minute}, {execs: 5, failure: "x_test.go:1: no"}})
	for _, want := range []string{"| `pkg/a` `FuzzA` | 10 | 0 | 1m0s | passed |", "FAILED: x_test.go:1: no", "| 2 targets | 15 | 0 | 1m0s | 1 failed |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if total != 15 {
		t.Errorf("%d executions", total)
	}
}
