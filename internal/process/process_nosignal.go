//go:build !unix

package process

import "syscall"

// OwnGroup is for Unix: elsewhere a process has no group.
func OwnGroup() *syscall.SysProcAttr { return nil }

func signalable(int) bool { return true }
