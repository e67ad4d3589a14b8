//go:build !unix

package sweep

import (
	"io/fs"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr   { return nil }
func signalOf(*os.ProcessState) string { return "" }
func isOwn(fs.FileInfo) bool           { return true }
