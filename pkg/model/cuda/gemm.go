//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"
)

// Gemm computes C = op(A)·op(B), or adds to C, for row-major matrices: op(A) is
// m×k, op(B) k×n and C m×n, with leading dimensions lda, ldb and ldc. The
// arguments are those of kernel.Gemm.
func (d *Device) Gemm(transA, transB bool, m, n, k int, a Pointer, lda int, b Pointer, ldb int, accumulate bool,
	c Pointer, ldc int) error {
	return d.GemmScaled(transA, transB, m, n, k, 1, a, lda, b, ldb, accumulate, c, ldc)
}

// GemmScaled is [Device.Gemm] with alpha·op(A)·op(B).
func (d *Device) GemmScaled(transA, transB bool, m, n, k int, alpha float32, a Pointer, lda int, b Pointer, ldb int,
	accumulate bool, c Pointer, ldc int) error {
	return d.multiply(realFloat32, transA, transB, m, n, k, alpha, a, lda, b, ldb, accumulate, c, ldc)
}

// GemmBF16 is [Device.GemmScaled] for A and B in bfloat16, 2 bytes each. C and the sums are float32,
// in every precision of the device.
func (d *Device) GemmBF16(transA, transB bool, m, n, k int, alpha float32, a Pointer, lda int, b Pointer, ldb int,
	accumulate bool, c Pointer, ldc int) error {
	return d.multiply(realBFloat16, transA, transB, m, n, k, alpha, a, lda, b, ldb, accumulate, c, ldc)
}

// multiply is a matmul of operands of a type of cuBLAS.
//
// cuBLAS is column-major, so it sees each matrix transposed and computes
// Cᵀ = op(B)ᵀ·op(A)ᵀ.
func (d *Device) multiply(operands uintptr, transA, transB bool, m, n, k int, alpha float32, a Pointer, lda int,
	b Pointer, ldb int, accumulate bool, c Pointer, ldc int) error {
	if m == 0 || n == 0 || d.failed != nil {
		return d.failed
	}
	if k == 0 { // an empty sum
		if accumulate {
			return nil
		}
		if ldc != n {
			return d.Fail(fmt.Errorf("multiply matrices: an empty sum into rows %d apart of %d numbers", ldc, n))
		}
		return d.Zero(c, m*n)
	}
	op := func(trans bool) uintptr {
		if trans {
			return opT
		}
		return opN
	}
	*d.scalars = [2]float32{alpha, 0}
	if accumulate {
		d.scalars[1] = 1
	}
	x := d.blas
	factor, beta := uintptr(unsafe.Pointer(&d.scalars[0])), uintptr(unsafe.Pointer(&d.scalars[1])) // on the heap
	var r int
	if operands == realFloat32 && d.precision != BFloat16 {
		r = call(x.cublasSgemm, x.handle, op(transB), op(transA), uintptr(n), uintptr(m), uintptr(k), factor,
			uintptr(b), uintptr(ldb), uintptr(a), uintptr(lda), beta, uintptr(c), uintptr(ldc))
	} else {
		compute := uintptr(computeFastBF16)
		if operands == realBFloat16 {
			compute = computeFloat32
		}
		r = call(x.cublasGemmEx, x.handle, op(transB), op(transA), uintptr(n), uintptr(m), uintptr(k), factor,
			uintptr(b), operands, uintptr(ldb), uintptr(a), operands, uintptr(lda), beta, uintptr(c), realFloat32,
			uintptr(ldc), compute, ^uintptr(0))
	}
	if r == success {
		return nil
	}
	return d.Fail(x.check(r, "multiply matrices %d×%d and %d×%d on %s", m, k, k, n, d.name))
}
