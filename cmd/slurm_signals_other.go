//go:build !unix

package cmd

import (
	"os"
	"syscall"
)

// slurmSignal is SIGTERM on systems without SIGUSR2, which have no Slurm.
var slurmSignal os.Signal = syscall.SIGTERM
