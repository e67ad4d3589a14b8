//go:build withcuda && linux

package cudaemu

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

// Machine is a card for tests of kernels: the emulator, or a GPU if the environment
// variable GRPO_TEST_GPU is set. A method fails the test if the driver reports an
// error.
type Machine struct {
	testing.TB
	// SM, SMs and Shared are the card's compute capability (90 for 9.0),
	// multiprocessors and most shared memory of a block.
	SM, SMs, Shared int
	// Real is true for a GPU.
	Real bool

	driver, nvrtc uintptr
	context       uintptr
	memory        []Ptr
	modules       []uintptr
}

// Ptr is an address in the card's memory; elements are added by the caller.
type Ptr uint64

// At is the address n float32 or int32 elements further on.
func (p Ptr) At(n int) Ptr { return p + Ptr(4*n) }

// Open returns a machine that is closed when the test ends.
func Open(t testing.TB) *Machine {
	t.Helper()
	m := &Machine{TB: t, Real: os.Getenv("GRPO_TEST_GPU") != ""}
	if m.Real {
		m.driver = load(t, os.Getenv, "libcuda.so.1")
	} else {
		m.driver = load(t, emulator(t), "libcuda.so.1")
	}
	var version, major, minor, device int32
	m.must("cuInit", 0)
	m.must("cuDriverGetVersion", uintptr(unsafe.Pointer(&version)))
	if m.Real {
		m.nvrtc = load(t, os.Getenv, cudalib.Sonames("libnvrtc", int(version))...)
	} else {
		m.nvrtc = load(t, emulator(t), "libnvrtc.so.12")
	}
	m.must("cuDeviceGet", uintptr(unsafe.Pointer(&device)), 0)
	attribute := func(to *int32, which uintptr) {
		m.must("cuDeviceGetAttribute", uintptr(unsafe.Pointer(to)),
			which, 0)
	}
	attribute(&major, 75)
	attribute(&minor, 76)
	m.SM = int(10*major + minor)
	attribute(&major, 16)
	m.SMs = int(major)
	attribute(&major, 97)
	m.Shared = int(major)
	m.must("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&m.context)), 0)
	t.Cleanup(m.close)
	return m
}

// Set sets an environment variable of the emulator: without cgo, os.Setenv does
// not reach it.
func (m *Machine) Set(name, value string) {
	if m.Real {
		return
	}
	set(m.driver, name, value)
}

func set(driver uintptr, name, value string) {
	n, v := append([]byte(name), 0), append([]byte(value), 0)
	callIn(driver, "cudaemu_set", uintptr(unsafe.Pointer(&n[0])), uintptr(unsafe.Pointer(&v[0])))
}

// Setenv sets an environment variable of the emulator, for tests that open it
// through pkg/model/cuda, until the test ends.
func Setenv(t testing.TB, name, value string) {
	t.Helper()
	driver := load(t, emulator(t), "libcuda.so.1")
	set(driver, name, value)
	t.Cleanup(func() { set(driver, name, "") })
}

// Recover makes the emulator usable again after an error of a kernel.
func (m *Machine) Recover() {
	if !m.Real {
		m.call("cudaemu_reset")
	}
}

// emulator is an environment that names the emulator's folder.
func emulator(t testing.TB) func(string) string {
	dir := Build(t)
	return func(name string) string {
		if name == cudalib.Env {
			return dir
		}
		return ""
	}
}

func load(t testing.TB, env func(string) string, names ...string) uintptr {
	t.Helper()
	lib, err := cudalib.Open(env, names...)
	if err != nil {
		t.Fatal(err)
	}
	return lib.Handle
}

// callIn calls a function of a library. An argument that is written
// uintptr(unsafe.Pointer(p)) in the call itself stays in place meanwhile.
//
//go:uintptrescapes
func callIn(lib uintptr, name string, args ...uintptr) int {
	fn, err := purego.Dlsym(lib, name)
	if err != nil {
		panic(err)
	}
	r, _, _ := purego.SyscallN(fn, args...)
	return int(int32(r))
}

// call calls a function of the driver, with the context current in its thread.
//
//go:uintptrescapes
func (m *Machine) call(name string, args ...uintptr) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if m.context != 0 {
		callIn(m.driver, "cuCtxSetCurrent", m.context)
	}
	return callIn(m.driver, name, args...)
}

//go:uintptrescapes
func (m *Machine) must(name string, args ...uintptr) {
	m.Helper()
	if r := m.call(name, args...); r != 0 {
		m.Fatalf("%s: result %d", name, r)
	}
}

func (m *Machine) close() {
	for _, module := range m.modules {
		m.must("cuModuleUnload", module)
	}
	m.Reset()
}

// Reset frees all memory of the machine.
func (m *Machine) Reset() {
	m.Helper()
	for _, p := range m.memory {
		m.must("cuMemFree_v2", uintptr(p))
	}
	m.memory = nil
}

// Module is compiled code on the machine.
type Module struct {
	m      *Machine
	handle uintptr
}

// Compile compiles and loads a source, with options after the architecture and the
// standard.
func (m *Machine) Compile(name, source string, options ...string) *Module {
	m.Helper()
	code, log, err := compile(m.nvrtc, name, source, fmt.Sprintf("sm_%d", m.SM), options)
	if err != nil {
		m.Fatalf("%v\n%s", err, log)
	}
	mod := &Module{m: m}
	m.must("cuModuleLoadData", uintptr(unsafe.Pointer(&mod.handle)), uintptr(unsafe.Pointer(&code[0])))
	m.modules = append(m.modules, mod.handle)
	return mod
}

