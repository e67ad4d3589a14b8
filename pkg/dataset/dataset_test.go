package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
)

func configOf(t *testing.T, set ...string) config.Config {
	t.Helper()
	r, err := config.Load(config.LoadOptions{Path: "smoke", Set: set})
	expect.OK(t, err)
	return r.Config
}

func problemFile(t *testing.T, name string, from, n int) string {
	t.Helper()
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, `{"question": "What is %d+1?", "answer": "#### %d"}`+"\n", i, i+1)
	}
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// The validation problems of the last evaluation begin with those of the curve, and none of them is a
// training problem.
func TestFinalProblems(t *testing.T) {
	train, val := problemFile(t, "train.jsonl", 0, 20), problemFile(t, "val.jsonl", 100, 30)
	files := []string{"data.source=gsm8k", "data.train_file=" + train, "data.val_file=" + val}
	for _, tt := range []struct {
		name       string
		set        []string
		val, final int // final 0: the same
	}{
		{"generated", []string{"data.val_size=64", "eval.final_size=512"}, 64, 512},
		{"generated, as many", []string{"data.val_size=64", "eval.final_size=64"}, 64, 0},
		{"files", append(files, "data.val_size=8", "eval.final_size=30"), 8, 30},
		{"files, whole", append(files, "data.val_size=0", "eval.final_size=30"), 30, 0},
	} {
		p, err := Of(configOf(t, tt.set...))
		expect.OK(t, err)
		if len(p.Val) != tt.val || len(p.Final) != tt.final || len(p.LastVal()) != max(tt.val, tt.final) {
			t.Errorf("%s: %d and %d problems, want %d and %d", tt.name, len(p.Val), len(p.Final), tt.val, tt.final)
		}
		without, err := Of(configOf(t, append(tt.set, "eval.final_size=0")...))
		expect.OK(t, err)
		if !reflect.DeepEqual(without.Val, p.Val) || !reflect.DeepEqual(p.LastVal()[:tt.val], p.Val) ||
			!reflect.DeepEqual(without.Train, p.Train) || !reflect.DeepEqual(without.Test, p.Test) {
			t.Errorf("%s: the other problems change, or they are not the beginning", tt.name)
		}
		for _, others := range [][]gsm8k.Problem{p.Train, p.Test, p.Unseen} {
			if n := gsm8k.Overlap(others, p.LastVal()); n > 0 {
				t.Errorf("%s: %d problems are in another split", tt.name, n)
			}
		}
	}
	for size, want := range map[string]string{"0": "(data.val_size 8; 0 = all)", "12": "(eval.final_size 12)"} {
		p, err := Of(configOf(t, append(files, "data.val_size=8", "eval.final_size="+size)...))
		expect.OK(t, err)
		if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], want) {
			t.Errorf("eval.final_size %s: notes %q, want %q", size, p.Notes, want)
		}
	}
	more := problemFile(t, "more.jsonl", 17, 9)
	shared, err := Of(configOf(t, append(files, "data.test_file="+val)...))
	expect.OK(t, err)
	if len(shared.Notes) != 1 || !strings.Contains(shared.Notes[0], "30 questions of the test file") {
		t.Errorf("notes %q on the same validation and test file", shared.Notes)
	}
	overlapping := problemFile(t, "overlapping.jsonl", 110, 5) // not among the first 8
	for _, tt := range []struct {
		set  []string
		want string
	}{
		{append(files, "data.val_size=8", "eval.final_size=31"), "eval.final_size is 31, but " + val + " has 30 validation problems"},
		{append(files, "data.val_size=0", "eval.final_size=12"), "eval.final_size is 12, but " + val + " has 30 validation problems"},
		{[]string{"data.val_size=64", "eval.final_size=99999"}, "eval.final_size is 99999: generate problems: val_size 99999: there are only "},
		{append(files, "data.train_file="+overlapping, "data.val_size=8", "eval.final_size=30"), "5 questions of the validation file"},
		{append(files, "eval.sets=validation,"+more), "3 questions of " + more + " are also in " + train},
	} {
		_, err := Of(configOf(t, tt.set...))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.set, err, tt.want)
		}
	}
	_, err = config.Load(config.LoadOptions{Path: "smoke", Set: []string{"eval.final_size=64"}})
	if want := "eval.final_size (64, --set eval.final_size) must be at least data.val_size (128, smoke (embedded): line 11) (0 = the same)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
