//go:build !unix

package process

import (
	"os/exec"
	"syscall"
)

// OwnGroup is for Unix: elsewhere a process has no group.
func OwnGroup() *syscall.SysProcAttr { return nil }

func signalable(int) bool { return true }

// killGroup kills a process; those that it has started see the end of their input.
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }
