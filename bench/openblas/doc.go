// Package openblas compares the project's matmuls with OpenBLAS's on one thread. It needs cgo and
// OpenBLAS (Debian: libopenblas-dev) and is not part of the default build:
//
//	CGO_ENABLED=1 OPENBLAS_NUM_THREADS=1 go test -tags openblas -run '^$' -bench . ./bench/openblas
//
// Each benchmark times both in turn and reports the ratio of the medians.
package openblas
