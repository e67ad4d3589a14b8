//go:build !withcuda || !linux

package tinylm

import (
	"errors"
	"runtime"
)

// BuiltWithCUDA says whether [OpenGPU] can open a GPU.
const BuiltWithCUDA = false

// OpenGPU is an error in a program that was built without CUDA.
func OpenGPU(string) (GPU, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("CUDA is for Linux; give --device cpu")
	}
	return nil, errors.New("built without CUDA; build with `make cuda`")
}
