package kernel

import "fmt"

// Packed is a right-hand matrix op(B) of size k×n, copied into the order in
// which the matmul reads it: for each block of kBlock rows, panels of nr
// columns, the last one padded with zeros. A zero Packed is an empty matrix.
// It is read-only once packed, so any number of goroutines may use it.
type Packed struct {
	format format
	k, n   int
	data   []float32
}

// NewPacked returns an empty matrix with memory for one of size k×n, which floats allocates.
func NewPacked(k, n int, floats func(n int) []float32) Packed {
	return Packed{data: floats(k * roundUp(n, nr))[:0]}
}

// PackB copies op(B), of size k×n, into the packed form; B is stored as k×n, or as n×k if transB is
// set, with rows ldb apart. It reuses into's memory. The packed copy does not follow later changes
// of b.
func PackB(transB bool, k, n int, b []float32, ldb int, into *Packed) {
	pack(numbers, transB, k, n, b, ldb, into)
}

func pack(f format, transB bool, k, n int, b []float32, ldb int, into *Packed) {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernel: packed matrix of %d×%d: negative size", k, n))
	}
	checkOp("b", transB, k, n, b, ldb)
	wide, steps := roundUp(n, nr), f.steps(k)
	into.format, into.k, into.n = f, k, n
	into.data = grow(into.data, steps*wide)
	if n == 0 {
		return
	}
	for p0 := 0; p0 < steps; p0 += kBlock {
		packBlock(f, transB, p0, k, n, b, ldb, into.data[p0*wide:])
	}
}

// packBlock packs the block of op(B), of size k×n, from element p0 of the sums on.
func packBlock(f format, transB bool, p0, k, n int, b []float32, ldb int, to []float32) {
	kb := min(kBlock, f.steps(k)-p0)
	switch {
	case f == pairs && transB:
		packPairsT(min(2*kb, k-2*p0), n, b[2*p0:], ldb, to)
	case f == pairs:
		packPairs(min(2*kb, k-2*p0), n, b[2*p0*ldb:], ldb, to)
	case transB:
		packPanelsT(kb, n, b[p0:], ldb, to)
	default:
		packPanels(kb, n, b[p0*ldb:], ldb, to)
	}
}

// Transposed writes the columns lo to hi-1 of the matrix into to, as rows of k numbers. Those of
// [PackBF16] are rounded.
func (b *Packed) Transposed(lo, hi int, to []float32) {
	if lo < 0 || hi > b.n || lo > hi {
		panic(fmt.Sprintf("kernel: columns %d to %d of a packed matrix of %d×%d", lo, hi, b.k, b.n))
	}
	checkLen("to", to, (hi-lo)*b.k)
	wide, steps := roundUp(b.n, nr), b.format.steps(b.k)
	for p0 := 0; p0 < steps; p0 += kBlock {
		kb := min(kBlock, steps-p0)
		block := b.data[p0*wide : (p0+kb)*wide]
		for j := lo; j < hi; j++ {
			column, row := block[j/nr*nr*kb+j%nr:], to[(j-lo)*b.k:(j-lo+1)*b.k]
			if b.format == pairs {
				splitPairs(kb, column, row[2*p0:])
				continue
			}
			for p := range kb {
				row[p0+p] = column[p*nr]
			}
		}
	}
}

// GemmPacked is [Gemm] with the right-hand matrix packed before by [PackB]. The
// result has the same bits.
func GemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, accumulate bool, c []float32, ldc int) {
	(*Pool)(nil).GemmPacked(transA, m, n, k, a, lda, b, accumulate, c, ldc)
}

// packedBlock is the number of columns of a packed matrix that are multiplied by all rows, and
// over all of k, before the next ones: their part of B and of C stays in the cache.
const packedBlock = 256

