package kernel

// Sizes that decide how a product is shared out. None changes its bits.
const (
	minShare   = 1 << 18 // multiply-adds below which a product is not split
	packedMax  = 1 << 18 // elements of B up to which it is packed once for all workers
	shareTasks = 3       // tasks for each thread, to even out unequal workers
	shareRows  = 12      // tiles are multiples of this high: the tallest of the assembly
)

// gemmJob is a product being shared out: the arguments of Gemm and the grid of
// tiles.
type gemmJob struct {
	transA, transB, accumulate bool
	m, n, k                    int
	a, b, c                    []float32
	lda, ldb, ldc              int
	packed                     *Packed // nil: each task packs its part of b
	own                        Packed  // memory for packing b
	tileM, tileN, acrossN      int
	task                       func(task, worker int)
}

// Gemm is [Gemm] over the pool's threads: C is cut into tiles, never the sum
// over k, so the result has the same bits for any number of threads. Small
// products run in the caller.
func (p *Pool) Gemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, accumulate bool, c []float32, ldc int) {
	checkGemm(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
	if p.Threads() == 1 || m*n*k < 2*minShare {
		gemm(transA, transB, m, n, k, a, lda, b, ldb, accumulate, c, ldc)
		return
	}
	j := &p.gemm
	j.transA, j.transB, j.accumulate = transA, transB, accumulate
	j.m, j.n, j.k = m, n, k
	j.a, j.b, j.c, j.lda, j.ldb, j.ldc = a, b, c, lda, ldb, ldc
	j.packed = nil
	if k*n <= packedMax && m >= 2*shareRows {
		PackB(transB, k, n, b, ldb, &j.own)
		j.packed = &j.own
	}
	p.runGemm()
}

// GemmPacked is [GemmPacked] over the pool's threads, with the same bits.
func (p *Pool) GemmPacked(transA bool, m, n, k int, a []float32, lda int, b *Packed, accumulate bool, c []float32, ldc int) {
	checkGemmPacked(transA, m, n, k, a, lda, b, c, ldc)
	if p.Threads() == 1 || m*n*k < 2*minShare {
		gemmPacked(transA, 0, m, a, lda, b, accumulate, c, ldc)
		return
	}
	j := &p.gemm
	j.transA, j.accumulate = transA, accumulate
	j.m, j.n, j.k = m, n, k
	j.a, j.b, j.c, j.lda, j.ldc = a, nil, c, lda, ldc
	j.packed = b
	p.runGemm()
}

// runGemm cuts C and runs the tiles. Only rows are cut where B is packed;
// otherwise also columns, if the rows don't make enough tiles.
func (p *Pool) runGemm() {
	j := &p.gemm
	want := min(shareTasks*p.threads, max(2, j.m*j.n*j.k/minShare))
	j.tileM = roundUp((j.m+want-1)/want, shareRows)
	acrossM := (j.m + j.tileM - 1) / j.tileM
	j.tileN, j.acrossN = max(1, j.n), 1
	if wantN := want / acrossM; j.packed == nil && wantN > 1 && j.n >= 2*nr {
		j.tileN = roundUp((j.n+wantN-1)/wantN, nr)
		j.acrossN = (j.n + j.tileN - 1) / j.tileN
	}
	p.Run(acrossM*j.acrossN, j.task)
	j.a, j.b, j.c, j.packed = nil, nil, nil, nil
}

// gemmTask computes one tile.
func (p *Pool) gemmTask(task, _ int) {
	j := &p.gemm
	i0, j0 := task/j.acrossN*j.tileM, task%j.acrossN*j.tileN
	m, n := min(j.tileM, j.m-i0), min(j.tileN, j.n-j0)
	if j.packed != nil {
		gemmPacked(j.transA, i0, m, j.a, j.lda, j.packed, j.accumulate, j.c, j.ldc)
		return
	}
	a, b := j.a[i0*j.lda:], j.b[j0:]
	if j.transA {
		a = j.a[i0:]
	}
	if j.transB {
		b = j.b[j0*j.ldb:]
	}
	gemm(j.transA, j.transB, m, n, j.k, a, j.lda, b, j.ldb, j.accumulate, j.c[i0*j.ldc+j0:], j.ldc)
}
