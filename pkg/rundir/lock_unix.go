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

// dirsCanSync: this system can fsync a folder.
const dirsCanSync = true

// Lock takes the folder for this process until unlock is called or the process ends in any way. If
// another process has it, the error is a [*LockedError]; Lock does not wait.
//
// The lock is an flock(2) on [LockFile]. unlock removes the file; one left by a killed process is
// harmless. Package gofrs/flock would only replace the system call: it opens the file itself,
// without the checks of [regular.Create], and can't write the process id.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, LockFile)
	for {
		f, err := regular.Create(path)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", Explain(err))
		}
		err = flock(f, syscall.LOCK_EX)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, &LockedError{Dir: dir, Holder: holder(path)}
		}
		var same bool
		if err == nil {
			// Between open and lock the previous holder may have removed the file; then no other
			// process will ever open this one.
			same, err = stillAt(f, path)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !same {
			f.Close()
			continue
		}
		// The id only improves a message: a full disk is not a failure here.
		if f.Truncate(0) == nil {
			fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		return func() error { return release(f, path) }, nil
	}
}

// Held reports whether a process holds the lock of the folder; known is false if that can't be
// determined. It changes nothing: it opens the file for reading and briefly takes a shared lock.
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

// release removes the file before unlocking, because afterwards it may be the next holder's. It
// does not remove the file of a folder that was replaced.
func release(f *os.File, path string) error {
	same, err := stillAt(f, path)
	if same {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}
