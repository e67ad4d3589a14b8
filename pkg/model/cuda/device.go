//go:build withcuda && linux

package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// Options select and configure a device. The zero value is the first GPU in float32, with the
// process's environment.
type Options struct {
	Ordinal   int       // number of the GPU among those visible (CUDA_VISIBLE_DEVICES)
	Precision Precision // of matmuls; empty is Float32
	// Getenv reads an environment variable; nil is os.Getenv.
	Getenv func(string) string
}

// Device is an open GPU: a context, a stream, a pool of memory and the kernels
// that have been loaded. It serves one caller at a time.
type Device struct {
	drv  *driver
	rtc  *compiler
	blas *blas

	id        int32
	name      string
	arch      int // compute capability, 90 for 9.0
	sms       int
	shared    int // bytes of shared memory that a block can have
	precision Precision

	ctx, stream uintptr
	failed      error
	pool        pool
	cache       cache
	modules     []uintptr
	loaded      map[string]map[string]*Kernel // by what they were compiled from
	args        *launchArgs
	scalars     *[2]float32 // alpha and beta of matmuls
	capturing   bool
	stage       []byte // page-locked: see UploadAt
	staged      int    // bytes of it that copies may still read
}

// Open opens a GPU. Nothing is compiled yet: see [Device.Load].
//
// Errors, each in one line: a missing library, no GPU, a driver older than CUDA 12, a GPU that the
// compiler does not support.
func Open(o Options) (*Device, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Precision == "" {
		o.Precision = Float32
	}
	d := &Device{precision: o.Precision, cache: openCache(o.Getenv), loaded: map[string]map[string]*Kernel{},
		args: &launchArgs{}, scalars: new([2]float32)}
	var err error
	if d.drv, err = openDriver(o.Getenv); err != nil {
		return nil, err
	}
	version := d.drv.version()
	if version < oldestDriver {
		return nil, fmt.Errorf("open the GPU: the driver is of CUDA %d.%d, at least 12.0 is needed: update NVIDIA's "+
			"driver (525 or newer) or give --device cpu",
			version/1000, version%1000/10)
	}
	if d.rtc, err = openCompiler(o.Getenv, version); err != nil {
		return nil, err
	}
	if d.blas, err = openBLAS(o.Getenv, version); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.describe(o.Ordinal); err != nil {
		return nil, err
	}
	if err := d.start(); err != nil {
		d.shut()
		return nil, err
	}
	return d, nil
}

// describe picks the GPU and reads its properties.
func (d *Device) describe(ordinal int) error {
	n, id, name := new(int32), new(int32), make([]byte, 256)
	if err := d.drv.check(call(d.drv.cuDeviceGetCount, uintptr(unsafe.Pointer(n))), "count the GPUs"); err != nil {
		return err
	}
	if ordinal < 0 || ordinal >= int(*n) {
		return fmt.Errorf("open GPU %d: there are %d (numbered from 0)", ordinal, *n)
	}
	if err := d.drv.check(call(d.drv.cuDeviceGet, uintptr(unsafe.Pointer(id)), uintptr(ordinal)), "open GPU %d",
		ordinal); err != nil {
		return err
	}
	d.id = *id
	if err := d.drv.check(call(d.drv.cuDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)-1),
		uintptr(d.id)), "read the GPU's name"); err != nil {
		return err
	}
	d.name = text(uintptr(unsafe.Pointer(&name[0])))
	var major, minor int
	for _, a := range []struct {
		attribute int
		to        *int
	}{{attributeMajor, &major}, {attributeMinor, &minor}, {attributeProcessors, &d.sms}, {attributeSharedOptin,
		&d.shared}} {
		v := new(int32)
		if err := d.drv.check(call(d.drv.cuDeviceGetAttribute, uintptr(unsafe.Pointer(v)), uintptr(a.attribute),
			uintptr(d.id)), "read attribute %d of %s", a.attribute, d.name); err != nil {
			return err
		}
		*a.to = int(*v)
	}
	d.arch = 10*major + minor
	return nil
}

