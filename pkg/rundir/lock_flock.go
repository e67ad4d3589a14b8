//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"grpo/internal/regular"
)

// dirsCanSync is false where fsync of a folder is no operation of the system.
const dirsCanSync = true

// Lock takes the folder for this process until unlock is called or the
// process ends, however it ends. When another holds it, the error is a
// [*LockedError]; Lock does not wait.
//
// The lock is an flock(2) on [LockFile]. unlock removes the file; a process
// that was killed leaves it, and that does no harm.
//
// Package gofrs/flock would replace only the system call: it opens the file itself,
// without the checks of [regular.Create], and offers no way to write the process id
// into it.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, LockFile)
	for {
		f, err := regular.Create(path)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", explain(err))
		}
		if err := flock(f, syscall.LOCK_EX); err != nil {
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

// Held reports whether a process holds the lock of the folder; known is false
// where that can't be found out. It changes nothing: it opens the file for
// reading and tries a shared lock, which it holds for an instant.
func Held(dir string) (held, known bool) {
	f, err := regular.Open(filepath.Join(dir, LockFile))
	if err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH)
	held = errors.Is(err, syscall.EWOULDBLOCK)
	return held, held || err == nil
}

// flock takes a lock without waiting. It tries again after a signal.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
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
	there, err := os.Lstat(path)
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
