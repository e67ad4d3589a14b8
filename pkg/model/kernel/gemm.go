package kernel

import (
	"fmt"
	"sync"

	"grpo/internal/hugepages"
)

// The blocking of a matmul. kBlock determines the bits (see the package comment); the others only
// affect cache use.
const (
	kBlock = 256  // depth of a block of the sum
	nr     = 16   // columns of a packed panel of B
	nBlock = 1024 // columns of B packed at a time by Gemm
	bBlock = 1024 // depth of B packed at a time by Gemm: whole blocks of kBlock
	mBlock = 96   // rows of A and C kept in the cache for all panels of B

	cCached = 1 << 17 // elements of C that are in the cache all the time
)

// SumPart divides sums: matmuls of parts of op(A)'s columns and of op(B)'s rows, a multiple of SumPart
// but for the last, have the bits of the whole matmul if all but the first accumulate.
const SumPart = 2 * kBlock

// Gemm computes C = op(A)·op(B), or C += op(A)·op(B) when accumulate is set, with op(A) of size
// m×k, op(B) of size k×n and C of size m×n, all row-major. op(X) is X, or its transpose if transX
// is set: A is stored as m×k (or k×m) with rows lda apart, B as k×n (or n×k) with rows ldb apart. C
// must not overlap A or B. It runs on one thread; see [Pool.Gemm] for more.
//
// It panics if a slice is too short for its shape.
func Gemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, accumulate bool,
	c []float32, ldc int) {
	checkGemm(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
	gemm(transB, m, n, k, viewA(transA, a, lda), b, ldb, accumulate, c, ldc)
}

// gemm is Gemm after the checks.
func gemm(transB bool, m, n, k int, a matrixA, b []float32, ldb int, accumulate bool, c []float32, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		clearC(m, n, accumulate, c, ldc)
		return
	}
	s, steps := scratches.Get().(*scratch), a.format.steps(k)
	for j0 := 0; j0 < n; j0 += nBlock {
		nb := min(nBlock, n-j0)
		wide := roundUp(nb, nr)
		bj := b[j0:]
		if transB {
			bj = b[j0*ldb:]
		}
		depth := bBlock
		if m*nb <= cCached { // reads A in the order of memory
			depth = kBlock
		}
		for from := 0; from < steps; from += depth {
			to := min(from+depth, steps)
			s.b = grow(s.b, (to-from)*wide)
			for p := from; p < to; p += kBlock {
				packBlock(a.format, transB, p, k, nb, bj, ldb, s.b[(p-from)*wide:])
			}
			gemmPanels(m, nb, to-from, a.deeper(from), s.b, wide, 0, accumulate || from > 0, c[j0:], ldc, s)
		}
	}
	scratches.Put(s)
}

