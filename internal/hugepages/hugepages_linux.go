package hugepages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// size is the size of a huge page on amd64, and on arm64 with pages of 4 KB.
const size = 2 << 20

// ask asks for huge pages, which many distributions give on request only ("madvise" in
// /sys/kernel/mm/transparent_hugepage/enabled). The first and the last may hold other parts of Go's heap, too: it
// grows by multiples of size. A kernel that has none returns an error, and nothing changes.
func ask(x []float32) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
	start, end := from/size*size, (from+uintptr(4*len(x))+size-1)/size*size
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_HUGEPAGE)
}
