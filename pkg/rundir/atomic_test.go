package rundir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"grpo/internal/expect"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	return string(data)
}

// names lists a folder, hidden files included.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "status.json")
	for _, content := range []string{"first", "second, and longer", ""} {
		expect.OK(t, WriteFileAtomic(path, []byte(content)))
		if got := read(t, path); got != content {
			t.Errorf("content %q, want %q", got, content)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the folder has %q, want only the file", got)
	}
}

func TestWriteFileAtomicLeavesTheUmaskToTheUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	plain := filepath.Join(t.TempDir(), "b")
	expect.OK(t, WriteFileAtomic(path, nil))
	f, err := os.Create(plain)
	expect.OK(t, err)
	f.Close()
	a, _ := os.Stat(path)
	b, _ := os.Stat(plain)
	if a.Mode() != b.Mode() {
		t.Errorf("mode %v, an ordinary new file has %v", a.Mode(), b.Mode())
	}
}

func TestWriteFileAtomicFails(t *testing.T) {
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string) (target string)
	}{
		{"the folder is missing", func(t *testing.T, dir string) string {
			return filepath.Join(dir, "none", "x.json")
		}},
		{"a file where the folder should be", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "file"), "old")
			return filepath.Join(dir, "file", "x.json")
		}},
		{"a folder where the file should be", func(t *testing.T, dir string) string {
			target := filepath.Join(dir, "x.json")
			expect.OK(t, os.MkdirAll(filepath.Join(target, "inside"), 0o755))
			return target
		}},
		{"the folder is read-only", func(t *testing.T, dir string) string {
			if os.Geteuid() == 0 {
				t.Skip("permission bits don't bind root")
			}
			write(t, filepath.Join(dir, "x.json"), "old")
			expect.OK(t, os.Chmod(dir, 0o555))
			t.Cleanup(func() { os.Chmod(dir, 0o755) })
			return filepath.Join(dir, "x.json")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			target := tt.setup(t, dir)
			before := names(t, dir)
			expect.Error(t, WriteFileAtomic(target, []byte("new")), target)
			if after := names(t, dir); len(after) != len(before) {
				t.Errorf("the folder has %q, before it had %q", after, before)
			}
			for _, name := range before {
				if p := filepath.Join(dir, name); !isDir(p) && read(t, p) != "old" {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func TestWriteJSONKeepsTheOldContentOnAnEncodingError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	write(t, path, "old")
	if err := WriteJSON(path, map[string]any{"f": func() {}}); err == nil {
		t.Fatal("a function was encoded")
	}
	if got := read(t, path); got != "old" {
		t.Errorf("content %q", got)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the folder has %q", got)
	}
}

func TestRemoveTemps(t *testing.T) {
	dir := t.TempDir()
	// The leftovers of a writer that is killed between write and rename.
	f, err := createTemp(filepath.Join(dir, "result.json"))
	expect.OK(t, err)
	f.Close()
	write(t, filepath.Join(dir, "result.json"), "kept")
	write(t, filepath.Join(dir, ".hidden"), "kept")
	expect.OK(t, RemoveTemps(dir))
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("left: %q, want .hidden and result.json", got)
	}
}

func TestCreateTempStepsOverLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	first, err := createTemp(path)
	expect.OK(t, err)
	first.Close()
	tempCounter.Store(tempCounter.Load() - 1) // as in a new process with the old id
	second, err := createTemp(path)
	expect.OK(t, err)
	second.Close()
	if first.Name() == second.Name() {
		t.Errorf("both are %s", first.Name())
	}
}

// The first name moves to the new content, the second keeps the old.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	path, older := filepath.Join(dir, "last"), filepath.Join(dir, "step-1")
	write(t, path, "one")
	write(t, older, "in the way")
	expect.OK(t, Keep(path, older))
	if read(t, older) != "one" {
		t.Errorf("kept %q", read(t, older))
	}
	expect.OK(t, WriteFileAtomic(path, []byte("two")))
	if read(t, path) != "two" || read(t, older) != "one" {
		t.Errorf("%q, and before %q", read(t, path), read(t, older))
	}
	// Damage to one must not affect the other.
	write(t, path, "three")
	if read(t, older) != "one" {
		t.Error("both names are of one file")
	}
	expect.Error(t, Keep(filepath.Join(dir, "none"), older), "none")
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a", "a/b/c", "a/b/c", "./d/../e", "a/b/"} {
		if err := MkdirAll(filepath.Join(dir, path)); err != nil || !isDir(filepath.Join(dir, path)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	write(t, filepath.Join(dir, "file"), "")
	expect.Error(t, MkdirAll(filepath.Join(dir, "file", "x")), "file")
}

// What a killed process left is removed by the next write to the same place. What a process that is
// alive, or may be alive elsewhere, is writing stays, and so do other names.
func TestStaleTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command(os.Args[0], "-test.run=NoTest")
	expect.OK(t, dead.Run())
	name := func(base string, pid int, place string) string {
		return fmt.Sprintf(".%s.%d-1%s%s", base, pid, place, tempSuffix)
	}
	gone, here := dead.Process.Pid, "-"+tempPlace()
	stays := []string{
		name("model", os.Getppid(), here), name("model", gone, "-0badc0de"), name("model", gone, ""),
		name("other", gone, here), ".model.tmp",
	}
	goes := []string{name("model", gone, here), name("model", gone, "-00000000")}
	for _, n := range append(stays, goes...) {
		expect.OK(t, os.Mkdir(filepath.Join(dir, n), 0o755))
		write(t, filepath.Join(dir, n, "weights"), "half")
	}
	old := time.Now().Add(-25 * time.Hour)
	expect.OK(t, os.Chtimes(filepath.Join(dir, goes[1]), old, old))
	expect.OK(t, NewFolder(filepath.Join(dir, "model"), func(string) error { return nil }))
	want := slices.Sorted(slices.Values(append(stays, "model")))
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("the folder has\n%q\nwant\n%q", got, want)
	}
}
