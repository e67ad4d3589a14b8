//go:build unix

package cmd

import (
	"os"
	"syscall"
)

// slurmSignal is the signal that a job gets before its time limit or a preemption.
var slurmSignal os.Signal = syscall.SIGUSR2
