//go:build openblas && cgo

package openblas

/*
#cgo LDFLAGS: -lopenblas
#include <cblas.h>
*/
import "C"

// sgemm is C = op(A)·op(B) by OpenBLAS, row-major.
func sgemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	op := func(t bool) uint32 {
		if t {
			return C.CblasTrans
		}
		return C.CblasNoTrans
	}
	C.cblas_sgemm(C.CblasRowMajor, op(transA), op(transB), C.blasint(m), C.blasint(n), C.blasint(k),
		1, (*C.float)(&a[0]), C.blasint(lda), (*C.float)(&b[0]), C.blasint(ldb), 0, (*C.float)(&c[0]), C.blasint(ldc))
}
