package cores

import "golang.org/x/sys/unix"

// fast counts the cores of level 0, the fastest. Before macOS 12 there are no levels.
func fast() int {
	n, err := unix.SysctlUint32("hw.perflevel0.logicalcpu")
	if err != nil || n > 1<<16 {
		return 0
	}
	return int(n)
}
