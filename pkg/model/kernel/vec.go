package kernel

import "fmt"

// AddBias adds bias (n elements) to each of rows rows of x, ldx apart.
func AddBias(rows, n int, x []float32, ldx int, bias []float32) {
	checkMatrix("x", rows, n, x, ldx)
	checkLen("bias", bias, n)
	if rows == 0 || n == 0 {
		return
	}
	addBias(rows, n, x, ldx, bias)
}

// ColSum sums the rows of x (rows×n, ldx apart) into out (n elements), or adds
// the sums to out when accumulate is set. Each column is added up in ascending
// order of rows, starting from out or from 0.
func ColSum(rows, n int, x []float32, ldx int, accumulate bool, out []float32) {
	checkMatrix("x", rows, n, x, ldx)
	checkLen("out", out, n)
	if !accumulate {
		clear(out[:n])
	}
	if rows == 0 || n == 0 {
		return
	}
	colSum(rows, n, x, ldx, out)
}

// Axpy adds alpha·x to y. The slices have the same length.
func Axpy(alpha float32, x, y []float32) {
	sameLen("y", len(x), len(y))
	axpy(alpha, x, y)
}

// ScatterAdd adds the rows of x (len(ids)×n, ldx apart) to rows of out (outRows×n, ldo apart): row
// i to row ids[i], in ascending order of i. It panics if an id is outside [0, outRows).
func ScatterAdd(ids []int, n int, x []float32, ldx int, outRows int, out []float32, ldo int) {
	checkMatrix("x", len(ids), n, x, ldx)
	checkMatrix("out", outRows, n, out, ldo)
	for i, id := range ids {
		if id < 0 || id >= outRows {
			panic(fmt.Sprintf("kernel: ScatterAdd: id %d of row %d is outside %d rows", id, i, outRows))
		}
	}
	if len(ids) == 0 || n == 0 {
		return
	}
	scatterAdd(len(ids), n, ids, x, ldx, out, ldo)
}

// SumSquares returns Σ x² in float64: 16 interleaved partial sums, folded in a
// fixed order. Squares of float32 numbers are exact in float64.
func SumSquares(x []float32) float64 { return sumSquares(x) }

func axpyGo(alpha float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(alpha * v)
	}
}

func addBiasGo(rows, n int, x []float32, ldx int, bias []float32) {
	for i := range rows {
		row := x[i*ldx : i*ldx+n]
		for j, b := range bias[:n] {
			row[j] += b
		}
	}
}

func colSumGo(rows, n int, x []float32, ldx int, out []float32) {
	out = out[:n]
	for i := range rows {
		for j, v := range x[i*ldx : i*ldx+n] {
			out[j] += v
		}
	}
}

func scatterAddGo(n int, ids []int, x []float32, ldx int, out []float32, ldo int) {
	for i, id := range ids {
		to := out[id*ldo : id*ldo+n]
		for j, v := range x[i*ldx : i*ldx+n] {
			to[j] += v
		}
	}
}

func sumSquaresGo(x []float32, s *[lanes]float64) {
	for len(x) >= lanes {
		for j, v := range x[:lanes] {
			s[j] += float64(float64(v) * float64(v))
		}
		x = x[lanes:]
	}
	for j, v := range x {
		s[j] += float64(float64(v) * float64(v))
	}
}

// fold64 is fold for float64.
func fold64(s *[lanes]float64) float64 {
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			s[i] += s[i+w]
		}
	}
	return s[0]
}

func sameLen(name string, want, got int) {
	if want != got {
		panic(fmt.Sprintf("kernel: %s: %d elements, want %d", name, got, want))
	}
}
