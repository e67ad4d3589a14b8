//go:build (!amd64 && !arm64) || noasm

package kernel

// Processors without assembly run the portable version.

func bestPath() path { return pathGo }

func tiles(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	if a.format == pairs {
		tilesPairs(rows, panels, kb, a, packed, add, c, ldc)
		return
	}
	tilesGo(rows, panels, kb, a, packed, add, c, ldc)
}

func lastTiles(rows, w, kb int, a matrixA, packed, c []float32) {
	tiles(rows, 1, kb, a, packed, false, c, nr)
}

func gruForward(rows, hidden int, gi, gh, bih, bhh, h, out, save []float32) {
	gruForwardGo(rows, hidden, gi, gh, bih, bhh, h, out, save)
}

func gruBackward(rows, hidden int, dout, h, save, dgh, dh []float32) {
	gruBackwardGo(rows, hidden, dout, h, save, dgh, dh)
}

func softmaxRow(x []float32, invTemp float32, p []float32) (top, sum, dot float32) {
	return softmaxRowGo(x, invTemp, p)
}

func entropyGrad(d, p []float32, g, ge, h float32) { entropyGradGo(d, p, g, ge, h) }

func swiGLU(g, u, out []float32) { swiGLUGo(g, u, out) }

func swiGLUGrad(g, u, d []float32) { swiGLUGradGo(g, u, d) }

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

// Peak returns 0 without assembly.
func Peak(int) (flops float64) { return 0 }
