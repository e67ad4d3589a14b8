//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"
)

// Gemm computes C = op(A)·op(B), or adds to C, for row-major matrices: op(A) is
// m×k, op(B) k×n and C m×n, with leading dimensions lda, ldb and ldc. The
// arguments are those of kernel.Gemm.
//
// cuBLAS is column-major, so it sees each matrix transposed and computes
// Cᵀ = op(B)ᵀ·op(A)ᵀ.
func (d *Device) Gemm(transA, transB bool, m, n, k int, a Pointer, lda int, b Pointer, ldb int, accumulate bool,
	c Pointer, ldc int) error {
	if m == 0 || n == 0 || d.failed != nil {
		return d.failed
	}
	if k == 0 { // an empty sum
		if accumulate {
			return nil
		}
		if ldc != n {
			return d.fail(fmt.Errorf("multiply matrices: an empty sum into rows %d apart of %d numbers", ldc, n))
		}
		return d.Zero(c, m*n)
	}
	op := func(trans bool) uintptr {
		if trans {
			return opT
		}
		return opN
	}
	*d.scalars = [2]float32{1, 0}
	if accumulate {
		d.scalars[1] = 1
	}
	x := d.blas
	alpha, beta := uintptr(unsafe.Pointer(&d.scalars[0])), uintptr(unsafe.Pointer(&d.scalars[1])) // on the heap
	var r int
	if d.precision == BFloat16 {
		r = call(x.cublasGemmEx, x.handle, op(transB), op(transA), uintptr(n), uintptr(m), uintptr(k), alpha,
			uintptr(b), realFloat32, uintptr(ldb), uintptr(a), realFloat32, uintptr(lda), beta, uintptr(c), realFloat32, uintptr(ldc), computeFastBF16, ^uintptr(0))
	} else {
		r = call(x.cublasSgemm, x.handle, op(transB), op(transA), uintptr(n), uintptr(m), uintptr(k), alpha,
			uintptr(b), uintptr(ldb), uintptr(a), uintptr(lda), beta, uintptr(c), uintptr(ldc))
	}
	if r == success {
		return nil
	}
	return d.fail(x.check(r, "multiply matrices %d×%d and %d×%d on %s", m, k, k, n, d.name))
}
