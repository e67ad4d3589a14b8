//go:build !unix

package regular

import "io/fs"

// This OS lacks O_NOFOLLOW and O_NONBLOCK; the checks before and after opening replace them.
const noFollow, noWait = 0, 0

func links(fs.FileInfo) uint64 { return 1 }
