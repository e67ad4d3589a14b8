package archtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// nobody is an observer that ignores all events.
type nobody struct{}

func (nobody) Begin(int, int)      {}
func (nobody) Step(rundir.Metrics) {}
func (nobody) Eval(rundir.Eval)    {}
func (nobody) Note(string)         {}

// contents maps the files below root, except those below except, to their content.
func contents(t *testing.T, root, except string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == except {
			return errorOr(err, fs.SkipDir)
		}
		if e.IsDir() {
			out[path] = "a folder"
			return nil
		}
		data, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	expect.OK(t, err)
	return out
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// TestNamesAreNoPaths: whatever a name or a file of problems contains, a run and its report write
// only below the run's folder, and a folder's name is not a pattern.
func TestNamesAreNoPaths(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(root, "outside")
	dir := filepath.Join(root, "a", "run[12]")
	// The folder that the name would match as a pattern.
	neighbour := filepath.Join(root, "a", "run1", "checkpoint", "step-000001.safetensors")
	// A name that leads from the run's folder to an existing file.
	evil := "../../outside/evil"
	for path, text := range map[string]string{
		neighbour:                           "another run's",
		filepath.Join(outside, "evil"):      "outside",
		filepath.Join(outside, "evil.json"): "outside",
		filepath.Join(root, "train.jsonl"):  problems(evil, 0),
		filepath.Join(root, "val.jsonl"):    problems("/"+filepath.ToSlash(outside)+"/evil", 100),
		filepath.Join(root, "test.jsonl"):   problems(`..\\..\\evil\u0000`, 200),
	} {
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	r, err := config.Load(config.LoadOptions{Path: "smoke", Set: []string{
		"name=" + evil, "data.source=gsm8k", "train_file=" + filepath.Join(root, "train.jsonl"), "val_file=" + filepath.Join(root, "val.jsonl"),
		"test_file=" + filepath.Join(root, "test.jsonl"), "n_grpo_steps=3", "every_n_steps=1", "rollout_batch_size=16",
		"checkpoint_every_n_steps=1", "keep_checkpoints=1",
	}})
	expect.OK(t, err)
	before := contents(t, root, dir)
	if _, err := train.Run(t.Context(), r.Config, train.Options{Dir: dir, Threads: 1, Now: time.Now, Observer: nobody{}}); err != nil {
		t.Fatal(err)
	}
	run, err := rundir.Open(dir)
	expect.OK(t, err)
	var text bytes.Buffer
	expect.OK(t, report.WriteMarkdown(&text, []*rundir.Run{run}))
	expect.OK(t, report.WriteSummary(&text, run))
	untrusted.CheckText(t, text.String())
	after := contents(t, root, dir)
	for path := range before {
		if after[path] != before[path] {
			t.Errorf("%s was changed or removed", path)
		}
	}
	for path := range after {
		if _, there := before[path]; !there && path != dir {
			t.Errorf("%s was written, outside of %s", path, dir)
		}
	}
	if len(run.Samples) == 0 || !slices.ContainsFunc(run.Samples, func(s rundir.Sample) bool { return strings.Contains(s.Problem, "evil") }) {
		t.Error("the malicious names did not reach the samples")
	}
}

// problems returns a few problems in GSM8K's form, with this ID.
func problems(id string, from int) string {
	var b strings.Builder
	for i := range 8 {
		n := from + i
		fmt.Fprintf(&b, `{"id":"%s","type":"%s","fact":"%s","question":"Tom has %d pens and gets 1 more. How many?","answer":"%d+1=<<%d+1=%d>>%d\n#### %d"}`+"\n",
			id, id, id, n, n, n, n+1, n+1, n+1)
	}
	return b.String()
}
