package kernel

import "os"

// path is one implementation of the kernels.
type path uint8

const (
	pathGo path = iota
	pathAVX2
	pathAVX512
	pathNEON
)

func (p path) String() string { return [...]string{"go", "avx2", "avx512", "neon"}[p] }

// active is written at init and by tests only.
var active = choosePath(os.Getenv("GRPO_KERNEL"), bestPath())

// choosePath returns the requested path, or best if the request is empty, unknown or not supported
// by the processor.
func choosePath(wish string, best path) path {
	for _, p := range pathsUpTo(best) {
		if p.String() == wish {
			return p
		}
	}
	return best
}

// pathsUpTo returns the paths of a processor by its best one.
func pathsUpTo(best path) []path {
	if best == pathNEON {
		return []path{pathGo, pathNEON}
	}
	return []path{pathGo, pathAVX2, pathAVX512}[:best+1]
}

// Name returns the version in use: "avx512", "avx2", "neon" or "go".
func Name() string { return active.String() }

// SameBits reports whether two kernels, by name, give the same bits, so that a run may continue
// under the other one. "avx2", "avx512" and "neon" do (see the package comment); "go" rounds
// differently, and an unknown name matches only itself.
func SameBits(a, b string) bool { return family(a) == family(b) }

func family(name string) string {
	if name == pathAVX512.String() || name == pathNEON.String() {
		return pathAVX2.String()
	}
	return name
}
