//go:build !unix

package regular

import "io/fs"

// This system has no such flags; the checks before and after opening must do.
const noFollow, noWait = 0, 0

func links(fs.FileInfo) uint64 { return 1 }
