package kernel

import "os"

// path is one implementation of the kernels.
type path uint8

const (
	pathGo path = iota
	pathAVX2
	pathAVX512
)

func (p path) String() string { return [...]string{"go", "avx2", "avx512"}[p] }

// active is written at init and by tests only.
var active = choosePath(os.Getenv("GRPO_KERNEL"), bestPath())

// choosePath returns the requested path, or best if the request is empty, unknown or not supported
// by the processor.
func choosePath(wish string, best path) path {
	for p := pathGo; p <= best; p++ {
		if p.String() == wish {
			return p
		}
	}
	return best
}

// Name returns the version in use: "avx512", "avx2" or "go".
func Name() string { return active.String() }

// SameBits reports whether two kernels, by name, give the same bits, so that a run may continue
// under the other one. "avx2" and "avx512" do (see the package comment); "go" rounds differently,
// and an unknown name matches only itself.
func SameBits(a, b string) bool { return family(a) == family(b) }

func family(name string) string {
	if name == pathAVX512.String() {
		return pathAVX2.String()
	}
	return name
}
