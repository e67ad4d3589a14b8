//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

// driver is the CUDA driver (libcuda.so.1).
type driver struct{ driverFunctions }

// driverFunctions are the addresses of its functions. Those with a suffix are the
// 64-bit versions.
type driverFunctions struct {
	cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString         uintptr
	cuDeviceGetCount, cuDeviceGet, cuDeviceGetName, cuDeviceGetAttribute uintptr
	cuDevicePrimaryCtxRetain, cuCtxSetCurrent                            uintptr
	cuModuleLoadData, cuModuleUnload, cuModuleGetFunction                uintptr
	cuFuncSetAttribute, cuLaunchKernel, cuOccupancyMaxActiveClusters     uintptr
	cuStreamCreate, cuStreamSynchronize, cuStreamEndCapture              uintptr
	cuGraphInstantiateWithFlags, cuGraphLaunch                           uintptr
	cuGraphExecDestroy, cuGraphDestroy                                   uintptr
	cuMemAllocHost, cuMemFree, cuMemAlloc, cuMemGetInfo                  uintptr `suffix:"_v2"`
	cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync              uintptr `suffix:"_v2"`
	cuDevicePrimaryCtxRelease, cuStreamDestroy, cuStreamBeginCapture     uintptr `suffix:"_v2"`
	cuMemFreeHost, cuMemsetD32Async                                      uintptr
}

// Results of the driver that this package handles.
const (
	success            = 0
	errorOutOfMemory   = 2
	errorNoDevice      = 100
	errorNoBinary      = 209
	errorInvalidPTX    = 218
	errorPTXVersion    = 222
	errorInvalidImage  = 200
	errorInvalidSource = 300
)

// Attributes of devices and functions.
const (
	attributeProcessors    = 16
	attributeMajor         = 75
	attributeMinor         = 76
	attributeSharedOptin   = 97
	funcAttributeMaxShared = 8
	streamNonBlocking      = 1
	captureModeThreadLocal = 1
	oldestDriver           = 12000 // CUDA 12.0: the oldest that the libraries of CUDA 12 work with
)

func openDriver(env func(string) string) (*driver, error) {
	lib, err := cudalib.Open(env, "libcuda.so.1")
	if err != nil {
		return nil, fmt.Errorf("%w; the driver brings it: install NVIDIA's driver, or give --device cpu", err)
	}
	d := &driver{}
	if err := lib.Bind(&d.driverFunctions); err != nil {
		return nil, err
	}
	if r := call(d.cuInit, 0); r != success {
		why := d.reason(r)
		if r == errorNoDevice {
			why = "no NVIDIA GPU found, or it is hidden (CUDA_VISIBLE_DEVICES)"
		}
		return nil, fmt.Errorf("start the CUDA driver: %s; use --device cpu to run without it", why)
	}
	return d, nil
}

// version is the newest CUDA that the driver supports: 12040 for 12.4.
func (d *driver) version() int {
	v := new(int32)
	call(d.cuDriverGetVersion, uintptr(unsafe.Pointer(v)))
	return int(*v)
}

// call calls a C function of integers and pointers. An argument written as
// uintptr(unsafe.Pointer(p)) in the call itself stays alive and in place during the call.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) int {
	r, _, _ := purego.SyscallN(fn, args...)
	return int(int32(r))
}

// pointer converts an address of C, memory that the Go runtime does not manage.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// text reads a C string.
func text(a uintptr) string {
	if a == 0 {
		return ""
	}
	p := (*byte)(pointer(a))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// reason describes a result of the driver.
func (d *driver) reason(result int) string {
	name, words := new(uintptr), new(uintptr)
	call(d.cuGetErrorName, uintptr(result), uintptr(unsafe.Pointer(name)))
	call(d.cuGetErrorString, uintptr(result), uintptr(unsafe.Pointer(words)))
	if *name == 0 {
		return fmt.Sprintf("unknown result %d", result)
	}
	return fmt.Sprintf("%s (%s)", text(*words), text(*name))
}

// check turns a result into an error; format describes the attempted operation.
func (d *driver) check(result int, format string, args ...any) error {
	if result == success {
		return nil
	}
	return fmt.Errorf("%s: %s", fmt.Sprintf(format, args...), d.reason(result))
}
