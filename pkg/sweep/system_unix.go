//go:build unix

package sweep

import (
	"io/fs"
	"os"
	"syscall"
)

// signalOf names the signal that ended a process; empty if it ended by itself.
func signalOf(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal().String()
	}
	return ""
}

// isOwn says whether a file belongs to the user of this process.
func isOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(s.Uid) == os.Geteuid()
}
