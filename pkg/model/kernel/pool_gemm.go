package kernel

// Sizes that control how a matmul is split. None changes its bits.
const (
	minShare   = 1 << 18 // minimum multiply-adds to split a matmul
	packedMax  = 1 << 18 // elements of B up to which it is packed once for all workers
	shareTasks = 3       // tasks for each thread, to even out unequal workers
	shareRows  = 12      // tiles are multiples of this high: the tallest of the assembly
)

// gemmJob is a matmul being split: the arguments of Gemm and the grid of tiles.
type gemmJob struct {
	transB, accumulate    bool
	m, n, k               int
	a                     matrixA
	b, c                  []float32
	ldb, ldc              int
	packed                *Packed // nil: each task packs its part of b
	more                  []Product
	own                   Packed // memory for packing b
	tileM, tileN, acrossN int
	task                  func(task, worker int)
}

// Gemm is [Gemm] over the pool's threads: C is cut into tiles, never the sum
// over k, so the result has the same bits for any number of threads. Small
// ones run in the caller.
func (p *Pool) Gemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int,
	accumulate bool, c []float32, ldc int) {
	checkGemm(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
	p.gemmView(transB, m, n, k, viewA(transA, a, lda), b, ldb, accumulate, c, ldc)
}

// GemmGates is Pool.Gemm of Aᵀ·B, overwriting C, for a matrix A of gates (k rows, lda apart) whose
// last gate is separate: of the m columns of A, those from skipAt on are skip further to the right.
func (p *Pool) GemmGates(m, n, k int, a []float32, lda, skipAt, skip int, b []float32, ldb int, c []float32, ldc int) {
	checkGemm(true, false, m, n, k, a, lda, b, ldb, c, ldc)
	if skipAt < 0 || skipAt > m || skip < 0 {
		panic("kernel: GemmGates: the gap is not within A")
	}
	checkMatrix("a", k, m+skip, a, lda)
	v := viewA(true, a, lda)
	v.skipAt, v.skip = skipAt, skip
	p.gemmView(false, m, n, k, v, b, ldb, false, c, ldc)
}

func (p *Pool) gemmView(transB bool, m, n, k int, a matrixA, b []float32, ldb int, accumulate bool,
	c []float32, ldc int) {
	if p.Threads() == 1 || m*n*k < 2*minShare {
		gemm(transB, m, n, k, a, b, ldb, accumulate, c, ldc)
		return
	}
	j := &p.gemm
	j.transB, j.accumulate = transB, accumulate
	j.m, j.n, j.k = m, n, k
	j.a, j.b, j.c, j.ldb, j.ldc = a, b, c, ldb, ldc
	j.packed = nil
	if k*n <= packedMax && m >= 2*shareRows {
		pack(a.format, transB, k, n, b, ldb, &j.own)
		j.packed = &j.own
	}
	p.runGemm()
}

// GemmPacked is [GemmPacked] over the pool's threads, with the same bits. With a matrix packed by
// [PackBF16] it has the bits of [Pool.GemmBF16].
func (p *Pool) GemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, accumulate bool,
	c []float32, ldc int) {
	p.GemmPackedPlus(transA, m, n, k, a, lda, b, accumulate, c, ldc, nil)
}

// GemmPackedPlus is [Pool.GemmPacked] and then a [Pool.Gemm] for each product, which it adds to C. The
// bits are the same, but the threads meet once, and find C in the cache.
func (p *Pool) GemmPackedPlus(transA bool, m, n, k int, a []float32, lda int, b *Packed, accumulate bool,
	c []float32, ldc int, more []Product) {
	checkGemmPacked(transA, m, n, k, a, lda, b, c, ldc)
	for _, x := range more {
		x.check(m, n)
	}
	if b.format == numbers {
		p.gemmPackedView(m, n, k, viewA(transA, a, lda), b, accumulate, c, ldc, more)
		return
	}
	s := scratches.Get().(*scratch)
	p.gemmPackedView(m, n, k, p.pairA(transA, m, k, a, lda, s), b, accumulate, c, ldc, more)
	scratches.Put(s)
}