// gemmPacked is GemmPacked after the checks, for n columns of B from column j0 on, a multiple
// of nr; c begins with them. Row i0 of each product in more is the first.
func gemmPacked(m int, a matrixA, b *Packed, j0, n int, accumulate bool, c []float32, ldc int, more []Product, i0 int) {
	if m == 0 || n == 0 {
		return
	}
	if b.k == 0 {
		clearC(m, n, accumulate, c, ldc)
	}
	s := scratches.Get().(*scratch)
	wide, steps := roundUp(b.n, nr), b.format.steps(b.k)
	for j := 0; j < n; j += packedBlock {
		w := min(packedBlock, n-j)
		gemmPanels(m, w, steps, a, b.data, wide, j0+j, accumulate, c[j:], ldc, s)
		for _, x := range more {
			x.add(i0, m, j0+j, w, c[j:], ldc, s)
		}
	}
	scratches.Put(s)
}

// Product is A·B, which a matmul adds to its result C from column From on, such as that of a low-rank
// adapter. A is stored as rows of B's depth, Lda apart; B is not in bf16.
type Product struct {
	From int // a multiple of PanelWidth
	A    []float32
	Lda  int
	B    *Packed
}

// PanelWidth is the number of columns that a packed matrix has side by side.
const PanelWidth = nr

func (x Product) check(m, n int) {
	if x.From < 0 || x.From%nr != 0 || x.From+x.B.n > n || x.B.format != numbers {
		panic(fmt.Sprintf("kernel: product of %d columns from column %d on, of %d", x.B.n, x.From, n))
	}
	checkOp("a", false, m, x.B.k, x.A, x.Lda)
}

// add adds rows i0 to i0+m-1 to columns j to j+n-1 of C, which c begins with.
func (x Product) add(i0, m, j, n int, c []float32, ldc int, s *scratch) {
	lo, hi := max(j, x.From), min(j+n, x.From+x.B.n)
	if lo < hi && x.B.k > 0 {
		a, wide := viewA(false, x.A, x.Lda).from(i0), roundUp(x.B.n, nr)
		gemmPanels(m, hi-lo, x.B.k, a, x.B.data, wide, lo-x.From, true, c[lo-j:], ldc, s)
	}
}

func checkGemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, c []float32, ldc int) {
	if b.k != k || b.n != n {
		panic(fmt.Sprintf("kernel: packed matrix is %d×%d, want %d×%d", b.k, b.n, k, n))
	}
	if m < 0 {
		panic(fmt.Sprintf("kernel: matmul of %d×%d by %d×%d: negative size", m, k, k, n))
	}
	checkOp("a", transA, m, k, a, lda)
	checkMatrix("c", m, n, c, ldc)
}

// packPanels packs a kb×n block whose rows are ldb apart.
func packPanels(kb, n int, b []float32, ldb int, to []float32) {
	for j0 := 0; j0 < n; j0 += nr {
		panel := to[: kb*nr : kb*nr]
		to = to[kb*nr:]
		if w := n - j0; w >= nr {
			packRows(kb, b[j0:], ldb, panel)
		} else {
			packRowsGo(kb, w, b[j0:], ldb, panel)
		}
	}
}

// packPanelsT packs a kb×n block that is stored transposed, as n rows ldb apart.
func packPanelsT(kb, n int, b []float32, ldb int, to []float32) {
	for j0 := 0; j0 < n; j0 += nr {
		panel := to[: kb*nr : kb*nr]
		to = to[kb*nr:]
		if n-j0 < nr {
			clear(panel)
		}
		for j := j0; j < min(j0+nr, n); j += nr / 2 {
			packColumns(kb, min(nr/2, n-j), b[j*ldb:], ldb, panel[j-j0:])
		}
	}
}

// packRowsGo copies w ≤ nr columns of kb rows into a panel and pads them with
// zeros.
func packRowsGo(kb, w int, b []float32, ldb int, panel []float32) {
	for p := range kb {
		row := panel[p*nr : (p+1)*nr]
		clear(row[copy(row, b[p*ldb:p*ldb+w]):])
	}
}

// packColumnsGo writes w rows of kb numbers as columns of a panel.
func packColumnsGo(kb, w int, b []float32, ldb int, panel []float32) {
	for j := range w {
		for p, v := range b[j*ldb : j*ldb+kb] {
			panel[p*nr+j] = v
		}
	}
}
