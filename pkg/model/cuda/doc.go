// Package cuda runs kernels on an NVIDIA GPU without cgo, headers or a compiler
// at build time. It exists under the build tag withcuda; without the tag only
// this comment does. Package kernels has the kernels, and package gpu the networks
// that run on them.
//
// Three libraries are loaded when a [Device] is opened: the driver (libcuda),
// the run-time compiler (NVRTC) and cuBLAS. The kernels' source is embedded
// (package kernels), compiled for the card at first use and kept on
// disk. All memory is taken by plain allocations through a pool; there is no
// managed memory.
//
// # Threads
//
// CUDA's current context belongs to a thread of the operating system, and Go
// moves goroutines between threads. So whatever talks to the device does it
// inside [Device.Do], which holds the goroutine to its thread and makes the
// context current there. A device has one stream and serves one caller at a
// time, like a kernel.Pool.
//
// # Errors
//
// An error of a kernel shows up at some later call, and the context is of no
// use after it. The device keeps the first error, and every later call returns
// that one.
//
// # Bits
//
// Work runs in the order of the stream, sums have a fixed order and no kernel
// adds floats atomically: the same calls give the same bits on the same card
// with the same libraries.
package cuda
