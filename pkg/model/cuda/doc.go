// Package cuda runs kernels on an NVIDIA GPU without cgo, headers or a compiler
// at build time. It exists under the build tag withcuda; without the tag only
// this comment does. Package kernels has the kernels, and package gpu the networks
// that run on them.
//
// [Open] loads three libraries: the driver (libcuda), the run-time compiler (NVRTC)
// and cuBLAS. The kernels' source is embedded (package kernels), compiled for the
// card at first use and cached on disk. Memory comes from a pool; there is no
// managed memory.
//
// # Threads
//
// CUDA's current context belongs to a thread of the operating system, and Go
// moves goroutines between threads. So all calls to the device are made inside
// [Device.Do], which locks the goroutine to its thread and makes the context
// current there. A device has one stream and serves one caller at a time.
//
// # Errors
//
// An error of a kernel is reported by some later call, and makes the context
// unusable. The device keeps the first error, and every later call returns it.
//
// # Bits
//
// Work runs in the order of the stream and sums have a fixed order, without float
// atomics: the same calls give the same bits on the same card with the same
// libraries.
package cuda