// scratch is the working memory of one matmul on one thread.
type scratch struct {
	a []float32            // op(A) in bf16, or a copy of some rows
	b []float32            // packed panels
	c [mBlock * nr]float32 // a tile with padded columns
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// matrixA is a view of op(A): element (i, p) is data[i*rowStride+p*kStride],
// and skip elements further on for i >= skipAt. The packed B has the same format.
//
// If unrounded is not 0, the format is pairs but data has numbers, that many for a sum.
type matrixA struct {
	format             format
	unrounded          int
	data               []float32
	rowStride, kStride int
	skipAt, skip       int
	strip              int // if not 0, rows are in strips that are that far apart: see inStrips
}

// viewA returns the view of op(A).
func viewA(trans bool, a []float32, lda int) matrixA {
	if trans {
		return matrixA{data: a, rowStride: 1, kStride: lda}
	}
	return matrixA{data: a, rowStride: lda, kStride: 1}
}

// from returns the view of the rows from i0 on.
func (a matrixA) from(i0 int) matrixA {
	at := i0 * a.rowStride
	if a.skip > 0 && i0 >= a.skipAt {
		at += a.skip
		a.skip = 0
	}
	a.skipAt -= i0
	a.data = a.data[at:]
	return a
}

// deeper returns the view from step p0 of the sums on.
func (a matrixA) deeper(p0 int) matrixA {
	if a.unrounded > 0 {
		p0 *= 2
		a.unrounded -= p0
	}
	a.data = a.data[p0*a.kStride:]
	return a
}

// upTo returns the number of rows, of at most rows, before the next skip.
func (a matrixA) upTo(rows int) int {
	if a.skip > 0 && a.skipAt < rows {
		return a.skipAt
	}
	return rows
}

// gemmPanels computes C(m,n) (+)= A·B to any depth, with the columns of B from j on, a multiple of
// nr; packed has the blocks of kBlock rows of B below each other, each wide columns wide. Some rows
// of C get their sums over all blocks before the next rows do: meanwhile they stay in the cache.
func gemmPanels(m, n, depth int, a matrixA, packed []float32, wide, j int, add bool, c []float32, ldc int, s *scratch) {
	for i0, rows := 0, 0; i0 < m; i0 += rows {
		block := a.from(i0)
		rows = block.upTo(min(mBlock, m-i0))
		for p := 0; p < depth; p += kBlock {
			kb := min(kBlock, depth-p)
			ap := block.deeper(p).ready(rows, kb, n, s)
			gemmBlock(rows, n, kb, ap, packed[p*wide+j*kb:], add || p > 0, c[i0*ldc:], ldc, s)
		}
	}
}

// minCopied is the number of columns of C from which on it pays to copy rows of A.
const minCopied = 256

// ready returns the first rows of A to a depth of kb as tiles read them, for n columns of C. It
// rounds them if they are not yet, and copies rows that are a multiple of 4 KB apart: these share
// one set of the L1 cache.
func (a matrixA) ready(rows, kb, n int, s *scratch) matrixA {
	const pitch = kBlock + nr
	switch {
	case a.unrounded > 0 && a.rowStride == 1:
		s.a = grow(s.a, kb*mBlock)
		pairRows(min(2*kb, a.unrounded), rows, a.data, a.kStride, s.a, mBlock)
		return matrixA{format: pairs, data: s.a, rowStride: 1, kStride: mBlock}
	case a.unrounded > 0:
		s.a = grow(s.a, rows*pitch)
		pairColumns(rows, min(2*kb, a.unrounded), a.data, a.rowStride, s.a, pitch)
	case n >= minCopied && a.kStride == 1 && a.rowStride%1024 == 0:
		s.a = grow(s.a, rows*pitch)
		for i := range rows {
			copy(s.a[i*pitch:i*pitch+kb], a.data[i*a.rowStride:i*a.rowStride+kb])
		}
	default:
		return a.inStrips(rows, kb, n, s)
	}
	return matrixA{format: a.format, data: s.a, rowStride: pitch, kStride: 1}
}

// gemmBlock multiplies at most mBlock rows of A to a depth of at most kBlock: C(m,n) (+)= A·B with
// B packed in panels.
func gemmBlock(m, n, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int, s *scratch) {
	full := n / nr
	tiles(m, full, kb, a, packed, add, c, ldc)
	if full*nr < n {
		lastTiles(m, n-full*nr, kb, a, packed[full*nr*kb:], s.c[:])
		unpadColumns(m, n-full*nr, s.c[:], add, c[full*nr:], ldc)
	}
}

// unpadColumns moves the w < nr valid columns of a padded tile into C.
func unpadColumns(rows, w int, tile []float32, add bool, c []float32, ldc int) {
	for i := range rows {
		from, to := tile[i*nr:i*nr+w], c[i*ldc:i*ldc+w]
		if !add {
			copy(to, from)
			continue
		}
		for j, v := range from {
			to[j] += v
		}
	}
}

// clearC is the matmul of depth 0.
func clearC(m, n int, accumulate bool, c []float32, ldc int) {
	if accumulate {
		return
	}
	for i := range m {
		clear(c[i*ldc : i*ldc+n])
	}
}

func checkGemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("kernel: matmul of %d×%d by %d×%d: negative size", m, k, k, n))
	}
	checkOp("a", transA, m, k, a, lda)
	checkOp("b", transB, k, n, b, ldb)
	checkMatrix("c", m, n, c, ldc)
}

// checkOp is checkMatrix of a matrix that is stored transposed if trans is set.
func checkOp(name string, trans bool, rows, cols int, x []float32, ld int) {
	if trans {
		rows, cols = cols, rows
	}
	checkMatrix(name, rows, cols, x, ld)
}

// checkMatrix panics unless x has rows×cols elements with rows ld apart.
func checkMatrix(name string, rows, cols int, x []float32, ld int) {
	if rows == 0 || cols == 0 {
		return
	}
	if ld < cols || len(x) < (rows-1)*ld+cols {
		panic(fmt.Sprintf("kernel: matrix %s: %d×%d with rows %d apart does not fit in %d elements",
			name, rows, cols, ld, len(x)))
	}
}

// checkLen panics unless x has n elements.
func checkLen(name string, x []float32, n int) {
	if len(x) < n {
		panic(fmt.Sprintf("kernel: %s: %d elements, want at least %d", name, len(x), n))
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// grow returns a slice of length n, in x's memory if that is large enough. The contents are
// unspecified.
func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return hugepages.Floats(n)
	}
	return x[:n]
}