func (p *Pool) gemmPackedView(m, n, k int, a matrixA, b *Packed, accumulate bool, c []float32, ldc int,
	more []Product) {
	if p.Threads() == 1 || m*n*k < 2*minShare {
		gemmPacked(m, a, b, 0, n, accumulate, c, ldc, more, 0)
		return
	}
	j := &p.gemm
	j.accumulate = accumulate
	j.m, j.n, j.k = m, n, k
	j.a, j.b, j.c, j.ldc = a, nil, c, ldc
	j.packed, j.more = b, more
	p.runGemm()
}

// runGemm splits C across one side and runs the tiles. Every task reads its part of one operand
// and all of the other, so the longer side is split. Unless B is packed, each task packs its part
// of B, so there are few tiles, see [Pool.Cuts], and the split is across the side that divides more evenly.
func (p *Pool) runGemm() {
	j := &p.gemm
	want := min(shareTasks*p.threads, max(2, j.m*j.n*j.k/minShare))
	if j.packed == nil {
		want = min(want, p.cuts)
	}
	part := func(n, unit int) int { return roundUp((n+want-1)/want, unit) }
	j.tileM, j.tileN = part(j.m, shareRows), part(j.n, nr)
	rows := j.tileM*j.n <= j.tileN*j.m
	if j.packed != nil {
		rows = j.m >= j.n
	}
	if rows {
		j.tileN = max(1, j.n)
	} else {
		j.tileM = j.m
	}
	acrossM := (j.m + j.tileM - 1) / j.tileM
	j.acrossN = (j.n + j.tileN - 1) / j.tileN
	p.Run(acrossM*j.acrossN, j.task)
	j.a, j.b, j.c, j.packed, j.more = matrixA{}, nil, nil, nil, nil
}

// gemmTask computes one tile.
func (p *Pool) gemmTask(task, _ int) {
	j := &p.gemm
	i0, j0 := task/j.acrossN*j.tileM, task%j.acrossN*j.tileN
	m, n := min(j.tileM, j.m-i0), min(j.tileN, j.n-j0)
	a := j.a.from(i0)
	if j.packed != nil {
		gemmPacked(m, a, j.packed, j0, n, j.accumulate, j.c[i0*j.ldc+j0:], j.ldc, j.more, i0)
		return
	}
	b := j.b[j0:]
	if j.transB {
		b = j.b[j0*j.ldb:]
	}
	gemm(j.transB, m, n, j.k, a, b, j.ldb, j.accumulate, j.c[i0*j.ldc+j0:], j.ldc)
}

// Columns per task of the split operations: whole vectors, so that every path runs at full width.
const shareColumns = 32

// ColSum is [ColSum] over the pool's threads: the columns are cut, never the
// sum over rows, so the result has the same bits for any number of threads.
func (p *Pool) ColSum(rows, n int, x []float32, ldx int, accumulate bool, out []float32) {
	if p.Threads() == 1 || rows*n < minShareSum {
		ColSum(rows, n, x, ldx, accumulate, out)
		return
	}
	checkMatrix("x", rows, n, x, ldx)
	checkLen("out", out, n)
	p.columns(n, func(lo, hi int) { ColSum(rows, hi-lo, x[lo:], ldx, accumulate, out[lo:hi]) })
}

// ScatterAdd is [ScatterAdd] over the pool's threads, with the same bits.
func (p *Pool) ScatterAdd(ids []int, n int, x []float32, ldx int, outRows int, out []float32, ldo int) {
	if p.Threads() == 1 || len(ids)*n < minShareSum {
		ScatterAdd(ids, n, x, ldx, outRows, out, ldo)
		return
	}
	p.columns(n, func(lo, hi int) { ScatterAdd(ids, hi-lo, x[lo:], ldx, outRows, out[lo:], ldo) })
}

// minShareSum is the number of additions below which splitting costs more than it saves.
const minShareSum = 1 << 15

// columns splits n columns into tasks, see [Pool.Cuts], or fewer to keep vectors whole.
func (p *Pool) columns(n int, f func(lo, hi int)) {
	width := roundUp((n+p.cuts-1)/p.cuts, shareColumns)
	p.Run((n+width-1)/width, func(task, _ int) { f(task*width, min(n, (task+1)*width)) })
}
