// Package kernel holds the float32 arithmetic of TinyLM: matmuls, the
// GRU cell, softmax with its gradient, and AdamW. Each has one fast version, a
// portable version and an obvious float64 reference.
//
// # The bits of a matmul
//
// An element of C = op(A)·op(B) is a function of its row of op(A), its column
// of op(B), k and, when accumulating, the old element. It does not depend on m
// or n, on the element's position, on leading dimensions, on alignment or on the
// number of threads. The recurrence is
//
//	for each block of kBlock consecutive p, in ascending order:
//		acc = 0
//		for p ascending in the block: acc = fma(a[i,p], b[p,j], acc)
//		c[i,j] = c[i,j] + acc        // the first block overwrites unless accumulating
//
// So the sum over k is never split over lanes or workers; vectors run over the
// columns of C. The AVX2 and AVX-512 versions follow the recurrence with fused
// multiply-adds and agree to the bit. The portable version rounds the product
// and the sum apart (Go on amd64 has no cheap float32 FMA), so it may differ
// from them in the last bits, but is the same on every architecture: each
// product is written float32(a*b), which forbids the compiler to fuse.
//
// # The bits of everything else
//
// Exponential, sigmoid and tanh are one polynomial evaluated alike in every
// lane, so a tail has the bits of the main body, and AVX2 those of AVX-512. Sums over a row (softmax,
// SumSquares) use 16 interleaved partial sums on every path, folded in a fixed
// order. Operations without multiply-add (AddBias, ColSum, AdamW, SumSquares)
// give the same bits on every path, the portable one included.
//
// # Choosing the version
//
// The best version that the processor supports is taken. The environment
// variable GRPO_KERNEL (go, avx2 or avx512), read once when the program
// starts, asks for another one; a version that the processor lacks is replaced
// by the best that it has. [Name] says which one runs. The build tag noasm
// leaves the portable version only.
package kernel

//go:generate go run -C asm . -family gemm -pkg kernel -out ../gemm_amd64.s -stubs ../gemm_stubs_amd64.go
//go:generate go run -C asm . -family pack -pkg kernel -out ../pack_amd64.s -stubs ../pack_stubs_amd64.go
//go:generate go run -C asm . -family gru -pkg kernel -out ../gru_amd64.s -stubs ../gru_stubs_amd64.go
//go:generate go run -C asm . -family softmax -pkg kernel -out ../softmax_amd64.s -stubs ../softmax_stubs_amd64.go
//go:generate go run -C asm . -family vec -pkg kernel -out ../vec_amd64.s -stubs ../vec_stubs_amd64.go
