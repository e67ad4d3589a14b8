package sysdisk

import (
	"path/filepath"
	"runtime"
	"testing"
)

// A folder that does not exist yet is on the file system of the nearest that does.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	here, ok := Free(dir)
	below, ok2 := Free(filepath.Join(dir, "a", "b"))
	if ok != ok2 || ok != (runtime.GOOS == "linux" || runtime.GOOS == "darwin") {
		t.Fatalf("known %v and %v", ok, ok2)
	}
	if ok && (here <= 0 || below < here/2 || below > 2*here) {
		t.Errorf("%d bytes here, %d below", here, below)
	}
}

// A file system without a size has no limit.
func TestFreeUnknown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	if n, ok := Free("/proc"); ok {
		t.Errorf("%d bytes", n)
	}
}
