//go:build withcuda && linux

package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"grpo/internal/cudalib"
)

// Pointer is an address on a device.
type Pointer uintptr

// At is the address n elements of 4 bytes after the start of the memory.
func (m *Mem) At(n int) Pointer { return Pointer(m.Uintptr()) + Pointer(4*n) }

// Add is the address n elements of 4 bytes after p.
func (p Pointer) Add(n int) Pointer { return p + Pointer(4*n) }

// AddBF16 is the address n elements of 2 bytes after p.
func (p Pointer) AddBF16(n int) Pointer { return p + Pointer(2*n) }

// Arg is an argument of a kernel in the low bytes of a word.
type Arg uint64

// P, I, L, U, F and D make arguments of a pointer, int, long long, unsigned int,
// float and double.
func P(p Pointer) Arg { return Arg(p) }
func I(v int) Arg     { return Arg(uint32(int32(v))) }
func L(v int) Arg     { return Arg(v) }
func U(v uint32) Arg  { return Arg(v) }
func F(v float32) Arg { return Arg(math.Float32bits(v)) }
func D(v float64) Arg { return Arg(math.Float64bits(v)) }

// maxKernelArgs bounds the arguments of a kernel.
const maxKernelArgs = 48

// launchArgs are the arguments of a launch and the pointers to them that the driver reads during
// the call.
type launchArgs struct {
	words [maxKernelArgs]uint64
	at    [maxKernelArgs]unsafe.Pointer
}

// Kernel is a function on the device.
type Kernel struct {
	d      *Device
	name   string
	fn     uintptr
	shared int // its limit of dynamic shared memory, if it was raised
}

// Grid is a launch configuration: blocks, threads of a block, and bytes of dynamic
// shared memory. Zero dimensions count as 1.
type Grid struct {
	X, Y, Z            int // blocks
	ThreadsX, ThreadsY int
	Shared             int
}

// Load compiles a source, or reads it from the cache, and returns its kernels by name. A second
// Load of the same source returns the same kernels. Call it and the kernels within [Device.Do].
func (d *Device) Load(name, source string, options, kernels []string) (map[string]*Kernel, error) {
	k := key(append([]string{source}, options...)...)
	if known := d.loaded[k]; known != nil {
		return known, nil
	}
	code, err := d.code(name, source, options)
	if err != nil {
		return nil, err
	}
	module, err := d.module(name, code)
	if err != nil {
		return nil, err
	}
	out := map[string]*Kernel{}
	for _, kernel := range kernels {
		fn, symbol := new(uintptr), cstring(kernel)
		if err := d.drv.check(call(d.drv.cuModuleGetFunction, uintptr(unsafe.Pointer(fn)), module,
			uintptr(unsafe.Pointer(&symbol[0]))), "find the kernel %s in %s", kernel, name); err != nil {
			return nil, err
		}
		out[kernel] = &Kernel{d: d, name: kernel, fn: *fn}
	}
	d.loaded[k] = out
	return out, nil
}

// code returns the machine code of a source for this card.
func (d *Device) code(name, source string, options []string) ([]byte, error) {
	known, err := d.rtc.architectures()
	if err != nil {
		return nil, err
	}
	target, cubin, err := targetFor(d.arch, known)
	if err != nil {
		return nil, fmt.Errorf("compile %s for %s: %w", name, d.name, err)
	}
	parts := append([]string{source, target, d.rtc.version()}, options...)
	k := key(parts...)
	if code := d.cache.get(k); code != nil {
		return code, nil
	}
	code, err := d.rtc.compile(name, source, target, cubin, options)
	if err != nil {
		return nil, err
	}
	d.cache.put(k, code)
	return code, nil
}

func (d *Device) module(name string, code []byte) (uintptr, error) {
	m := new(uintptr)
	image := append(code[:len(code):len(code)], 0) // PTX must be zero-terminated
	r := call(d.drv.cuModuleLoadData, uintptr(unsafe.Pointer(m)), uintptr(unsafe.Pointer(&image[0])))
	switch r {
	case success:
		d.modules = append(d.modules, *m)
		return *m, nil
	case errorNoBinary, errorInvalidPTX, errorPTXVersion, errorInvalidImage, errorInvalidSource:
		v := d.drv.version()
		return 0, fmt.Errorf("load %s on %s: %s: the driver supports CUDA %d.%d, the kernels were compiled by NVRTC %s: "+
			"update NVIDIA's driver, or point $%s at the libraries of an older CUDA",
			name, d.name, d.drv.reason(r), v/1000, v%1000/10, d.rtc.version(), cudalib.Env)
	}
	return 0, d.drv.check(r, "load %s on %s", name, d.name)
}

