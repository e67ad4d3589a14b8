//go:build withcuda && linux

// Package cudaemu runs CUDA C kernels on a CPU, for tests. [Build] builds shared
// libraries with the part of the interfaces of the CUDA driver, NVRTC and cuBLAS
// that pkg/model/cuda uses, so that it runs unmodified, bindings included, on the
// host's memory. Kernels are compiled by g++ with a header that defines CUDA's
// keywords; the threads of a block are fibres.
//
// It finds errors that a GPU hides: barriers that not all threads reach, lanes of
// a warp in different operations, a block too large for its __launch_bounds__,
// more shared memory than requested, writes beyond an allocation, and reads of
// uninitialized memory, which is NaN. A read or write far beyond an allocation
// ends the process (SIGSEGV), and so does one of several numbers at an address that
// is not aligned (SIGILL), or one of device memory by the program itself. Like a
// GPU, it refuses to allocate, free, load code and wait while a stream is captured.
// Work in a stream runs at the next wait for it. The environment variable
// CUDAEMU_ORDER (forward, backward, shuffle:SEED) sets the order of the threads of
// a block between barriers: if results differ, the kernel has a race.
//
// It does not find differences between CUDA's mathematics and the C library's,
// races between blocks that run at the same time, or anything about speed.
package cudaemu

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

//go:embed src
var sources embed.FS

var build = sync.OnceValues(libraries)

// Build returns a folder with the emulator's libcuda.so.1, libnvrtc.so.12 and
// libcublas.so.12. It skips the test without g++. The folder is a temporary one
// that the next process finds again: its name is the hash of the sources.
func Build(t testing.TB) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++ here: the CUDA kernels can't be run on the CPU")
	}
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func libraries() (string, error) {
	src, err := fs.Sub(sources, "src")
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(src, "*")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(src, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d %s", name, len(text), text)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("grpo-cudaemu-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp("", "grpo-cudaemu-")
	if err != nil {
		return "", fmt.Errorf("build the CUDA emulator: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, src); err != nil {
		return "", fmt.Errorf("build the CUDA emulator: %w", err)
	}
	for _, lib := range []struct {
		source, soname string
		more           []string
	}{
		{"driver.cpp", "libcuda.so.1", []string{"-ldl", "-lpthread"}},
		{"nvrtc.cpp", "libnvrtc.so.12", []string{"-ldl"}},
		{"blas.cpp", "libcublas.so.12", []string{"-L.", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"}},
	} {
		args := append([]string{"-std=c++17", "-O2", "-fPIC", "-shared", "-Wl,-soname," + lib.soname,
			lib.source, "-o", lib.soname}, lib.more...)
		cmd := exec.Command("g++", args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the CUDA emulator's %s: %w: %s", lib.soname, err, out)
		}
	}
	// Another process may have built the same folder first.
	if err := os.Rename(work, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", fmt.Errorf("build the CUDA emulator: %w", err)
		}
	}
	return dir, nil
}

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
