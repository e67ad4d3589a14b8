//go:build !unix

package slurm

import (
	"os"
	"syscall"
)

// Signal is SIGTERM on systems without SIGUSR2, which have no Slurm.
var Signal os.Signal = syscall.SIGTERM
