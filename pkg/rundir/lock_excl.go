//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dirsCanSync is false where fsync of a folder is no operation of the system.
const dirsCanSync = false

// Lock takes the folder for this process until unlock is called. When another
// holds it, the error is a [*LockedError]; Lock does not wait.
//
// This system has no flock(2), so the lock is the existence of [LockFile], and
// a process that was killed leaves it: the error says to remove it.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, &LockedError{
			Dir: dir, Holder: holder(path),
			Hint: "if that process is dead, remove " + path,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", explain(err))
	}
	fmt.Fprintf(f, "%d\n", os.Getpid())
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() error {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}, nil
}

// Held reports whether a process holds the lock of the folder; known is false
// where that can't be found out. Here a lock that a killed process left counts
// as held, as it does for [Lock].
func Held(dir string) (held, known bool) {
	_, err := os.Lstat(filepath.Join(dir, LockFile))
	return err == nil, err == nil || errors.Is(err, fs.ErrNotExist)
}
