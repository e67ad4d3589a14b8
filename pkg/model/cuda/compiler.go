//go:build withcuda && linux

package cuda

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

// compiler is NVRTC, which compiles CUDA C.
type compiler struct {
	compilerFunctions
	lib          *cudalib.Library
	major, minor int
}

// compilerFunctions are the addresses of its functions.
type compilerFunctions struct {
	nvrtcVersion, nvrtcGetErrorString                              uintptr
	nvrtcGetNumSupportedArchs, nvrtcGetSupportedArchs              uintptr
	nvrtcCreateProgram, nvrtcDestroyProgram, nvrtcCompileProgram   uintptr
	nvrtcGetProgramLogSize, nvrtcGetProgramLog                     uintptr
	nvrtcGetCUBINSize, nvrtcGetCUBIN, nvrtcGetPTXSize, nvrtcGetPTX uintptr
}

func openCompiler(env func(string) string, driverVersion int) (*compiler, error) {
	lib, err := cudalib.Open(env, cudalib.Sonames("libnvrtc", driverVersion)...)
	if err != nil {
		return nil, fmt.Errorf("%w; it is NVIDIA's run-time compiler: install the CUDA toolkit or the package "+
			"nvidia-cuda-nvrtc, and point $%s at its folder", err, cudalib.Env)
	}
	c := &compiler{lib: lib}
	if err := lib.Bind(&c.compilerFunctions); err != nil {
		return nil, err
	}
	version := new([2]int32)
	if r := call(c.nvrtcVersion, uintptr(unsafe.Pointer(&version[0])),
		uintptr(unsafe.Pointer(&version[1]))); r != success {
		return nil, fmt.Errorf("ask %s for its version: %s", lib.Path, c.reason(r))
	}
	c.major, c.minor = int(version[0]), int(version[1])
	return c, nil
}

func (c *compiler) version() string { return fmt.Sprintf("%d.%d", c.major, c.minor) }

func (c *compiler) reason(result int) string {
	p, _, _ := purego.SyscallN(c.nvrtcGetErrorString, uintptr(result))
	return text(p)
}

// architectures lists the compute capabilities that NVRTC supports: 90 for 9.0.
func (c *compiler) architectures() ([]int, error) {
	n := new(int32)
	if r := call(c.nvrtcGetNumSupportedArchs, uintptr(unsafe.Pointer(n))); r != success {
		return nil, fmt.Errorf("ask %s for its architectures: %s", c.lib.Path, c.reason(r))
	}
	list := make([]int32, max(1, *n))
	if r := call(c.nvrtcGetSupportedArchs, uintptr(unsafe.Pointer(&list[0]))); r != success {
		return nil, fmt.Errorf("ask %s for its architectures: %s", c.lib.Path, c.reason(r))
	}
	out := make([]int, 0, len(list))
	for _, a := range list[:*n] {
		out = append(out, int(a))
	}
	slices.Sort(out)
	return out, nil
}

// targetFor names the target for a card of compute capability arch: machine code if NVRTC supports
// the card, and otherwise PTX of the newest architecture it supports, which the driver translates.
func targetFor(arch int, known []int) (name string, cubin bool, err error) {
	if slices.Contains(known, arch) {
		return fmt.Sprintf("sm_%d", arch), true, nil
	}
	best := 0
	for _, a := range known {
		if a < arch {
			best = max(best, a)
		}
	}
	if best == 0 {
		return "", false, fmt.Errorf("the card's compute capability is %d.%d, the oldest that the compiler supports is "+
			"%d.%d: install an older CUDA (12) or give --device cpu",
			arch/10, arch%10, known[0]/10, known[0]%10)
	}
	return fmt.Sprintf("compute_%d", best), false, nil
}

// compile returns the machine code or PTX of a source. An error has the first lines of the
// compiler's log.
func (c *compiler) compile(name, source, target string, cubin bool, options []string) ([]byte, error) {
	prog := new(uintptr)
	src, file := cstring(source), cstring(name)
	if r := call(c.nvrtcCreateProgram, uintptr(unsafe.Pointer(prog)), uintptr(unsafe.Pointer(&src[0])),
		uintptr(unsafe.Pointer(&file[0])), 0, 0, 0); r != success {
		return nil, fmt.Errorf("compile %s: %s", name, c.reason(r))
	}
	defer func() { call(c.nvrtcDestroyProgram, uintptr(unsafe.Pointer(prog))) }()
	all := append([]string{"--gpu-architecture=" + target}, options...)
	texts, pointers := make([][]byte, len(all)), make([]unsafe.Pointer, len(all))
	for i, o := range all {
		texts[i] = cstring(o)
		pointers[i] = unsafe.Pointer(&texts[i][0])
	}
	if r := call(c.nvrtcCompileProgram, *prog, uintptr(len(all)),
		uintptr(unsafe.Pointer(&pointers[0]))); r != success {
		return nil, fmt.Errorf("compile %s for %s with NVRTC %s: %s: %s", name, target, c.version(),
			c.reason(r), firstLines(c.log(*prog), 6))
	}
	size, get := c.nvrtcGetPTXSize, c.nvrtcGetPTX
	if cubin {
		size, get = c.nvrtcGetCUBINSize, c.nvrtcGetCUBIN
	}
	n := new(uint64)
	if r := call(size, *prog, uintptr(unsafe.Pointer(n))); r != success || *n == 0 {
		return nil, fmt.Errorf("compile %s for %s: NVRTC made no code: %s", name, target, c.reason(r))
	}
	code := make([]byte, *n)
	if r := call(get, *prog, uintptr(unsafe.Pointer(&code[0]))); r != success {
		return nil, fmt.Errorf("compile %s for %s: %s", name, target, c.reason(r))
	}
	return code, nil
}

func (c *compiler) log(prog uintptr) string {
	n := new(uint64)
	if r := call(c.nvrtcGetProgramLogSize, prog, uintptr(unsafe.Pointer(n))); r != success || *n == 0 {
		return "no log"
	}
	b := make([]byte, *n)
	if r := call(c.nvrtcGetProgramLog, prog, uintptr(unsafe.Pointer(&b[0]))); r != success {
		return "no log"
	}
	return strings.TrimRight(string(b), "\x00\n ")
}

// firstLines keeps an error on one line: the first n lines, joined.
func firstLines(s string, n int) string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(out) == n {
			out = append(out, "...")
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, " | ")
}

func cstring(s string) []byte { return append([]byte(s), 0) }
