package kernel

import "fmt"

// Packed is a right-hand matrix op(B) of size k×n, copied into the order in
// which the product reads it: for each block of kBlock rows, panels of nr
// columns, the last one padded with zeros. A zero Packed is an empty matrix.
// It is read-only once packed, so any number of goroutines may use it.
type Packed struct {
	k, n int
	data []float32
}

// PackB copies op(B), of size k×n, into the packed form; B is stored as k×n, or
// as n×k where transB is set, with rows ldb apart. It reuses into's memory.
// The packed copy does not follow later changes of b.
func PackB(transB bool, k, n int, b []float32, ldb int, into *Packed) {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernel: packed matrix of %d×%d: negative size", k, n))
	}
	if transB {
		checkMatrix("b", n, k, b, ldb)
	} else {
		checkMatrix("b", k, n, b, ldb)
	}
	wide := roundUp(n, nr)
	into.k, into.n = k, n
	into.data = grow(into.data, k*wide)
	if n == 0 {
		return
	}
	for p0 := 0; p0 < k; p0 += kBlock {
		kb := min(kBlock, k-p0)
		to := into.data[p0*wide : (p0+kb)*wide]
		if transB {
			packPanelsT(kb, n, b[p0:], ldb, to)
		} else {
			packPanels(kb, n, b[p0*ldb:], ldb, to)
		}
	}
}

// GemmPacked is [Gemm] with the right-hand matrix packed before by [PackB]. The
// result has the same bits.
func GemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, accumulate bool, c []float32, ldc int) {
	checkGemmPacked(transA, m, n, k, a, lda, b, c, ldc)
	gemmPacked(m, viewA(transA, a, lda), b, accumulate, c, ldc)
}

// gemmPacked is GemmPacked after the checks.
func gemmPacked(m int, a matrixA, b *Packed, accumulate bool, c []float32, ldc int) {
	if m == 0 || b.n == 0 {
		return
	}
	if b.k == 0 {
		clearC(m, b.n, accumulate, c, ldc)
		return
	}
	s := scratches.Get().(*scratch)
	wide := roundUp(b.n, nr)
	for p0 := 0; p0 < b.k; p0 += kBlock {
		kb := min(kBlock, b.k-p0)
		gemmBlock(m, b.n, kb, a.deeper(p0), b.data[p0*wide:], accumulate || p0 > 0, c, ldc, s)
	}
	scratches.Put(s)
}

func checkGemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, c []float32, ldc int) {
	if b.k != k || b.n != n {
		panic(fmt.Sprintf("kernel: packed matrix is %d×%d, want %d×%d", b.k, b.n, k, n))
	}
	if m < 0 {
		panic(fmt.Sprintf("kernel: product of %d×%d by %d×%d: negative size", m, k, k, n))
	}
	if transA {
		checkMatrix("a", k, m, a, lda)
	} else {
		checkMatrix("a", m, k, a, lda)
	}
	checkMatrix("c", m, n, c, ldc)
}
