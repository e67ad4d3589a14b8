//go:build withcuda && linux

// Package cudalib finds and loads the shared libraries of CUDA at run time.
package cudalib

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/ebitengine/purego"
)

// Env names the environment variable with folders (separated by colons) that are searched for the
// libraries first.
const Env = "GRPO_CUDA_LIBS"

// Library is a loaded shared library. It is never unloaded: the driver has its own threads.
type Library struct {
	Name   string // as it was asked for, e.g. libnvrtc.so.12
	Path   string // as it was found
	Handle uintptr
}

// folders lists where a library may be: the folders in the environment, to be searched before the
// loader's, and the usual folders of a toolkit and a driver, after them.
func folders(env func(string) string) (first, last []string) {
	first = filepath.SplitList(env(Env))
	for _, home := range []string{env("CUDA_HOME"), env("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			last = append(last, filepath.Join(home, "lib64"), filepath.Join(home, "targets", target(), "lib"))
		}
	}
	// Clusters and containers have the host's driver here.
	return first, append(last, "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
}

// Open loads the first library of names that loads: each name in the folders of the
// environment (env reads a variable), then by the loader, then in the usual
// folders. The error lists the places and the loader's messages.
func Open(env func(string) string, names ...string) (*Library, error) {
	first, last := folders(env)
	var tried []string
	for _, name := range names {
		var paths []string
		for _, f := range first {
			paths = append(paths, filepath.Join(f, name))
		}
		paths = append(paths, name)
		for _, f := range last {
			paths = append(paths, filepath.Join(f, name))
		}
		for _, path := range paths {
			if strings.Contains(path, "/") {
				if _, err := os.Stat(path); err != nil {
					continue
				}
			}
			loadCompanions(path, name)
			handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err == nil {
				return &Library{name, path, handle}, nil
			}
			tried = append(tried, err.Error())
		}
	}
	return nil, fmt.Errorf("load %s: not found by the loader, in $%s, $CUDA_HOME/lib64, $CUDA_PATH/lib64, "+
		"/usr/local/cuda/lib64 or /usr/local/nvidia/lib64 (%s)",
		strings.Join(names, " or "), Env, strings.Join(tried, "; "))
}

// companions are libraries that another one loads by name, as patterns of files in
// the same folder.
var companions = []struct{ library, pattern string }{
	{"libnvrtc.so.", "libnvrtc-builtins.so.*"},
	{"libcublas.so.", "libcublasLt.so.*"},
}

// loadCompanions loads the libraries that the one at path will load by name, from the same folder:
// not all NVIDIA packages configure the loader for that, and the loader finds a loaded library by
// name. Errors are left to the library itself.
func loadCompanions(path, name string) {
	if !strings.Contains(path, "/") {
		return // the loader found it, and finds the others
	}
	for _, c := range companions {
		if !strings.HasPrefix(name, c.library) {
			continue
		}
		near, _ := filepath.Glob(filepath.Join(filepath.Dir(path), c.pattern)) // the patterns are good
		for _, p := range near {
			_, _ = purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_LOCAL)
		}
	}
}

// Bind looks up a function for each field of a struct of uintptrs (functions points
// to it) and stores its address. Its name is the field's with the field's tag
// "suffix".
func (l *Library) Bind(functions any) error {
	v := reflect.ValueOf(functions).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Name + field.Tag.Get("suffix")
		address, err := purego.Dlsym(l.Handle, name)
		if err != nil {
			return fmt.Errorf("%s has no %s: its version is not supported (CUDA 12 and 13 are)", l.Path, name)
		}
		*(*uintptr)(v.Field(i).Addr().UnsafePointer()) = address
	}
	return nil
}

// Sonames lists the names of a library in the supported versions of CUDA, that of
// the driver first (13000 for 13.0): an older driver does not load the code of a
// newer toolkit.
func Sonames(name string, driver int) []string {
	majors := []string{"12", "13"}
	if driver >= 13000 {
		majors = []string{"13", "12"}
	}
	var out []string
	for _, m := range majors {
		out = append(out, name+".so."+m)
	}
	return out
}
