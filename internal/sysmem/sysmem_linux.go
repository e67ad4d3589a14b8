package sysmem

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func available() int64 {
	read := func(name string) string {
		data, _ := os.ReadFile(name) // a missing file means no limit
		return string(data)
	}
	return least(linux(read), addressSpace(read))
}

// addressSpace is the rest of RLIMIT_AS (ulimit -v).
func addressSpace(read reader) int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil || limit.Cur >= 1<<60 {
		return unknown
	}
	pages, _, _ := strings.Cut(read("/proc/self/statm"), " ")
	used := number(pages)
	if used == unknown {
		return unknown
	}
	return max(int64(limit.Cur)-used*int64(os.Getpagesize()), 0)
}
