//go:build !unix

package hf

import (
	"io"

	"grpo/internal/regular"
)

// mapFile reads a file that the user named.
func mapFile(path string) (data []byte, unmap func() error, err error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return data, func() error { return nil }, err
}
