//go:build !noasm

package kernel

// What waits for memory has one version for AVX2 and AVX-512.

func scaleToVecs(vecs int, d, x *float32, s float32) { scaleToAVX2(vecs, d, x, s) }

func axpyVecs(vecs int, alpha float32, x, y *float32) { axpyAVX2(vecs, alpha, x, y) }

func addBiasVecs(rows, vecs int, x *float32, ldx int, bias *float32) {
	addBiasAVX2(rows, vecs, x, ldx, bias)
}

func colSum64Vecs(rows int, x *float32, ldx int, out *float32) { colSum64AVX2(rows, x, ldx, out) }

func colSum32Vecs(rows int, x *float32, ldx int, out *float32) { colSum32AVX2(rows, x, ldx, out) }

func colSum8Vecs(rows int, x *float32, ldx int, out *float32) { colSum8AVX2(rows, x, ldx, out) }

func scatterAddVecs(rows, vecs int, ids *int, x *float32, ldx int, out *float32, ldo int) {
	scatterAddAVX2(rows, vecs, ids, x, ldx, out, ldo)
}

func sumSquaresVecs(groups int, x *float32, sums *float64) { sumSquaresAVX2(groups, x, sums) }

func adamWVecs(vecs int, w, grad, m, v, c *float32) { adamWAVX2(vecs, w, grad, m, v, c) }

func normScaleVecs(vecs int, y, x, w *float32, s float32) { normScaleAVX2(vecs, y, x, w, s) }

func dot3Vecs(groups int, a, b, c *float32, sums *float64) { dot3AVX2(groups, a, b, c, sums) }

func dotVecs(groups int, a, b *float32, sums *float64) { dotAVX2(groups, a, b, sums) }

func softmaxGradVecs(vecs int, p, d *float32, dot, scale float32) {
	softmaxGradAVX2(vecs, p, d, dot, scale)
}

func normInputGradVecs(vecs int, x, w, dy, dx *float32, rstd, c float32) {
	normInputGradAVX2(vecs, x, w, dy, dx, rstd, c)
}

func normWeightGrad32Vecs(rows int, x, rstd, dy *float32, ld int, dw *float32) {
	normWeightGrad32AVX2(rows, x, rstd, dy, ld, dw)
}

func normWeightGrad8Vecs(rows int, x, rstd, dy *float32, ld int, dw *float32) {
	normWeightGrad8AVX2(rows, x, rstd, dy, ld, dw)
}

func rotateVecs(heads, vecs int, x *float32, half int, cos, sin *float32, sign float32) {
	rotateAVX2(heads, vecs, x, half, cos, sin, sign)
}

func packRowsVecs(rows int, b *float32, ldb int, to *float32) { packRowsAVX2(rows, b, ldb, to) }

func packTransposeVecs(blocks int, b *float32, ldb int, to *float32) {
	packTransposeAVX2(blocks, b, ldb, to)
}

func packStripsVecs(kb, strips int, a *float32, lda int, to *float32, strip int) {
	packStripsAVX2(kb, strips, a, lda, to, strip)
}

func swiGLUVecs(groups int, g, u, out []float32) {
	if active == pathAVX512 {
		swiGLUAVX512(groups, &g[0], &u[0], &out[0])
	} else {
		swiGLUAVX2(groups, &g[0], &u[0], &out[0])
	}
}

func swiGLUGradVecs(groups int, g, u, d []float32) {
	if active == pathAVX512 {
		swiGLUGradAVX512(groups, &g[0], &u[0], &d[0])
	} else {
		swiGLUGradAVX2(groups, &g[0], &u[0], &d[0])
	}
}
