//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"
)

// Engine lets Gorgonia's tensors use a device's memory. Gorgonia itself computes only the sum of
// two gradients of one value there. The fused operations do everything else; any other call is an
// error.
type Engine struct {
	d *Device
	// add computes out = a + b over n numbers.
	add func(n int, a, b, out Pointer) error
}

var (
	_ tensor.Engine = (*Engine)(nil)
	_ tensor.Adder  = (*Engine)(nil)
)

// NewEngine returns the engine of a device's memory.
func NewEngine(d *Device, add func(n int, a, b, out Pointer) error) *Engine { return &Engine{d, add} }

// Tensor is a tensor of float32 over device memory.
func (e *Engine) Tensor(at Pointer, shape ...int) *tensor.Dense {
	return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...), tensor.WithEngine(e),
		tensor.FromMemory(uintptr(at), uintptr(4*tensor.Shape(shape).TotalSize())))
}

// AllocAccessible is false: Go can't read the memory.
func (e *Engine) AllocAccessible() bool { return false }

// Alloc takes memory from the device's pool.
func (e *Engine) Alloc(size int64) (m tensor.Memory, err error) {
	err = e.d.Do(func() error {
		m, err = e.d.Alloc(int(size), "a tensor")
		return err
	})
	return m, err
}

// Free returns it to the pool.
func (e *Engine) Free(m tensor.Memory, _ int64) error {
	mem, ok := m.(*Mem)
	if !ok {
		return fmt.Errorf("free a tensor: %T is not GPU memory", m)
	}
	e.d.Free(mem)
	return nil
}

// Memset fills the memory with one float32.
func (e *Engine) Memset(m tensor.Memory, v any) error {
	f, ok := v.(float32)
	if !ok {
		return fmt.Errorf("fill a tensor on %s with %v: only float32 can be", e.d.name, v)
	}
	bits := *(*uint32)(unsafe.Pointer(&f))
	return e.d.Do(func() error {
		return e.d.check(call(e.d.drv.cuMemsetD32Async, m.Uintptr(), uintptr(bits), m.MemSize()/4, e.d.stream),
			"fill a tensor")
	})
}

// Memclr clears the memory. The device returns a failure from its next call.
func (e *Engine) Memclr(m tensor.Memory) { _ = e.Memset(m, float32(0)) }

// Memcpy copies between memories of the device.
func (e *Engine) Memcpy(dst, src tensor.Memory) error {
	return e.d.Do(func() error {
		return e.d.Copy(Pointer(dst.Uintptr()), Pointer(src.Uintptr()), int(min(dst.MemSize(), src.MemSize())))
	})
}

// Accessible returns an error: numbers have to be downloaded.
func (e *Engine) Accessible(tensor.Memory) (tensor.Memory, error) {
	return nil, fmt.Errorf("read a tensor's memory: it is on %s", e.d.name)
}

// WorksWith accepts row-major matrices.
func (e *Engine) WorksWith(order tensor.DataOrder) bool { return order.IsRowMajor() }

// Add adds b to a in place, or into a tensor to reuse. Gorgonia calls it to sum the gradients of a
// value that is used twice. All tensors have one shape.
func (e *Engine) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	if !a.Shape().Eq(b.Shape()) {
		return nil, fmt.Errorf("add tensors on %s: shapes %v and %v differ", e.d.name, a.Shape(), b.Shape())
	}
	o := tensor.ParseFuncOpts(opts...)
	out := a
	switch incr, reuse := o.Incr(), o.Reuse(); {
	case incr != nil:
		return nil, fmt.Errorf("add tensors on %s: adding to a third is not known", e.d.name)
	case reuse != nil:
		out = reuse
	}
	n := a.Shape().TotalSize()
	return out, e.d.Do(func() error {
		return e.add(n, Pointer(a.Uintptr()), Pointer(b.Uintptr()), Pointer(out.Uintptr()))
	})
}

// AddScalar is not supported.
func (e *Engine) AddScalar(tensor.Tensor, any, bool, ...tensor.FuncOpt) (tensor.Tensor, error) {
	return nil, fmt.Errorf("add a scalar to a tensor on %s: no network needs it", e.d.name)
}