// allow raises the kernel's limit of dynamic shared memory if it needs more than
// the default of 48 KiB.
func (k *Kernel) allow(shared int) error {
	if shared <= 48<<10 || shared <= k.shared {
		return nil
	}
	err := k.d.check(call(k.d.drv.cuFuncSetAttribute, k.fn, funcAttributeMaxShared, uintptr(shared)),
		"raise the limit of shared memory of the kernel %s to %d bytes", k.name, shared)
	if err == nil {
		k.shared = shared
	}
	return err
}

// launchConfig is the driver's CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  uintptr
	count       uint32
}

// Clusters is the number of clusters of blocks that run at once in such a launch;
// the cluster's size is the kernel's. 0: it can't run, as on a MIG partition
// whose multiprocessors are in different groups. An error here is not a failure
// of the device.
func (k *Kernel) Clusters(g Grid) (int, error) {
	d := k.d
	if err := k.allow(g.Shared); err != nil {
		return 0, err
	}
	dim := func(n int) uint32 { return uint32(max(1, n)) }
	c := &launchConfig{
		grid: [3]uint32{dim(g.X), dim(g.Y), dim(g.Z)}, block: [3]uint32{dim(g.ThreadsX), dim(g.ThreadsY), 1},
		shared: uint32(g.Shared), stream: d.stream,
	}
	n := new(int32)
	err := d.drv.check(call(d.drv.cuOccupancyMaxActiveClusters, uintptr(unsafe.Pointer(n)), k.fn,
		uintptr(unsafe.Pointer(c))), "ask %s how many clusters of %s it runs at once", d.name, k.name)
	return int(*n), err
}

// Launch runs the kernel.
func (k *Kernel) Launch(g Grid, args ...Arg) error {
	d := k.d
	if d.failed != nil {
		return d.failed
	}
	if len(args) > maxKernelArgs {
		return d.Fail(fmt.Errorf("launch %s: %d arguments are more than %d", k.name, len(args), maxKernelArgs))
	}
	if err := k.allow(g.Shared); err != nil {
		return err
	}
	a := d.args
	for i, v := range args {
		a.words[i] = uint64(v)
		a.at[i] = unsafe.Pointer(&a.words[i])
	}
	dim := func(n int) uintptr { return uintptr(max(1, n)) }
	params := uintptr(unsafe.Pointer(&a.at[0])) // a is the device's, on the heap
	r := call(d.drv.cuLaunchKernel, k.fn, dim(g.X), dim(g.Y), dim(g.Z), dim(g.ThreadsX), dim(g.ThreadsY), 1,
		uintptr(g.Shared), d.stream, params, 0)
	if r == success {
		return nil
	}
	return d.check(r, "launch %s with %d blocks of %d threads and %d bytes of shared memory", k.name,
		dim(g.X)*dim(g.Y)*dim(g.Z), dim(g.ThreadsX)*dim(g.ThreadsY), g.Shared)
}

// Graph is recorded work that runs in one call: faster if kernels take less time than their
// launches.
type Graph struct {
	d    *Device
	exec uintptr
}

// Record records the work that f queues, without running it. f must not wait or allocate; each run
// uses the same memory.
func (d *Device) Record(f func() error) (*Graph, error) {
	if err := d.check(call(d.drv.cuStreamBeginCapture, d.stream, captureModeThreadLocal),
		"begin to record a graph"); err != nil {
		return nil, err
	}
	d.capturing = true
	err := f()
	d.capturing = false
	graph := new(uintptr)
	r := call(d.drv.cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(graph)))
	defer func() {
		if *graph != 0 {
			call(d.drv.cuGraphDestroy, *graph)
		}
	}()
	if err == nil {
		err = d.check(r, "record a graph")
	}
	if err != nil {
		return nil, err
	}
	exec := new(uintptr)
	if err := d.check(call(d.drv.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(exec)), *graph, 0),
		"prepare a recorded graph"); err != nil {
		return nil, err
	}
	return &Graph{d, *exec}, nil
}

// Launch runs the recorded work.
func (g *Graph) Launch() error {
	return g.d.check(call(g.d.drv.cuGraphLaunch, g.exec, g.d.stream), "run a recorded graph")
}

// Close frees the graph, which must not be running. A nil graph is allowed.
func (g *Graph) Close() {
	if g != nil && g.exec != 0 {
		call(g.d.drv.cuGraphExecDestroy, g.exec)
		g.exec = 0
	}
}
