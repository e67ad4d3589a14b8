// Package sysdisk reports how much a file system can still hold. It never fails: an unknown amount
// is no limit.
package sysdisk

import (
	"os"
	"path/filepath"
)

// Free returns the bytes that this user may still write below path, which need not exist yet; ok is
// false if that is unknown.
func Free(path string) (bytes int64, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, false
	}
	for {
		if _, err := os.Stat(path); err == nil {
			return free(path)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return 0, false
		}
		path = parent
	}
}
