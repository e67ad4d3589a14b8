//go:build unix

package slurm

import (
	"os"
	"syscall"
)

// Signal is the signal that a job gets before its time limit or a preemption.
var Signal os.Signal = syscall.SIGUSR2
