package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func filled(content string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o644) }
}

// A folder is replaced as a whole, with and without a system call that exchanges two.
func TestReplaceFolder(t *testing.T) {
	for name, swap := range map[string]func(string, string) error{
		"exchange": exchange, "aside": func(string, string) error { return errors.ErrUnsupported },
	} {
		t.Run(name, func(t *testing.T) {
			old := exchange
			exchange = swap
			defer func() { exchange = old }()
			dir := t.TempDir()
			path := filepath.Join(dir, "best")
			for _, content := range []string{"one", "two", "three"} {
				expect.OK(t, ReplaceFolder(path, filled(content)))
				if got := read(t, filepath.Join(path, "f")); got != content {
					t.Errorf("%q, want %q", got, content)
				}
			}
			broken := errors.New("no more")
			err := ReplaceFolder(path, func(dir string) error { return errors.Join(filled("half")(dir), broken) })
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) || read(t, filepath.Join(path, "f")) != "three" {
				t.Errorf("error %v", err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"best"}) {
				t.Errorf("the folder has %q", got)
			}
		})
	}
}

// At whichever step a process is killed, the next one finds the old folder or the new one.
func TestRecoverFolder(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		there      []string
	}{
		{"moved aside", "old", []string{"best.old", ".best.1-1.grpo-tmp"}},
		{"the new one is in place", "new", []string{"best.old", "best"}},
		{"nothing happened", "new", []string{"best"}},
	} {
		dir := t.TempDir()
		for _, name := range tt.there {
			content := "new"
			if name == "best.old" {
				content = "old"
			}
			expect.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), filled(content)(filepath.Join(dir, name))))
		}
		path := filepath.Join(dir, "best")
		expect.OK(t, errors.Join(RecoverFolder(path), RemoveTemps(dir)))
		if got := read(t, filepath.Join(path, "f")); got != tt.want || len(names(t, dir)) != 1 {
			t.Errorf("%s: %q, and the folder has %q", tt.name, got, names(t, dir))
		}
	}
	if err := RecoverFolder(filepath.Join(t.TempDir(), "best")); err != nil {
		t.Error(err)
	}
}

// NewFolder never replaces anything.
func TestNewFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	expect.OK(t, NewFolder(path+string(filepath.Separator), filled("a")))
	if err := NewFolder(path, filled("b")); err == nil || read(t, filepath.Join(path, "f")) != "a" {
		t.Errorf("error %v", err)
	}
	write(t, filepath.Join(dir, "file"), "old")
	if err := NewFolder(filepath.Join(dir, "file"), filled("b")); err == nil || read(t, filepath.Join(dir, "file")) != "old" {
		t.Errorf("error %v", err)
	}
	empty := filepath.Join(dir, "empty")
	if err := errors.Join(os.Mkdir(empty, 0o755), Vacant(empty), NewFolder(empty, filled("c")), Vacant(filepath.Join(dir, "none"))); err != nil {
		t.Error(err)
	}
	if err := Vacant(empty); err == nil {
		t.Error("a folder with a file is vacant")
	}
	if got := names(t, dir); len(got) != 3 {
		t.Errorf("the folder has %q", got)
	}
}
