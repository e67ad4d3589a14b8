//go:build !unix

package reward

import (
	"os/exec"
	"syscall"
)

// ownGroup is for Unix: elsewhere a process has no group.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills a process; those that it has started see the end of their input.
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }
