//go:build unix

package process

import (
	"errors"
	"os/exec"
	"syscall"
)

// OwnGroup are the attributes of a process in a group of its own: Ctrl-C in the terminal does not reach
// it, and it can be killed together with the processes that it starts.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalable reports whether there is a process or a zombie with this id, of any user.
func signalable(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// killGroup kills a process of [OwnGroup] and those that it has started, unless they have left the
// group. Processes that have ended are no error.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
