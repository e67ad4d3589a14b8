// Package gpu is a NVIDIA GPU as a [model.Device]: it computes the networks of pkg/model there.
// Other packages need only [Open] and [Built]. Without the build tag withcuda, Open returns an
// error.
//
// The files decoder_*.go compute Llama and Qwen networks; device.go and storage.go are for all
// networks, and the others for TinyLM.
//
// Below it, package cuda has memory, streams and cuBLAS, and package kernels the CUDA kernels with
// their launch sizes.
package gpu

import "grpo/pkg/model"

// Device is a GPU that [Open] opened.
type Device interface {
	model.Device
	// Name is the card's, e.g. "NVIDIA H200".
	Name() string
	// Precision is that of matmuls: float32, tf32 or bf16.
	Precision() string
	// String describes card, precision and libraries in one line.
	String() string
	// Memory reports how much of the card's memory is in use.
	Memory() Memory
}

// Memory is in bytes. InUse and Requests do not grow from step to step once the
// largest batch has been seen.
type Memory struct {
	InUse    int // allocated to models
	Requests int // number of allocations made by the driver
	Free     int // on the card, also counting other processes
}
