//go:build withcuda && linux

package cudalib

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"grpo/internal/expect"
)

// Libraries of the driver's own CUDA come first.
func TestLibraryNames(t *testing.T) {
	for driver, want := range map[int]string{12040: "libx.so.12 libx.so.13", 13000: "libx.so.13 libx.so.12", 13020: "libx.so.13 libx.so.12"} {
		if got := strings.Join(Sonames("libx", driver), " "); got != want {
			t.Errorf("for a driver of %d: %s, want %s", driver, got, want)
		}
	}
}

// in is an environment that names a folder of libraries.
func in(dir string) func(string) string {
	return func(name string) string { return map[string]string{Env: dir}[name] }
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		expect.Error(t, err, p)
	}
}

// build makes a library in dir.
func build(t *testing.T, dir, lib, source string, more ...string) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++ here to make libraries with")
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, lib+".cpp"), []byte(source), 0o644))
	cmd := exec.Command("g++", append([]string{"-shared", "-fPIC", "-Wl,-soname," + lib, lib + ".cpp", "-o", lib}, more...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// The error names missing or broken libraries and the folders searched.
func TestMissingLibrary(t *testing.T) {
	_, err := Open(in(t.TempDir()), "libnothere.so.12", "libnothere.so.13")
	wantError(t, err, "load libnothere.so.12 or libnothere.so.13", "$"+Env, "$CUDA_HOME/lib64")
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "libbroken.so.1"), []byte("no library"), 0o644))
	_, err = Open(in(dir), "libbroken.so.1")
	wantError(t, err, "load libbroken.so.1")
}

// A library finds its dependency in the same folder, although the loader does not search there: for
// example NVRTC of CUDA 13 and its built-in functions.
func TestCompanions(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "libcublasLt.so.9", `extern "C" int answer() { return 42; }`)
	build(t, dir, "libcublas.so.9", `extern "C" int answer(); extern "C" int ask() { return answer(); }`, "-L.", "-l:libcublasLt.so.9")
	lib, err := Open(in(dir), "libcublas.so.9")
	expect.OK(t, err)
	var functions struct {
		as uintptr `suffix:"k"`
	}
	expect.OK(t, lib.Bind(&functions))
	if got, _, _ := purego.SyscallN(functions.as); got != 42 {
		t.Errorf("the library's companion answers %d, want 42", got)
	}
	wantError(t, lib.Bind(&struct{ noSuchThing uintptr }{}), "has no noSuchThing", "CUDA 12 and 13")
}
