//go:build unix

package regular

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"grpo/internal/expect"
)

// Every function gets every kind of file. want is part of the error; "" is success.
func TestOpeners(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, os.WriteFile(at("file"), []byte("text"), 0o644))
	expect.OK(t, os.WriteFile(at("two"), []byte("text"), 0o644))
	expect.OK(t, os.Link(at("two"), at("names")))
	expect.OK(t, os.Mkdir(at("folder"), 0o755))
	expect.OK(t, os.Symlink("file", at("link")))
	expect.OK(t, os.Symlink("folder", at("folder-link")))
	expect.OK(t, os.Symlink("nowhere", at("dangling")))
	expect.OK(t, os.Symlink("/dev/zero", at("zeros")))
	expect.OK(t, syscall.Mkfifo(at("pipe"), 0o644))
	closed := func(f *os.File, err error) error {
		if err == nil {
			f.Close()
		}
		return err
	}
	functions := map[string]func(string) error{
		"Open":   func(p string) error { return closed(Open(p)) },
		"Create": func(p string) error { return closed(Create(p)) },
		"Named":  func(p string) error { return closed(Named(p)) },
		"Read":   func(p string) error { _, err := Read(p, 10); return err },
		"Tail":   func(p string) error { _, _, err := Tail(p, 0, 10); return err },
		"Check":  func(p string) error { return Check(p, 10) },
		"Folder": Folder,
	}
	const link, no = "symbolic link", "no such file"
	for name, want := range map[string]map[string]string{
		"file":        {"Folder": "it is a file"},
		"two":         {"Create": "hard link", "Folder": "it is a file"},
		"folder":      {"Open": "a directory", "Create": "a directory", "Named": "a directory", "Read": "a directory", "Tail": "a directory", "Check": "a directory"},
		"link":        {"Open": link, "Create": link, "Read": link, "Tail": link, "Check": link, "Folder": link},
		"folder-link": {"Open": link, "Create": link, "Named": "a directory", "Read": link, "Tail": link, "Check": link, "Folder": link},
		"dangling":    {"Open": link, "Create": link, "Named": no, "Read": link, "Tail": link, "Check": link, "Folder": link},
		"zeros":       {"Open": link, "Create": link, "Named": "a device", "Read": link, "Tail": link, "Check": link, "Folder": link},
		"pipe":        {"Open": "named pipe", "Create": "named pipe", "Named": "named pipe", "Read": "named pipe", "Tail": "named pipe", "Check": "named pipe", "Folder": "named pipe"},
		"missing":     {"Open": no, "Named": no, "Read": no, "Tail": no, "Check": no},
	} {
		for f, do := range functions {
			if name == "missing" && f == "Create" {
				continue // below
			}
			err := do(at(name))
			if (err == nil) != (want[f] == "") || err != nil && (!strings.Contains(err.Error(), want[f]) || !strings.Contains(err.Error(), at(name))) {
				t.Errorf("%s of the %s: %v, want %q", f, name, err, want[f])
			}
		}
	}
	if _, err := os.Lstat(at("nowhere")); err == nil {
		t.Error("a file was created through the dangling link")
	}
	f, err := Create(at("new"))
	expect.OK(t, err)
	_, err = io.WriteString(f, "line")
	expect.OK(t, err)
	expect.OK(t, f.Close())
	if data, err := Read(at("new"), 4); string(data) != "line" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	for _, tt := range []struct {
		from, limit int64
		want        string
		at          int64
	}{{0, 9, "line", 0}, {0, 3, "ine", 1}, {2, 3, "ne", 2}, {6, 3, "", 6}} {
		if data, offset, err := Tail(at("new"), tt.from, tt.limit); string(data) != tt.want || offset != tt.at || err != nil {
			t.Errorf("the last %d bytes from %d: %q at %d, %v", tt.limit, tt.from, data, offset, err)
		}
	}
}

// What is too large is refused by its size, before it is read: the file here has
// no blocks, and reading it would take its size in memory.
func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	expect.OK(t, os.WriteFile(path, nil, 0o644))
	expect.OK(t, os.Truncate(path, 1<<40))
	for _, err := range []error{func() error { _, err := Read(path, MaxLog); return err }(), Check(path, MaxCheckpoint)} {
		expect.Error(t, err, "1099511627776 bytes", "limit", path)
	}
	expect.OK(t, os.Truncate(path, 10))
	if data, err := Read(path, 10); len(data) != 10 || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := Read(path, 9); err == nil {
		t.Error("one byte beyond the limit was read")
	}
}

// The pipes that a shell passes are read, and waited for.
func TestNamedPipe(t *testing.T) {
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip(err)
	}
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	go func() {
		io.WriteString(w, "text")
		w.Close()
	}()
	f, err := Named("/dev/fd/" + strconv.Itoa(int(r.Fd())))
	expect.OK(t, err)
	defer f.Close()
	if data, err := io.ReadAll(f); string(data) != "text" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// A pipe in a memory file system below /dev is no pipe of the shell.
func TestNamedInMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "regular")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pipe")
	expect.OK(t, syscall.Mkfifo(path, 0o644))
	expect.Error(t, expect.Err(Named(path)), "named pipe")
}
