package hugepages

import (
	"os"
	"strings"
	"testing"
)

func TestFloats(t *testing.T) {
	for _, n := range []int{0, 1, Least - 1, Least, 3*Least + 5} {
		x := Floats(n)
		if len(x) != n {
			t.Fatalf("Floats(%d) has %d numbers", n, len(x))
		}
		for i, v := range x {
			if v != 0 {
				t.Fatalf("Floats(%d)[%d] = %v, want 0", n, i, v)
			}
			x[i] = 1
		}
	}
}

// TestHugePages needs a Linux with transparent huge pages, at least on request.
func TestHugePages(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skip("this system has no transparent huge pages")
	}
	x := Floats(1 << 24)
	for i := range x {
		x[i] = 1
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(maps)) { // "VmFlags: ..., hg" marks an area where they were asked for
		if strings.HasPrefix(line, "VmFlags:") && strings.Contains(line, " hg") {
			return
		}
	}
	t.Error("no area of memory has the flag hg")
}
