//go:build unix

package hf

import (
	"fmt"

	"golang.org/x/sys/unix"

	"grpo/internal/regular"
)

// mapFile maps a file that the user named into memory, read-only.
func mapFile(path string) (data []byte, unmap func() error, err error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 {
		return nil, nil, fmt.Errorf("it is empty")
	}
	data, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("map into memory: %w", err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
