package sysmem

import "golang.org/x/sys/unix"

// available is all the memory of a Mac: macOS does not report the available part, and makes room by
// compressing and swapping.
func available() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || n >= uint64(unknown) {
		return 0
	}
	return int64(n)
}
