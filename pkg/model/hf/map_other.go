//go:build !unix

package hf

import (
	"io"
	"os"
)

// mapFile reads a file. open opens it: a file that the user named, or one of a folder.
func mapFile(path string, open func(string) (*os.File, error)) (data []byte, unmap func() error, err error) {
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return data, func() error { return nil }, err
}
