//go:build (amd64 || arm64) && !noasm

package kernel

// The kernels of this file compute whole vectors in assembly and the rest in Go,
// with the same bits.

const wide = 8 // float32 in a vector of AVX2, or two of NEON

func scaleTo(d, x []float32, s float32) {
	done := 0
	if vecs := len(x) / wide; active != pathGo && vecs > 0 {
		scaleToVecs(vecs, &d[0], &x[0], s)
		done = vecs * wide
	}
	scaleToGo(d[done:], x[done:], s)
}

func axpy(alpha float32, x, y []float32) {
	done := 0
	if vecs := len(x) / wide; active != pathGo && vecs > 0 {
		axpyVecs(vecs, alpha, &x[0], &y[0])
		done = vecs * wide
	}
	axpyGo(alpha, x[done:], y[done:])
}

func addBias(rows, n int, x []float32, ldx int, bias []float32) {
	done := 0
	if vecs := n / wide; active != pathGo && vecs > 0 {
		addBiasVecs(rows, vecs, &x[0], 4*ldx, &bias[0])
		done = vecs * wide
	}
	if done < n {
		addBiasGo(rows, n-done, x[done:], ldx, bias[done:])
	}
}

func colSum(rows, n int, x []float32, ldx int, out []float32) {
	j := 0
	if active != pathGo {
		for ; j+64 <= n; j += 64 {
			colSum64Vecs(rows, &x[j], 4*ldx, &out[j])
		}
		for ; j+32 <= n; j += 32 {
			colSum32Vecs(rows, &x[j], 4*ldx, &out[j])
		}
		for ; j+8 <= n; j += 8 {
			colSum8Vecs(rows, &x[j], 4*ldx, &out[j])
		}
	}
	if j < n {
		colSumGo(rows, n-j, x[j:], ldx, out[j:])
	}
}

func scatterAdd(rows, n int, ids []int, x []float32, ldx int, out []float32, ldo int) {
	done := 0
	if vecs := n / wide; active != pathGo && vecs > 0 {
		scatterAddVecs(rows, vecs, &ids[0], &x[0], 4*ldx, &out[0], 4*ldo)
		done = vecs * wide
	}
	if done < n {
		scatterAddGo(n-done, ids, x[done:], ldx, out[done:], ldo)
	}
}

func sumSquares(x []float32) float64 {
	var s [lanes]float64
	if groups := len(x) / lanes; active != pathGo && groups > 0 {
		sumSquaresVecs(groups, &x[0], &s[0])
		x = x[groups*lanes:]
	}
	sumSquaresGo(x, &s)
	return fold64(&s)
}

func adamW(w, g, m, v []float32, c *adamCoefficients) {
	done := 0
	if vecs := len(w) / wide; active != pathGo && vecs > 0 {
		adamWVecs(vecs, &w[0], &g[0], &m[0], &v[0], &c.decay)
		done = vecs * wide
	}
	adamWGo(w[done:], g[done:], m[done:], v[done:], c)
}
