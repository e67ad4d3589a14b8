//go:build !unix

package sweep

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func signalOf(*os.ProcessState) string { return "" }
