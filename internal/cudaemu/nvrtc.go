//go:build withcuda && linux

package cudaemu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ebitengine/purego"
)

// NVRTC is NVIDIA's own compiler, for tests that the sources compile for real
// cards: it needs no GPU.
type NVRTC struct{ lib uintptr }

// OpenNVRTC loads libnvrtc from the folders in GRPO_CUDA_LIBS or where the
// loader finds it, and skips the test where there is none.
func OpenNVRTC(t testing.TB) *NVRTC {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("GRPO_CUDA_LIBS")), "", "/usr/local/cuda/lib64") {
		if beside, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so.*")); dir != "" {
			for _, p := range beside { // which NVRTC looks for by name only
				_, _ = purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_LOCAL)
			}
		}
		for _, name := range []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"} {
			h, err := purego.Dlopen(filepath.Join(dir, name), purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err != nil {
				continue
			}
			// Where the emulator is loaded already, its library answers to the name.
			if _, err := purego.Dlsym(h, "cudaemuCompiler"); err != nil {
				return &NVRTC{h}
			}
		}
	}
	t.Skip("no libnvrtc here (GRPO_CUDA_LIBS may name its folder): the kernels can't be compiled for a GPU")
	return nil
}

// Compile returns the machine code for an architecture (90 for 9.0) and the
// compiler's log.
func (n *NVRTC) Compile(name, source, target string, options ...string) (code []byte, log string, err error) {
	return compile(n.lib, name, source, target, options)
}
