package sweep

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

const claimFile = rundir.ClaimsDir + "/1/owner.json"

// plant makes a folder of a run with a checkpoint, a claim and a leftover;
// result is how it ended, empty = not yet.
func plant(t *testing.T, path, result string) {
	t.Helper()
	for _, name := range []string{rundir.CheckpointDir, rundir.ClaimsDir + "/1"} {
		expect.OK(t, os.MkdirAll(filepath.Join(path, name), 0o755))
	}
	files := map[string]string{
		rundir.ConfigFile: "name: theirs\n", rundir.MetaFile: "{}", "checkpoint/last.safetensors": "weights of " + path,
		claimFile: "{}", ".metrics.jsonl.1-1.grpo-tmp": "half",
	}
	if result != "" {
		files[rundir.ResultFile] = `{"status": "` + result + `"}`
	}
	for name, text := range files {
		expect.OK(t, os.WriteFile(filepath.Join(path, name), []byte(text), 0o644))
	}
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expect.OK(t, os.Chtimes(filepath.Join(path, rundir.MetaFile), then, then))
}

// contents are the files below a folder.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		out[strings.TrimPrefix(p, path)] = string(text)
		return err
	})
	expect.OK(t, err)
	return out
}

// TestRunReuses: runs that another sweep has finished are copied, whatever their
// outcome; what it has not finished, what has started here, and what can't be
// copied is made.
func TestRunReuses(t *testing.T) {
	other := writeSweep(t, fakeManifest(5, 1))
	theirs := fakeManifest(5, 1).Runs
	plant(t, theirs[0].Path(other), rundir.StateDone)
	plant(t, theirs[1].Path(other), rundir.StateDiverged)
	plant(t, theirs[2].Path(other), "")
	plant(t, theirs[3].Path(other), rundir.StateDone)
	plant(t, theirs[4].Path(other), rundir.StateDone)
	expect.OK(t, os.Symlink("meta.json", filepath.Join(theirs[4].Path(other), "link")))
	before := contents(t, other)

	m := fakeManifest(3, 2) // six runs, of which the first five are the other sweep's
	dir := writeSweep(t, m)
	partial := m.Runs[3].Path(dir)
	expect.OK(t, os.MkdirAll(partial, 0o755))
	expect.OK(t, os.WriteFile(filepath.Join(partial, sweepdir.TaskLog), []byte("started\n"), 0o644))
	leftover := filepath.Join(dir, sweepdir.RunsDir, copyPrefix+"a,seed=1")
	plant(t, leftover, rundir.StateDone)

	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t, rest: completes(2)}, &journal{}
		opts := fakeOptions(l, j)
		opts.StudySweeps = []string{filepath.Join(dir, "nothing"), other}
		s, err := Run(t.Context(), dir, opts)
		expect.OK(t, err)
		if got := states(s); got != "done diverged done done done done" {
			t.Errorf("states %s", got)
		}
		if slices.Sort(l.starts); !slices.Equal(l.starts, []string{"2/1", "3/1", "4/1", "5/1"}) {
			t.Errorf("started %v", l.starts)
		}
		if j.of(0) != "found" || j.of(1) != "found" || j.of(2) != "started, ended" {
			t.Errorf("events %q, %q, %q", j.of(0), j.of(1), j.of(2))
		}
		notes := strings.Join(j.notes, "\n")
		for _, want := range []string{"no run is reused from " + filepath.Join(dir, "nothing"), "it is neither a file nor a folder", "2 runs copied from " + other} {
			if !strings.Contains(notes, want) {
				t.Errorf("notes lack %q:\n%s", want, notes)
			}
		}
	})

	want := contents(t, theirs[1].Path(other))
	delete(want, "/"+claimFile)
	delete(want, "/.metrics.jsonl.1-1.grpo-tmp")
	if got := contents(t, m.Runs[1].Path(dir)); !reflect.DeepEqual(got, want) || len(got) != 4 {
		t.Errorf("copied %v, want %v", got, want)
	}
	if info, err := os.Stat(filepath.Join(m.Runs[1].Path(dir), rundir.MetaFile)); err != nil || info.ModTime().Year() != 2026 || info.ModTime().Month() != 1 {
		t.Errorf("the copy's time is %v, %v", info.ModTime(), err)
	}
	if !reflect.DeepEqual(contents(t, other), before) {
		t.Error("the other sweep was changed")
	}
	entries, err := os.ReadDir(filepath.Join(dir, sweepdir.RunsDir))
	expect.OK(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), copyPrefix) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// Runs of another version, or of another revision of the sources, are not copied. A build may not know its revision.
func TestSameProgram(t *testing.T) {
	for _, tt := range []struct{ version, revision, want string }{
		{"1.0", "abc", ""}, {"1.0", "unknown", ""}, {"1.0", "", ""},
		{"1.1", "abc", "made by grpo 1.1, this is 1.0"},
		{"1.0", "def", "made by revision def of grpo, this is abc"},
		{"1.0", "abc (modified)", "made by revision abc (modified) of grpo, this is abc"},
	} {
		err := Options{Version: "1.0", Revision: "abc"}.sameProgram(&rundir.Meta{Version: tt.version, Revision: tt.revision})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if err := (Options{Revision: "unknown"}).sameProgram(&rundir.Meta{Revision: "abc"}); err != nil {
		t.Error(err)
	}
}

// A copy's table names the arm and the seed in its new sweep.
func TestCopyRunNamesItsArm(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	plant(t, from, rundir.StateDone)
	line, err := rundir.Marshal(rundir.Eval{Split: rundir.SplitVal})
	expect.OK(t, err)
	for file, text := range map[string]string{rundir.TableFile: "step,arm,seed\n0,old,1\n", rundir.EvalFile: string(line) + "\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(from, file), []byte(text), 0o644))
	}
	expect.OK(t, copyRun(from, to, "new arm", 7))
	table := contents(t, to)["/"+rundir.TableFile]
	if lines := strings.Split(table, "\n"); !strings.HasSuffix(lines[0], ",arm,seed") || !strings.HasSuffix(lines[1], ",new arm,7") {
		t.Errorf("%q", table)
	}
}

// TestCopyRunIsAllOrNothing: a run's folder that is there already stays as it
// is, and nothing half-copied is left.
func TestCopyRunIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	plant(t, from, rundir.StateDone)
	plant(t, to, "")
	before := contents(t, to)
	if err := copyRun(from, to, "", 1); err == nil {
		t.Error("copied over another run")
	}
	if !reflect.DeepEqual(contents(t, to), before) {
		t.Error("the run that was there changed")
	}
	if err := copyRun(filepath.Join(dir, "missing"), filepath.Join(dir, "new"), "", 1); err == nil {
		t.Error("copied what is not there")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}
