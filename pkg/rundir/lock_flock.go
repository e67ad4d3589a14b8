//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dirsCanSync is false where fsync of a folder is no operation of the system.
const dirsCanSync = true

// Lock takes the folder for this process until unlock is called or the
// process ends, however it ends. When another holds it, the error is a
// [*LockedError]; Lock does not wait.
//
// The lock is an flock(2) on [LockFile]. unlock removes the file; a process
// that was killed leaves it, and that does no harm.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, LockFile)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", explain(err))
		}
		if err := flock(f); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, &LockedError{Dir: dir, Holder: holder(path)}
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Between the open and the lock the former holder may have removed the
		// file: then this lock is on a file that nobody else will ever open.
		same, err := stillAt(f, path)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		if !same {
			f.Close()
			continue
		}
		// The id only makes the other process's message better, so a full disk
		// need not fail here.
		if err := f.Truncate(0); err == nil {
			fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		return func() error { return release(f, path) }, nil
	}
}

// flock takes an exclusive lock without waiting, again after a signal.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func stillAt(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, there), err
}

// release removes the file before it gives up the lock: the other way round it
// could remove the next holder's. So could it where the folder was replaced.
func release(f *os.File, path string) error {
	same, err := stillAt(f, path)
	if same && err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}
