//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"
)

// Upload copies a slice to the device, at an offset in elements. From [Pinned] memory the copy may
// still be running when Upload returns; the slice must not change before the next [Device.Sync].
// Other slices may change at once.
func Upload[T any](d *Device, to *Mem, at int, from []T) error {
	place, err := span(to, at, from)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return UploadAt(d, place, from)
}

// UploadAt is [Upload] to an address. CUDA does not say when a copy in a stream has read memory that is
// not pinned, so other slices go through pinned memory, which is used again after a Sync.
func UploadAt[T any](d *Device, to Pointer, from []T) error {
	if len(from) == 0 || d.failed != nil {
		return d.failed
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&from[0])), len(from)*int(unsafe.Sizeof(from[0])))
	if d.pool.pinned(bytes) {
		return d.upload(to, bytes)
	}
	if d.capturing { // the graph would read what later copies leave there
		return d.Fail(fmt.Errorf("copy %d bytes to %s: a graph copies from pinned memory only", len(bytes), d.name))
	}
	for len(bytes) > 0 {
		if d.staged == len(d.stage) {
			if err := d.Sync(); err != nil {
				return err
			}
		}
		n := copy(d.stage[d.staged:], bytes)
		if err := d.upload(to, d.stage[d.staged:d.staged+n]); err != nil {
			return err
		}
		d.staged, to, bytes = d.staged+n, to+Pointer(n), bytes[n:]
	}
	return nil
}

// upload copies pinned memory.
func (d *Device) upload(to Pointer, from []byte) error {
	r := call(d.drv.cuMemcpyHtoDAsync, uintptr(to), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), d.stream)
	return d.check(r, "copy %d bytes to %s", len(from), d.name)
}

// Download copies from the device, from an offset in elements, and waits until the slice is filled.
func Download[T any](d *Device, to []T, from *Mem, at int) error {
	place, err := span(from, at, to)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	if err := FetchAt(d, to, place); err != nil {
		return err
	}
	return d.Sync()
}

// FetchAt is [Download] from an address without waiting: the slice, which should be [Pinned]
// memory, is filled after the next [Device.Sync].
func FetchAt[T any](d *Device, to []T, from Pointer) error {
	if len(to) == 0 {
		return d.failed
	}
	bytes := uintptr(len(to)) * unsafe.Sizeof(to[0])
	r := call(d.drv.cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(&to[0])), uintptr(from), bytes, d.stream)
	return d.check(r, "copy %d bytes from %s", bytes, d.name)
}

// span is the address of element at of the memory; the slice must fit there.
func span[T any](m *Mem, at int, s []T) (Pointer, error) {
	var zero T
	each := int(unsafe.Sizeof(zero))
	if at < 0 || (at+len(s))*each > m.size {
		return 0, fmt.Errorf("%d elements from %d on exceed %d bytes", len(s), at, m.size)
	}
	return Pointer(m.ptr + uintptr(at*each)), nil
}

// Copy copies bytes within the device.
func (d *Device) Copy(to, from Pointer, bytes int) error {
	if bytes == 0 {
		return d.failed
	}
	return d.check(call(d.drv.cuMemcpyDtoDAsync, uintptr(to), uintptr(from), uintptr(bytes), d.stream),
		"copy %d bytes on %s", bytes, d.name)
}

// Zero sets n float32 or int32 to zero.
func (d *Device) Zero(to Pointer, n int) error {
	if n == 0 {
		return d.failed
	}
	return d.check(call(d.drv.cuMemsetD32Async, uintptr(to), 0, uintptr(n), d.stream), "clear %d numbers on %s",
		n, d.name)
}
