//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dirsCanSync: this system can't fsync a folder.
const dirsCanSync = false

// Lock takes the folder for this process until unlock is called. If another process has it, the
// error is a [*LockedError]; Lock does not wait.
//
// This system has no flock(2), so the lock is the existence of [LockFile]. A killed process leaves
// the file behind: the error explains that it can be removed.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, &LockedError{dir, holder(path), "if that process is dead, remove " + path}
	}
	if err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
		err = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", Explain(err))
	}
	return func() error { return os.Remove(path) }, nil
}

// Held reports whether a process holds the lock of the folder; known is false
// if that can't be determined. Here the lock of a killed process counts as held.
func Held(dir string) (held, known bool) {
	_, err := os.Lstat(filepath.Join(dir, LockFile))
	return err == nil, err == nil || errors.Is(err, fs.ErrNotExist)
}
