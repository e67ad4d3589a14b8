//go:build !unix

package sweep

import (
	"io/fs"
	"os"
)

func signalOf(*os.ProcessState) string { return "" }
func isOwn(fs.FileInfo) bool           { return true }
