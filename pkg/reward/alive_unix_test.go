//go:build unix

package reward

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// alive reports whether a process exists and is not a zombie, which another parent has to read.
func alive(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(rest, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}