// compile returns machine code and the compiler's log.
func compile(lib uintptr, name, source, target string, options []string) (code []byte, log string, err error) {
	var prog uintptr
	src, file := append([]byte(source), 0), append([]byte(name), 0)
	if r := callIn(lib, "nvrtcCreateProgram", uintptr(unsafe.Pointer(&prog)), uintptr(unsafe.Pointer(&src[0])),
		uintptr(unsafe.Pointer(&file[0])), 0, 0, 0); r != 0 {
		return nil, "", fmt.Errorf("create program %s: result %d", name, r)
	}
	all := append([]string{"--gpu-architecture=" + target, "--std=c++17"}, options...)
	var texts [][]byte
	var list []unsafe.Pointer
	for _, o := range all {
		texts = append(texts, append([]byte(o), 0))
		list = append(list, unsafe.Pointer(&texts[len(texts)-1][0]))
	}
	result := callIn(lib, "nvrtcCompileProgram", prog, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
	var n uint64
	if callIn(lib, "nvrtcGetProgramLogSize", prog, uintptr(unsafe.Pointer(&n))) == 0 && n > 1 {
		text := make([]byte, n)
		callIn(lib, "nvrtcGetProgramLog", prog, uintptr(unsafe.Pointer(&text[0])))
		log = string(text[:n-1])
	}
	if result != 0 {
		return nil, log, fmt.Errorf("compile %s for %s: result %d", name, target, result)
	}
	callIn(lib, "nvrtcGetCUBINSize", prog, uintptr(unsafe.Pointer(&n)))
	code = make([]byte, n)
	callIn(lib, "nvrtcGetCUBIN", prog, uintptr(unsafe.Pointer(&code[0])))
	callIn(lib, "nvrtcDestroyProgram", uintptr(unsafe.Pointer(&prog)))
	return code, log, nil
}

// Launch starts a kernel and waits for it. Arguments are int (an int of C's),
// int64 (long long), uint32, float32, float64 or Ptr.
func (mod *Module) Launch(kernel string, grid, block [3]int, shared int, args ...any) {
	mod.m.Helper()
	if r := mod.Try(kernel, grid, block, shared, args...); r != 0 {
		mod.m.Fatalf("%s: result %d", kernel, r)
	}
}

// Try is Launch that returns the driver's result.
func (mod *Module) Try(kernel string, grid, block [3]int, shared int, args ...any) int {
	mod.m.Helper()
	if r := mod.Enqueue(kernel, grid, block, shared, args...); r != 0 {
		return r
	}
	return mod.m.call("cuCtxSynchronize")
}

// Enqueue starts a kernel without waiting and returns the driver's result.
func (mod *Module) Enqueue(kernel string, grid, block [3]int, shared int, args ...any) int {
	m := mod.m
	m.Helper()
	var fn uintptr
	name := append([]byte(kernel), 0)
	m.must("cuModuleGetFunction", uintptr(unsafe.Pointer(&fn)), mod.handle, uintptr(unsafe.Pointer(&name[0])))
	if shared > 48<<10 {
		if r := m.call("cuFuncSetAttribute", fn, 8, uintptr(shared)); r != 0 {
			return r
		}
	}
	values := make([]uint64, len(args))
	pointers := make([]unsafe.Pointer, len(args)+1)
	for i, a := range args {
		p := unsafe.Pointer(&values[i])
		pointers[i] = p
		switch v := a.(type) {
		case int:
			*(*int32)(p) = int32(v)
		case uint32:
			*(*uint32)(p) = v
		case int64:
			*(*int64)(p) = v
		case float32:
			*(*float32)(p) = v
		case float64:
			*(*float64)(p) = v
		case Ptr:
			*(*Ptr)(p) = v
		default:
			m.Fatalf("%s: argument %d is a %T", kernel, i, a)
		}
	}
	r := m.call("cuLaunchKernel", fn, uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]), uintptr(shared), 0, uintptr(unsafe.Pointer(&pointers[0])), 0)
	runtime.KeepAlive(values)
	return r
}

// Alloc returns n new bytes with all bits set (float32 and float64 NaN, int32 -1).
func (m *Machine) Alloc(n int) Ptr {
	m.Helper()
	var p Ptr
	m.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&p)), uintptr(max(n, 4)))
	m.must("cuMemsetD8_v2", uintptr(p), 0xff, uintptr(max(n, 4)))
	m.must("cuCtxSynchronize")
	m.memory = append(m.memory, p)
	return p
}

// Upload copies numbers to the card; a nil slice becomes the address 0.
func Upload[E float32 | float64 | int32](m *Machine, x []E) Ptr {
	m.Helper()
	if x == nil {
		return 0
	}
	var e E
	p := m.Alloc(len(x) * int(unsafe.Sizeof(e)))
	if len(x) > 0 {
		m.must("cuMemcpyHtoD_v2", uintptr(p), uintptr(unsafe.Pointer(&x[0])), uintptr(len(x))*unsafe.Sizeof(e))
	}
	return p
}

// Download reads n numbers.
func Download[E float32 | float64 | int32](m *Machine, p Ptr, n int) []E {
	m.Helper()
	x := make([]E, n)
	if n > 0 {
		m.must("cuMemcpyDtoH_v2", uintptr(unsafe.Pointer(&x[0])), uintptr(p), uintptr(n)*unsafe.Sizeof(x[0]))
	}
	return x
}
