// Package kernel is the float32 arithmetic of TinyLM and of decoders: matmuls (also in bf16), the GRU cell,
// RMSNorm, rotary positions and SwiGLU with their gradients, softmax with its gradient, and AdamW.
// Each has a fast version, a portable version and a simple float64 reference.
//
// # The bits of a matmul
//
// An element of C = op(A)·op(B) is a function of its row of op(A), its column of op(B), k and, when
// accumulating, the old element. It does not depend on m or n, on the element's position, on
// leading dimensions, on alignment or on the number of threads. The recurrence is
//
//	for each block of kBlock consecutive p, in ascending order:
//		acc = 0
//		for p ascending in the block: acc = fma(a[i,p], b[p,j], acc)
//		c[i,j] = c[i,j] + acc        // the first block overwrites unless accumulating
//
// So the sum over k is never split over lanes or workers; vectors run over the columns of C. The
// AVX2, AVX-512 and NEON versions follow the recurrence with fused multiply-adds and are bit-identical.
// The portable version rounds product and sum separately (Go on amd64 has no cheap float32 FMA), so
// it may differ from them in the last bits, but is the same on every architecture: each product is
// written float32(a*b), which keeps the compiler from fusing.
//
// # The bits of a matmul in bf16
//
// A bf16 matmul rounds op(A) and op(B) to bf16, to nearest with ties to even, and adds up their
// products, which are exact, in float32. It is that of float32 with pairs of neighbours in k in
// the place of numbers, so that packing and splitting are the same: an element of C is
//
//	for each block of kBlock consecutive pairs, in ascending order:
//		acc = 0
//		for pairs p ascending in the block: acc = fma(a[i,2p+1], b[2p+1,j], acc)
//		                                    acc = fma(a[i,2p], b[2p,j], acc)
//		c[i,j] = c[i,j] + acc        // the first block overwrites unless accumulating
//
// An odd k is padded with zeros. As in the processor's instruction (VDPBF16PS), fma rounds to
// nearest even, takes subnormal operands as 0, and gives 0 for a subnormal result. The portable
// version has the same bits.
//
// # The bits of everything else
//
// Exponential, sigmoid and tanh are one polynomial evaluated alike in every lane, so a tail has the
// bits of the main body, and AVX2 those of AVX-512 and NEON. Sums over a row (softmax, SumSquares,
// RMSNormBackward) use 16 interleaved partial sums on every path, folded in a fixed order.
// Operations without multiply-add (AddBias, ColSum, AdamW, SumSquares, RMSNorm, RoPE, the gradients
// of RMSNorm and softmax) give the same bits on every path, the portable one included. The Pool
// versions have the bits of the plain ones.
//
// # Choosing the version
//
// The default is the best version that the processor supports. The environment variable GRPO_KERNEL
// (go, avx2, avx512 or neon), read once at program start, selects another one; if the processor lacks it,
// the default is used. [Name] returns the version in use. The build tag noasm leaves the portable
// version only.
package kernel

//go:generate go run -C asm . -family gemm -pkg kernel -out ../gemm_amd64.s -stubs ../gemm_stubs_amd64.go
//go:generate go run -C asm . -family pack -pkg kernel -out ../pack_amd64.s -stubs ../pack_stubs_amd64.go
//go:generate go run -C asm . -family gru -pkg kernel -out ../gru_amd64.s -stubs ../gru_stubs_amd64.go
//go:generate go run -C asm . -family softmax -pkg kernel -out ../softmax_amd64.s -stubs ../softmax_stubs_amd64.go
//go:generate go run -C asm . -family vec -pkg kernel -out ../vec_amd64.s -stubs ../vec_stubs_amd64.go
//go:generate go run -C asm . -family decoder -pkg kernel -out ../decoder_amd64.s -stubs ../decoder_stubs_amd64.go
//go:generate go run -C asm . -family neon
//go:generate go run -C asm . -family bf16 -pkg kernel -out ../bf16_amd64.s -stubs ../bf16_stubs_amd64.go
