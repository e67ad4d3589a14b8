//go:build !amd64 || noasm

package kernel

// Functions that have assembly for amd64 only: what multiplies and adds in separate roundings, which has
// the same bits everywhere, and bf16.

func hasBF16() bool { return false }

func roundRow(x, to []float32) { roundRowGo(x, to) }

func pairRowsVecs(int, int, []float32, int, []float32, int) (columns int) { return 0 }

func packRows(kb int, b []float32, ldb int, panel []float32) { packRowsGo(kb, nr, b, ldb, panel) }

func packColumns(kb, w int, b []float32, ldb int, panel []float32) {
	packColumnsGo(kb, w, b, ldb, panel)
}

func scaleTo(d, x []float32, s float32) { scaleToGo(d, x, s) }

func axpy(alpha float32, x, y []float32) { axpyGo(alpha, x, y) }

func addBias(rows, n int, x []float32, ldx int, bias []float32) { addBiasGo(rows, n, x, ldx, bias) }

func colSum(rows, n int, x []float32, ldx int, out []float32) { colSumGo(rows, n, x, ldx, out) }

func scatterAdd(rows, n int, ids []int, x []float32, ldx int, out []float32, ldo int) {
	scatterAddGo(n, ids, x, ldx, out, ldo)
}

func sumSquares(x []float32) float64 {
	var s [lanes]float64
	sumSquaresGo(x, &s)
	return fold64(&s)
}

func adamW(w, g, m, v []float32, c *adamCoefficients) { adamWGo(w, g, m, v, c) }

func normScale(y, x, w []float32, s float32) { normScaleGo(y, x, w, s) }

func dot3(a, b, c []float32) float64 {
	var s [lanes]float64
	dot3Go(a, b, c, &s)
	return fold64(&s)
}

func dot(a, b []float32) float64 {
	var s [lanes]float64
	dotGo(a, b, &s)
	return fold64(&s)
}

func softmaxGrad(p, d []float32, dot, scale float32) { softmaxGradGo(p, d, dot, scale) }

func normInputGradRow(x, w, dy, dx []float32, rstd, c float32) {
	normInputGradGo(x, w, dy, dx, rstd, c)
}

func normWeightGrad(rows, n int, x []float32, ld int, rstd, dy, dw []float32) {
	normWeightGradGo(rows, n, x, ld, rstd, dy, dw)
}

func rotate(heads, half int, x, cos, sin []float32, sign float32) {
	rotateGo(heads, half, 0, x, cos, sin, sign)
}

// PeakBF16 returns 0 without assembly.
func PeakBF16(int) (flops float64) { return 0 }
