//go:build withcuda && linux

package cudaemu

import (
	"os"
	"testing"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

// NVRTC is NVIDIA's own compiler, for tests that the sources compile for real
// cards: it needs no GPU.
type NVRTC struct{ lib uintptr }

// OpenNVRTC loads libnvrtc from where pkg/model/cuda would. It skips the test if there is none, or
// only the emulator's.
func OpenNVRTC(t testing.TB) *NVRTC {
	t.Helper()
	for _, name := range cudalib.Sonames("libnvrtc", 13000) {
		lib, err := cudalib.Open(os.Getenv, name)
		if err != nil {
			continue
		}
		// If the emulator is already loaded, the name finds its library.
		if _, err := purego.Dlsym(lib.Handle, "cudaemuCompiler"); err != nil {
			return &NVRTC{lib.Handle}
		}
	}
	t.Skip("no libnvrtc here ($" + cudalib.Env + " may name its folder): the kernels can't be compiled for a GPU")
	return nil
}

// Compile returns the machine code for an architecture (90 for 9.0) and the
// compiler's log.
func (n *NVRTC) Compile(name, source, target string, options ...string) (code []byte, log string, err error) {
	return compile(n.lib, name, source, target, options)
}
