//go:build unix

package hub

import (
	"errors"

	"golang.org/x/sys/unix"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// lock takes the lock by which huggingface_hub, too, excludes two downloads of one blob. It ends
// with the process.
func lock(path string) (unlock func(), err error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, rundir.Explain(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, errors.New("another process is downloading it (give the same command again when it has ended)")
	}
	// A file system without locks: the hash still tells whether the content is right.
	return func() { f.Close() }, nil
}
