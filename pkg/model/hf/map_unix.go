//go:build unix

package hf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file into memory, read-only. open opens it: a file that the user named,
// or one of a folder.
func mapFile(path string, open func(string) (*os.File, error)) (data []byte, unmap func() error, err error) {
	f, err := open(path)
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
