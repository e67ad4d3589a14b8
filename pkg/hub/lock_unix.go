//go:build unix

package hub

import (
	"errors"

	"golang.org/x/sys/unix"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// tryLock takes the lock by which huggingface_hub, too, excludes two downloads of one blob; unlock is
// nil if another process has it.
func tryLock(path string) (unlock func(), err error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, rundir.Explain(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, f.Close()
	}
	// A file system without locks: the hash still tells whether the content is right.
	return func() { f.Close() }, nil
}
