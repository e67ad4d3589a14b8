package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"grpo/internal/pattern"
	"grpo/internal/process"
)

// A file is replaced in four steps: write a temporary file in the same folder, fsync it, rename it
// over the old one, fsync the folder. After an interruption a reader finds either the old content
// or the new.
//
// Package renameio does not fsync the folder or support Windows, and its temporary names (.NAME123)
// look like a user's, so [RemoveTemps] could not remove those of a killed process.

// tempSuffix ends the names of temporary files, which start with a dot.
const tempSuffix = ".grpo-tmp"

// tempCounter numbers the temporary files of this process.
var tempCounter atomic.Uint64

// WriteFileAtomic replaces the file at path by data so that a crash leaves either the old content
// or the new. On an error the old content is still in place and the temporary file is removed, with
// one exception, which the error names: if only the fsync of the folder fails, the new content is
// in place but may not survive a power cut.
func WriteFileAtomic(path string, data []byte) error {
	return WriteAtomic(path, func(f *os.File) error { _, err := f.Write(data); return err })
}

// WriteAtomic is [WriteFileAtomic] with what write writes, for content that is too large to be in
// memory as a whole.
func WriteAtomic(path string, write func(*os.File) error) error {
	commit, err := PrepareFile(path, write, nil)
	if err != nil {
		return err
	}
	return commit()
}

// PrepareFile is the first half of [WriteAtomic]: it writes the temporary file. commit is the second
// half, which waits for the disk: it syncs the file and puts it in place. It must be called, and may
// be called on another goroutine. If allow is not nil, commit calls it before the file gets its name,
// and its error ends commit.
func PrepareFile(path string, write func(*os.File) error, allow func() error) (commit func() error, err error) {
	f, err := createTemp(path)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	failed := func(err error) error {
		f.Close()
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	if err := write(f); err != nil {
		return nil, failed(err)
	}
	return func() error {
		err := f.Sync()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil && allow != nil {
			err = allow()
		}
		if err == nil {
			err = Rename(f.Name(), path)
		}
		if err != nil {
			return failed(err)
		}
		return synced(path)
	}, nil
}

// synced makes a new name durable.
func synced(path string) error {
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: written, but not safe from a power cut: sync the folder: %w", path,
			explainWrite(err))
	}
	return nil
}

// Keep gives the file at path a second name in the same folder, replacing any file of that name, so
// that [WriteFileAtomic] can replace the first. Without hard links the file is renamed. The next
// WriteFileAtomic in the folder makes it durable.
func Keep(path, as string) error {
	err := os.Remove(as)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if os.Link(path, as) == nil {
			return nil
		}
		err = Rename(path, as)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, Explain(err))
	}
	return nil
}

// osRename is a variable for tests of network file systems.
var osRename = os.Rename

// Rename is [os.Rename] for network file systems, which send a request again if its answer was lost:
// "no such file" is no error if the file or folder already has its new name.
func Rename(from, to string) error {
	before, err := os.Lstat(from)
	if err != nil {
		return err
	}
	err = osRename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if now, serr := os.Lstat(to); serr == nil && os.SameFile(before, now) {
			return nil
		}
	}
	return err
}

// MkdirAll is [os.MkdirAll] with the usual permissions. It syncs the parents of new folders so that
// their names survive a power cut.
func MkdirAll(dir string) error {
	var made []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break // it exists, or os.MkdirAll reports the error better
		}
		made = append(made, d)
	}
	err := os.MkdirAll(dir, 0o755)
	for i := 0; i < len(made) && err == nil; i++ {
		err = syncDir(filepath.Dir(made[i]))
	}
	return Explain(err)
}

