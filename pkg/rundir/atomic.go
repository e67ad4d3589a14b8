package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// A file is replaced in four steps: write a temporary file in the same folder,
// fsync it, rename it over the old one, fsync the folder. At any interruption a
// reader finds the old content or the new, never a part of either.
//
// Package renameio does not fsync the folder, does not support Windows, and its
// temporary names (.NAME123) can't be told from a user's files, so [RemoveTemps]
// could not remove those of a killed process.

// tempSuffix ends the names of temporary files, which begin with a dot.
const tempSuffix = ".grpo-tmp"

// tempCounter tells apart the temporary files of one process.
var tempCounter atomic.Uint64

// WriteFileAtomic replaces the file at path by data so that a crash leaves
// either the old content or the new. On an error the old content is still in
// place and the temporary file is gone, with one exception, which the error
// names: when only the fsync of the folder fails, the new content is in place
// but may not survive a power cut.
func WriteFileAtomic(path string, data []byte) error {
	f, err := createTemp(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: written, but not safe from a power cut: sync the folder: %w", path,
			explainWrite(err))
	}
	return nil
}

// Keep gives the file at path a second name in the same folder, replacing the
// file that has it, so that [WriteFileAtomic] can replace the first. The file
// always has a name. Where the file system has no hard links it is renamed
// instead. The next WriteFileAtomic in the folder makes it durable.
func Keep(path, as string) error {
	err := os.Remove(as)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if os.Link(path, as) == nil {
			return nil
		}
		err = os.Rename(path, as)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, Explain(err))
	}
	return nil
}

// MkdirAll is [os.MkdirAll] with the usual permissions. It syncs the parents of
// the folders that it makes, so that their names survive a power cut.
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

// createTemp opens a new file next to path, named by the process id and a
// counter; leftovers of an earlier process with the same id are skipped.
func createTemp(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for range 1000 {
		name := fmt.Sprintf("%s.%s.%d-%d%s", dir, base, os.Getpid(), tempCounter.Add(1), tempSuffix)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("no free name for a temporary file next to it (remove %s.%s.*%s)", dir, base, tempSuffix)
}

// syncDir makes a rename inside dir durable. File systems that can't fsync a
// folder return EINVAL or an unsupported-operation error, which is ignored.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || !dirsCanSync {
		return nil
	}
	return err
}

// RemoveTemps deletes the temporary files that a killed writer left in dir.
// Call it while holding [Lock]: it can't tell a leftover from a file that is
// being written.
func RemoveTemps(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), tempSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return nil
}

// stillAt says whether the file at path is the open file f.
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

// hints say how to fix what the error of the system reports; the first that
// matches is used.
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

// Explain adds a hint to an error of the file system, if there is one.
func Explain(err error) error {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return fmt.Errorf("%w (%s)", err, h.fix)
		}
	}
	return err
}

// explainWrite is [Explain] for a write into a folder that existed when the run
// began.
func explainWrite(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (its folder is gone: was it removed or renamed in the meantime?)", err)
	}
	return Explain(err)
}
