package rundir

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/config"
)

// lay makes a folder with files of these names and contents; a name that ends in
// a slash is a folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		write(t, path, text)
	}
	return dir
}

func TestKindOf(t *testing.T) {
	const sft = "name: x\nstages:\n  - name: a\n"
	type files = map[string]string
	for _, tt := range []struct {
		name  string
		files files
		want  Kind
	}{
		{"empty", nil, KindEmpty},
		{"hidden files", files{".gitkeep": "", ".DS_Store": "", ".git/": "", ".lock": "1"}, KindEmpty},
		{"a run", files{ConfigFile: "seed: 1\n", MetricsFile: "", "notes.txt": ""}, KindRun},
		{"a run before its configuration", files{"checkpoint/seal.json": "{}", MetricsFile: "", TaskLog: ""}, KindRun},
		{"a run of a sweep before its first byte", files{TaskLog: ""}, KindRun},
		{"a published run", files{ResultFile: "{}", "README.md": ""}, KindRun},
		{"a supervised run", files{ConfigFile: sft, "sft.jsonl": ""}, KindSFT},
		{"a supervised run at its first byte", files{ConfigFile: sft}, KindSFT},
		{"a sweep", files{ManifestFile: "{}", RequestFile: "", "runs/": ""}, KindSweep},
		{"a sweep before its manifest", files{RequestFile: ""}, KindSweep},
		{"a study", files{StudyFile: "{}", "lr/manifest.json": "{}"}, KindStudy},
		{"folders of runs", files{"seed=1/result.json": "{}", "results.md": ""}, KindOther},
		{"a project with a config.yaml", files{ConfigFile: "a: 1", "main.py": ""}, KindOther},
		{"a project with a sweep.yaml", files{RequestFile: "", "main.py": ""}, KindOther},
		{"generated problems", files{"sft.jsonl": "", "train.jsonl": ""}, KindOther},
	} {
		if got, err := KindOf(lay(t, tt.files)); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if got, err := KindOf(filepath.Join(t.TempDir(), "none")); got != KindEmpty || err != nil {
		t.Errorf("none: %q, %v", got, err)
	}
	if _, err := KindOf(filepath.Join(lay(t, map[string]string{"file": ""}), "file")); err == nil {
		t.Error("a file is a folder")
	}
}

// Every kind is refused for every other kind, without any change to the folder.
func TestClaimRefuses(t *testing.T) {
	folders := map[Kind]map[string]string{
		KindRun: {ConfigFile: "seed: 1\n", MetricsFile: ""}, KindSFT: {ConfigFile: "name: x\nstages:\n", "sft.jsonl": ""},
		KindSweep: {ManifestFile: "{}"}, KindStudy: {StudyFile: "{}"}, KindOther: {"notes.txt": "mine"},
	}
	for is, files := range folders {
		for want := range folders {
			dir := lay(t, files)
			unlock, err := Claim(dir, want, nil)
			if is == want {
				must(t, err)
				must(t, unlock())
				continue
			}
			if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), string(is)) || !strings.Contains(err.Error(), "--out") {
				t.Errorf("%s to %s: %v", is, want, err)
			}
			if got := names(t, dir); !slices.Equal(got, slices.Sorted(maps.Keys(files))) {
				t.Errorf("%s to %s: content %q", is, want, got)
			}
		}
	}
	dir := lay(t, folders[KindRun])
	other := errors.New("another request")
	if _, err := Claim(dir, KindRun, func() error { return other }); !errors.Is(err, other) || len(names(t, dir)) != 2 {
		t.Errorf("error %v, content %q", err, names(t, dir))
	}
}

// Held does not change a byte and follows no link.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	is := func(want, wantKnown bool) {
		t.Helper()
		if held, known := Held(dir); held != want || known != wantKnown {
			t.Errorf("held %v, known %v; want %v, %v", held, known, want, wantKnown)
		}
	}
	is(false, true)
	unlock, err := Lock(dir)
	must(t, err)
	is(true, true)
	if got := read(t, filepath.Join(dir, LockFile)); got == "" {
		t.Error("the holder's process id is gone")
	}
	must(t, unlock())
	is(false, true)
	write(t, filepath.Join(dir, LockFile), "4711\n") // of a killed process
	is(false, true)
	if got := read(t, filepath.Join(dir, LockFile)); got != "4711\n" {
		t.Errorf("the lock now contains %q", got)
	}
	outside := filepath.Join(t.TempDir(), "precious")
	write(t, outside, "precious")
	must(t, os.Remove(filepath.Join(dir, LockFile)))
	must(t, os.Symlink(outside, filepath.Join(dir, LockFile)))
	is(false, false)
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), LockFile) || read(t, outside) != "precious" {
		t.Errorf("error %v, and the file outside contains %q", err, read(t, outside))
	}
}
