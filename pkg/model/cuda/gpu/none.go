//go:build !withcuda || !linux

package gpu

import (
	"errors"
	"runtime"
)

// Built reports whether the program was built with CUDA, so that [Open] can open a GPU.
const Built = false

// Open is an error in a program that was built without CUDA.
func Open(string) (Device, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("CUDA is for Linux; give --device cpu")
	}
	return nil, errors.New("built without CUDA; build with `make cuda`")
}
