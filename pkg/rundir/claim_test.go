package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
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
			expect.OK(t, os.MkdirAll(path, 0o755))
			continue
		}
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
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
				expect.OK(t, err)
				expect.OK(t, unlock())
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

// Held does not change a byte.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	is := func(want bool) {
		t.Helper()
		before := tree(t, dir)
		if held, known := Held(dir); held != want || !known {
			t.Errorf("held %v, known %v; want %v", held, known, want)
		}
		if after := tree(t, dir); !slices.Equal(before, after) {
			t.Errorf("before %q, after %q", before, after)
		}
	}
	is(false)
	h, err := Lock(dir)
	expect.OK(t, err)
	is(true)
	expect.OK(t, h.Release())
	is(false)
	claimOf(t, dir, 2, other(), time.Hour)
	is(false)
}

// tree lists the files below dir with their contents and times.
func tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	expect.OK(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		text, _ := os.ReadFile(path)
		out = append(out, fmt.Sprintf("%s %v %q", path, info.ModTime(), text))
		return err
	}))
	return out
}