// Writable returns an error if a file can't be made at path. It leaves nothing behind, so a long command
// can ask before it starts. Of folders that are missing, it tries where the first would be made.
func Writable(path string) error {
	if os.IsPathSeparator(path[len(path)-1]) {
		return fmt.Errorf("write %s: it names a folder (give the name of a file)", path)
	}
	dir := filepath.Dir(path)
	for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	f, err := createTemp(filepath.Join(dir, filepath.Base(path)))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, Explain(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// createTemp opens a new file next to path, named by process id and counter; it skips leftovers of
// an earlier process with the same id.
func createTemp(path string) (f *os.File, err error) {
	err = makeTemp(path, func(name string) (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	return f, err
}

// cleared are the paths next to which this process has removed what dead processes left.
var cleared sync.Map

// makeTemp removes what dead processes left next to path, once, and calls make with temporary names
// there until one is free.
func makeTemp(path string, make func(name string) error) error {
	if _, done := cleared.LoadOrStore(path, true); !done {
		removeStale(path)
	}
	dir, base := filepath.Split(path)
	for range 1000 {
		name := fmt.Sprintf("%s.%s.%d-%d-%s%s", dir, base, os.Getpid(), tempCounter.Add(1), tempPlace(), tempSuffix)
		if err := make(name); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("no free name for a temporary file next to it (remove %s.%s.*%s)", dir, base, tempSuffix)
}

// A temporary name has the file's name, the process id, a number and the place in which the id is valid,
// which names of earlier releases lack.
var tempName = pattern.Of(`^\.(.+)\.(\d+)-\d+(?:-([0-9a-f]{8}))?\` + tempSuffix + `$`)

// tempPlace identifies this machine, since its start, and the container.
var tempPlace = sync.OnceValue(func() string {
	p := process.Here()
	return checksum([]byte(p.Host + " " + p.Boot + " " + p.Namespace))[:8]
})

// staleAfter is the age at which what any process left is removed: none writes for so long.
const staleAfter = 24 * time.Hour

// removeStale deletes the temporary files and folders for path of processes that are certainly dead. It
// needs no lock, and what it can't delete does no harm.
func removeStale(path string) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		m := tempName().FindStringSubmatch(e.Name())
		if m == nil || m[1] != base {
			continue
		}
		pid, _ := strconv.Atoi(m[2])
		exists, _ := process.Exists(pid, "")
		info, err := e.Info()
		if m[3] == tempPlace() && !exists || err == nil && process.Age(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// syncDir makes a rename inside dir durable. It ignores EINVAL and unsupported-operation errors,
// which mean that the file system can't fsync a folder.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || runtime.GOOS == "windows" {
		return nil
	}
	return err
}

// RemoveTemps deletes the temporary files and folders that a killed writer left in dir. Call it while holding
// [Lock]: it can't distinguish a leftover from a file being written.
func RemoveTemps(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), tempSuffix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return nil
}

// stillAt reports whether the file at path is the open file f.
func stillAt(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, there), err
}

// hints explain how to fix a system error; the first match is used.
var hints = []struct {
	err error
	fix string
}{
	{syscall.ENOSPC, "the disk is full: free some space, then give the same command again"},
	{syscall.EDQUOT, "the disk quota is used up: free some space, then give the same command again"},
	{syscall.EFBIG, "it would be beyond the limit of file sizes: raise it (ulimit -f), then give the same command again"},
	{syscall.EROFS, "the file system is mounted read-only: choose another folder"},
	{syscall.EMFILE, "the process may open no more files: raise the limit (ulimit -n), then give the same command again"},
	{syscall.ENFILE, "the system may open no more files: close some programs, then give the same command again"},
	{syscall.EIO, "the disk reports a fault: check it before anything else is written there"},
	{fs.ErrPermission, "no permission to write there: change it, or choose another folder"},
}

// Explain adds a hint to a file-system error, if there is one.
func Explain(err error) error {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return fmt.Errorf("%w (%s)", err, h.fix)
		}
	}
	return err
}

// explainWrite is [Explain] for a write into a folder that existed when the run started.
func explainWrite(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (its folder no longer exists: was it removed or renamed?)", err)
	}
	return Explain(err)
}
