//go:build unix

package reward

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a process into a group of its own: Ctrl-C in the terminal does not reach it, and it
// can be killed together with the processes that it starts.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a process and those that it has started. Processes that have ended are no error.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
