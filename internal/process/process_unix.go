//go:build unix

package process

import (
	"errors"
	"syscall"
)

// signalable reports whether there is a process or a zombie with this id, of any user.
func signalable(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
