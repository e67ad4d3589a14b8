//go:build linux

package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"grpo/internal/expect"
)

// These tests use real faults of the system: a full disk, limits on the size and number of open
// files, a read-only file system. Limits apply to a whole process, so they run in a child process.

// limitChildEnv makes the test binary run a scenario and exit.
const limitChildEnv = "GRPO_TEST_LIMIT"

func init() {
	if scenario := os.Getenv(limitChildEnv); scenario != "" {
		if err := limited(scenario, os.Getenv(limitChildEnv+"_DIR")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// limited writes under a limit.
func limited(scenario, dir string) error {
	set := func(resource int, n uint64) error {
		return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n})
	}
	big := make([]byte, 100_000)
	switch scenario {
	case "size, atomic":
		if err := set(syscall.RLIMIT_FSIZE, 4096); err != nil {
			return err
		}
		return WriteFileAtomic(filepath.Join(dir, "big.json"), big)
	case "size, log":
		l, err := OpenLog(filepath.Join(dir, "m.jsonl"))
		if err != nil {
			return err
		}
		if err := set(syscall.RLIMIT_FSIZE, 4096); err != nil {
			return err
		}
		for i := range 1000 {
			if err := l.Append(line1(i)); err != nil {
				return err
			}
		}
		return nil
	case "open files":
		if err := set(syscall.RLIMIT_NOFILE, 3); err != nil { // standard input, output and error
			return err
		}
		return WriteFileAtomic(filepath.Join(dir, "big.json"), big)
	}
	return errors.New("unknown scenario")
}

func line1(i int) any {
	return map[string]any{"step": i, "text": strings.Repeat("x", 97)}
}

func TestLimitsOfTheSystem(t *testing.T) {
	for _, tt := range []struct{ scenario, fix string }{
		{"size, atomic", "ulimit -f"}, {"size, log", "ulimit -f"}, {"open files", "ulimit -n"},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "big.json"), "old")
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), limitChildEnv+"="+tt.scenario, limitChildEnv+"_DIR="+dir)
			out, err := child.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("the child ended with %v: %s", err, out)
			}
			if !strings.Contains(string(out), tt.fix) || !strings.Contains(string(out), dir) {
				t.Errorf("the child said %q, want the path and %q", out, tt.fix)
			}
			unharmed(t, dir)
		})
	}
}

// unharmed: no partial file and no leftover.
func unharmed(t *testing.T, dir string) {
	t.Helper()
	if got := read(t, filepath.Join(dir, "big.json")); got != "old" {
		t.Errorf("big.json now has %d bytes", len(got))
	}
	for _, name := range names(t, dir) {
		switch name {
		case "big.json":
		case "m.jsonl":
			if text := read(t, filepath.Join(dir, name)); text == "" || !strings.HasSuffix(text, "\n") {
				t.Errorf("the log ends in %q", text[max(0, len(text)-20):])
			}
		default:
			t.Errorf("left over: %s", name)
		}
	}
}

// mount needs root; otherwise the test is skipped with a message.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no small file system to be had here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mount(t, "size=64k")
	write(t, filepath.Join(dir, "big.json"), "old")
	err := WriteFileAtomic(filepath.Join(dir, "big.json"), make([]byte, 100_000))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") || !strings.Contains(err.Error(), "big.json") {
		t.Errorf("error %v", err)
	}
	l := mustOpen(t, filepath.Join(dir, "m.jsonl"))
	for i := range 10_000 {
		if err = l.Append(line1(i)); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("error %v", err)
	}
	unharmed(t, dir)
	// With room again, the same log continues.
	expect.OK(t, os.Remove(filepath.Join(dir, "big.json")))
	expect.OK(t, l.TruncateTo(0))
	expect.OK(t, l.Append(line{Step: 1}))
	if data := read(t, filepath.Join(dir, "m.jsonl")); PrefixOf([]byte(data)).SHA256 != l.Sum() {
		t.Error("the log's sum is not that of its file")
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "size=64k")
	write(t, filepath.Join(dir, "big.json"), "old")
	expect.OK(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, lockErr := Lock(dir)
	_, makeErr := Claim(filepath.Join(dir, "a", "b"), KindRun, nil)
	_, logErr := OpenLog(filepath.Join(dir, "m.jsonl"))
	for what, err := range map[string]error{
		"write": WriteFileAtomic(filepath.Join(dir, "big.json"), []byte("new")), "lock": lockErr, "make": makeErr, "log": logErr,
	} {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "read-only: choose another folder") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	unharmed(t, dir)
}
