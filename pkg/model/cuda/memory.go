//go:build withcuda && linux

package cuda

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// Mem is memory on a device. It is a tensor.Memory.
type Mem struct {
	ptr  uintptr
	size int // bytes asked for
}

// Uintptr is the address on the device. A nil Mem has address 0.
func (m *Mem) Uintptr() uintptr {
	if m == nil {
		return 0
	}
	return m.ptr
}

// MemSize is the size in bytes.
func (m *Mem) MemSize() uintptr { return uintptr(m.size) }

// pool allocates from the driver in rounded sizes and keeps freed memory for requests of the same
// size, because the driver's allocation waits for the device. All work is in one stream, so freed
// memory can be reused at once.
type pool struct {
	d     *Device
	free  map[int][]uintptr
	taken map[uintptr]int // allocated: address and rounded size
	hosts map[uintptr]int // page-locked memory of the host

	stats MemoryStats
}

// MemoryStats describes the pool. It does not grow from step to step once the largest batch has
// been seen.
type MemoryStats struct {
	InUse    int // bytes allocated
	Kept     int // bytes of freed memory that the pool keeps
	Pieces   int // number of allocations in use
	Requests int // number of allocations made by the driver
	Host     int // bytes of page-locked memory of the host
}

func (p *pool) init(d *Device) {
	*p = pool{d: d, free: map[int][]uintptr{}, taken: map[uintptr]int{}, hosts: map[uintptr]int{}}
}

// rounded rounds a size up to a multiple of an eighth of the power of two below it,
// and at least 512 bytes: at most an eighth is wasted, and there are few sizes.
func rounded(size int) int {
	const least = 512
	if size <= least {
		return least
	}
	step := max(least, 1<<(bits.Len(uint(size-1))-4))
	return (size + step - 1) / step * step
}

// Alloc allocates uninitialized bytes; what names them in errors.
func (d *Device) Alloc(size int, what string) (*Mem, error) {
	if d.failed != nil {
		return nil, d.failed
	}
	p := &d.pool
	room := rounded(size)
	var ptr uintptr
	if list := p.free[room]; len(list) > 0 {
		ptr = list[len(list)-1]
		p.free[room] = list[:len(list)-1]
		p.stats.Kept -= room
	} else {
		if d.capturing {
			return nil, fmt.Errorf("allocate %s: not while a graph is recorded", what)
		}
		var err error
		if ptr, err = p.request(room, what); err != nil {
			return nil, err
		}
	}
	p.taken[ptr] = room
	p.stats.InUse += room
	p.stats.Pieces++
	return &Mem{ptr, size}, nil
}

// request allocates from the driver, and retries once after freeing the memory that the pool keeps.
func (p *pool) request(room int, what string) (uintptr, error) {
	ptr := new(uintptr)
	for attempt := 0; ; attempt++ {
		r := call(p.d.drv.cuMemAlloc, uintptr(unsafe.Pointer(ptr)), uintptr(room))
		p.stats.Requests++
		switch {
		case r == success:
			return *ptr, nil
		case r != errorOutOfMemory:
			return 0, p.d.check(r, "allocate %s on %s", size(room), p.d.name)
		case attempt == 0 && p.stats.Kept > 0:
			if err := p.d.Sync(); err != nil {
				return 0, err
			}
			p.trim()
			continue
		}
		free, total := p.d.MemoryInfo()
		return 0, fmt.Errorf("allocate %s for %s on %s: %s are free of %s, %s of them already this program's: lower "+
			"rollout.rollout_batch_size or train.micro_batch_tokens, set train.gradient_checkpointing or train.lora.rank "+
			"(Llama and Qwen networks), raise train.gradient_accumulation_steps or sample fewer tokens",
			size(room), what, p.d.name, size(free), size(total), size(p.stats.InUse))
	}
}

// trim frees the memory that the pool keeps.
func (p *pool) trim() {
	for room, list := range p.free {
		for _, ptr := range list {
			call(p.d.drv.cuMemFree, ptr)
			p.stats.Kept -= room
		}
	}
	clear(p.free)
}

// Free returns memory to the pool; m may be nil.
func (d *Device) Free(m *Mem) {
	if m == nil || m.ptr == 0 {
		return
	}
	p := &d.pool
	room, ok := p.taken[m.ptr]
	if !ok {
		panic("cuda: memory freed twice")
	}
	delete(p.taken, m.ptr)
	p.free[room] = append(p.free[room], m.ptr)
	p.stats.InUse -= room
	p.stats.Kept += room
	p.stats.Pieces--
	m.ptr = 0
}

// MemoryInfo returns the free and the total bytes of the card.
func (d *Device) MemoryInfo() (free, total int) {
	f, t := new(uint64), new(uint64)
	call(d.drv.cuMemGetInfo, uintptr(unsafe.Pointer(f)), uintptr(unsafe.Pointer(t)))
	return int(*f), int(*t)
}

// Memory describes the pool.
func (d *Device) Memory() MemoryStats { return d.pool.stats }

// Pinned allocates n elements of page-locked host memory, for fast copies, until FreePinned or
// Close.
func Pinned[T any](d *Device, n int) ([]T, error) {
	var zero T
	bytes := max(1, n) * int(unsafe.Sizeof(zero))
	ptr := new(uintptr)
	if err := d.check(call(d.drv.cuMemAllocHost, uintptr(unsafe.Pointer(ptr)), uintptr(bytes)),
		"lock %s of the host's memory", size(bytes)); err != nil {
		return nil, err
	}
	d.pool.hosts[*ptr] = bytes
	d.pool.stats.Host += bytes
	s := unsafe.Slice((*T)(pointer(*ptr)), max(1, n))[:n]
	clear(s)
	return s, nil
}

// FreePinned frees a slice of [Pinned].
func FreePinned[T any](d *Device, s []T) {
	if cap(s) == 0 {
		return
	}
	ptr := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	if bytes, ok := d.pool.hosts[ptr]; ok {
		call(d.drv.cuMemFreeHost, ptr)
		delete(d.pool.hosts, ptr)
		d.pool.stats.Host -= bytes
	}
}

// pinned reports whether a slice is in page-locked memory.
func (p *pool) pinned(s []byte) bool {
	at := uintptr(unsafe.Pointer(&s[0]))
	for from, n := range p.hosts {
		if at >= from && at+uintptr(len(s)) <= from+uintptr(n) {
			return true
		}
	}
	return false
}

// release frees everything before the context ends.
func (p *pool) release() {
	p.trim()
	for ptr := range p.taken {
		call(p.d.drv.cuMemFree, ptr)
	}
	for ptr := range p.hosts {
		call(p.d.drv.cuMemFreeHost, ptr)
	}
	p.init(p.d)
}

// size formats a number of bytes for people.
func size(n int) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