// stageSize is that of Device.stage.
const stageSize = 4 << 20

// start creates the context, the stream and the handle of cuBLAS.
func (d *Device) start() error {
	ctx, stream := new(uintptr), new(uintptr)
	if err := d.drv.check(call(d.drv.cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(ctx)), uintptr(d.id)),
		"make a context on %s", d.name); err != nil {
		return err
	}
	d.ctx = *ctx
	if err := d.drv.check(call(d.drv.cuCtxSetCurrent, d.ctx), "take the context of %s", d.name); err != nil {
		return err
	}
	if err := d.drv.check(call(d.drv.cuStreamCreate, uintptr(unsafe.Pointer(stream)), streamNonBlocking),
		"make a stream on %s", d.name); err != nil {
		return err
	}
	d.stream = *stream
	d.pool.init(d)
	var err error
	if d.stage, err = Pinned[byte](d, stageSize); err != nil {
		return err
	}
	workspace, err := d.Alloc(blasWorkspace, "the workspace of matmuls")
	if err != nil {
		return err
	}
	return d.blas.start(d.stream, workspace, d.precision)
}

// Name is the card's name, e.g. "NVIDIA H200".
func (d *Device) Name() string { return d.name }

// String describes card, precision and libraries in one line.
func (d *Device) String() string {
	v := d.drv.version()
	return fmt.Sprintf("%s (compute capability %d.%d, %s, driver of CUDA %d.%d, NVRTC %s)", d.name, d.arch/10,
		d.arch%10, d.precision, v/1000, v%1000/10, d.rtc.version())
}

// Precision is the precision of matmuls.
func (d *Device) Precision() Precision { return d.precision }

// Capability is the compute capability, 90 for 9.0; Processors the number of
// multiprocessors; SharedLimit the bytes of shared memory that a block can have.
func (d *Device) Capability() int  { return d.arch }
func (d *Device) Processors() int  { return d.sms }
func (d *Device) SharedLimit() int { return d.shared }

// Do runs f with the goroutine locked to its thread and the device's context
// current there. It returns the error of f or the device's first failure. Calls
// may be nested.
func (d *Device) Do(f func() error) error {
	if d.failed != nil {
		return d.failed
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check(call(d.drv.cuCtxSetCurrent, d.ctx), "take the context of %s", d.name); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return d.failed
}

// Err is the first failure of the device, or nil.
func (d *Device) Err() error { return d.failed }

// Fail records the first failure of the device: later calls do nothing and return it.
func (d *Device) Fail(err error) error {
	if d.failed == nil {
		d.failed = err
	}
	return d.failed
}

// check records and returns the first failure of the device.
func (d *Device) check(result int, format string, args ...any) error {
	return d.Fail(d.drv.check(result, format, args...))
}

// Sync waits until the device has finished the queued work.
func (d *Device) Sync() error {
	err := d.check(call(d.drv.cuStreamSynchronize, d.stream), "wait for %s", d.name)
	if err == nil {
		d.staged = 0
	}
	return err
}

// Close frees everything. The device can't be used afterwards.
func (d *Device) Close() error {
	if d.ctx == 0 {
		return nil
	}
	err := d.Do(d.Sync)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.shut()
	d.failed = errors.New("the GPU has been closed")
	return err
}

// shut releases the resources of start, even if it failed.
func (d *Device) shut() {
	if d.ctx == 0 {
		return
	}
	call(d.drv.cuCtxSetCurrent, d.ctx)
	d.blas.stop()
	for _, m := range d.modules {
		call(d.drv.cuModuleUnload, m)
	}
	d.pool.release()
	if d.stream != 0 {
		call(d.drv.cuStreamDestroy, d.stream)
	}
	call(d.drv.cuCtxSetCurrent, 0)
	call(d.drv.cuDevicePrimaryCtxRelease, uintptr(d.id))
	d.ctx, d.stream, d.modules = 0, 0, nil
}
