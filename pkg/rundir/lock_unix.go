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

// Lock takes the folder for this process until unlock is called or the
// process ends, however it ends. When another holds it, the error is a
// [*LockedError]; Lock does not wait.
//
// The lock is an flock(2) on [LockFile]. unlock removes the file; a killed
// process leaves it, which does no harm. Package gofrs/flock would replace the
// system call only: it opens the file itself, without the checks of
// [regular.Create], and can't write the process id into it.
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
			// Between the open and the lock the former holder may have removed the
			// file; then no other process will ever open this one.
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
		// The id only improves the message to other processes: a full disk is no
		// failure here.
		if f.Truncate(0) == nil {
			fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		return func() error { return release(f, path) }, nil
	}
}

// Held reports whether a process holds the lock of the folder; known is false
// if that can't be determined. It changes nothing: it opens the file for reading
// and takes a shared lock for an instant.
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

// release removes the file before it gives up the lock, because after that the
// file may be the next holder's. So it may be if the folder was replaced.
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
