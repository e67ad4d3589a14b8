package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// A run writes for hours, and what stops it is seldom its own fault: the disk is
// full, the folder was moved, a limit of the system was reached. The error
// of the system says what; a hint says how to fix it.

// hints are looked up in their order.
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

// explain adds a hint to an error of the file system, if there is one.
func explain(err error) error {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return fmt.Errorf("%w (%s)", err, h.fix)
		}
	}
	return err
}

// Explain adds a hint to an error of the file system, if there is one.
func Explain(err error) error { return explain(err) }

// explainWrite is [explain] for a write into a folder that was there when the
// run began.
func explainWrite(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (its folder is gone: was it removed or renamed in the meantime?)", err)
	}
	return explain(err)
}
