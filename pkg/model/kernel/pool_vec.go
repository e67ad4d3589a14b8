package kernel

// Columns of one task of the shared-out operations: whole vectors, so that
// every path does them at full width.
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

// minShareSum is the number of additions below which sharing out costs more
// than it brings.
const minShareSum = 1 << 15

// columns cuts n columns into a task for each thread, or fewer where that would
// cut vectors.
func (p *Pool) columns(n int, f func(lo, hi int)) {
	width := roundUp((n+p.threads-1)/p.threads, shareColumns)
	p.Run((n+width-1)/width, func(task, _ int) { f(task*width, min(n, (task+1)*width)) })
}
