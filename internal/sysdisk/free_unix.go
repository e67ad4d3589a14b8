//go:build linux || darwin

package sysdisk

import (
	"math"

	"golang.org/x/sys/unix"
)

func free(path string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Blocks == 0 { // file systems without a size
		return 0, false
	}
	bytes := float64(st.Bavail) * float64(st.Bsize)
	return int64(min(bytes, math.MaxInt64/2)), true
}
