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

// A file is replaced in four moves: write a temporary file in the same folder,
// fsync it, rename it over the old one, fsync the folder. Whatever interrupts
// that, a reader finds the old content or the new, never a part. The temporary
// file has to be in the same folder because rename does not cross file systems.
//
// Package renameio does less: it does not fsync the folder, has nothing for
// Windows, and its temporary names (.NAME123) can't be told from a user's files,
// so that [RemoveTemps] could not remove what a killed process left.

// tempSuffix ends the names of temporary files; with the leading dot it is
// what [RemoveTemps] looks for.
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
	temp := f.Name()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: written, but not safe from a power cut: sync the folder: %w", path, explainWrite(err))
	}
	return nil
}

// Keep gives the file at path a second name in the same folder and replaces
// whatever has that name, so that [WriteFileAtomic] can replace the first. At no moment
// is the file without a name. Where the file system has no hard links it is
// renamed instead. The next WriteFileAtomic in the folder makes it durable.
func Keep(path, as string) error {
	if err := os.Remove(as); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep %s: %w", path, explain(err))
	}
	if os.Link(path, as) == nil {
		return nil
	}
	if err := os.Rename(path, as); err != nil {
		return fmt.Errorf("keep %s: %w", path, explain(err))
	}
	return nil
}

// MkdirAll is [os.MkdirAll] with the common permissions, and makes every folder
// that it made survive a power cut: the name of a new folder is an entry
// of its parent, so the parent is synced.
func MkdirAll(dir string) error {
	var made []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break // it exists, or os.MkdirAll reports the error better
		}
		made = append(made, d)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return explain(err)
	}
	for _, d := range made {
		if err := syncDir(filepath.Dir(d)); err != nil {
			return explain(err)
		}
	}
	return nil
}

// createTemp opens a new file next to path. The process id and a counter make
// the name; a leftover of an earlier process with the same id is stepped over.
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
// folder say so with EINVAL or an unsupported-operation error; their renames
// are as durable as they get.
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
		if strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), tempSuffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove leftovers: %w", err)
			}
		}
	}
	return nil
}
