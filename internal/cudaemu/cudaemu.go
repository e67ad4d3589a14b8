//go:build withcuda && linux

// Package cudaemu runs CUDA C kernels on a CPU, for tests. [Build] makes shared
// libraries that speak the part of the CUDA driver's, NVRTC's and cuBLAS's
// interfaces that pkg/model/cuda uses, so that it runs unmodified, bindings
// included, on a card made of the host's memory. "Compiling a kernel" means g++
// behind a header that defines CUDA's words; the threads of a block are fibres.
//
// It finds what a GPU hides: threads that wait for others that never come,
// lanes of a warp in different operations, a block too large for its
// __launch_bounds__, shared memory above what was asked for, writes beyond an
// allocation, and reads of what was never written, since fresh memory is NaN.
// A read or write far beyond an allocation ends the process (SIGSEGV).
// Work in a stream runs when somebody waits for it, not before. The environment
// variable CUDAEMU_ORDER (forward, backward, shuffle:SEED) orders the threads of
// a block between two meetings: where the results differ, the kernel has a race.
//
// What it can't find: differences of CUDA's mathematics from the C library's,
// races between blocks of one launch that depend on their being under way at
// once, and anything about speed.
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
)

//go:embed src
var sources embed.FS

var build = sync.OnceValues(libraries)

// Build returns a folder that holds libcuda.so.1, libnvrtc.so.12 and
// libcublas.so.12 of the emulator. It skips the test where there is no g++. The
// folder is kept for the next process: it lies among the temporary files and is
// named by what it was made of, as the kernels compiled in it are.
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
	sum := sha256.New()
	err := fs.WalkDir(sources, "src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		fmt.Fprintf(sum, "%s %d ", path, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		return "", err
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
	entries, err := fs.ReadDir(sources, "src")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := sources.ReadFile("src/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(work, e.Name()), text, 0o644)
		}
		if err != nil {
			return "", fmt.Errorf("build the CUDA emulator: %w", err)
		}
	}
	for _, lib := range []struct {
		source, soname string
		more           []string
	}{
		{"driver.cpp", "libcuda.so.1", []string{"-ldl", "-lpthread"}},
		{"nvrtc.cpp", "libnvrtc.so.12", []string{"-ldl"}},
		{"blas.cpp", "libcublas.so.12", []string{"-L.", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"}},
	} {
		args := append([]string{"-std=c++17", "-O2", "-fPIC", "-shared", "-Wl,-soname," + lib.soname, lib.source, "-o", lib.soname}, lib.more...)
		cmd := exec.Command("g++", args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the CUDA emulator's %s: %w: %s", lib.soname, err, out)
		}
	}
	// Another process may have been faster: then its folder is as good.
	if err := os.Rename(work, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", fmt.Errorf("build the CUDA emulator: %w", err)
		}
	}
	return dir, nil
}
