//go:build (amd64 || arm64) && !noasm

package kernel

func normScale(y, x, w []float32, s float32) {
	done := 0
	if vecs := len(x) / wide; active != pathGo && vecs > 0 {
		normScaleVecs(vecs, &y[0], &x[0], &w[0], s)
		done = vecs * wide
	}
	normScaleGo(y[done:], x[done:], w[done:], s)
}

func dot3(a, b, c []float32) float64 {
	var s [lanes]float64
	done := 0
	if groups := len(a) / lanes; active != pathGo && groups > 0 {
		dot3Vecs(groups, &a[0], &b[0], &c[0], &s[0])
		done = groups * lanes
	}
	dot3Go(a[done:], b[done:], c[done:], &s)
	return fold64(&s)
}

func dot(a, b []float32) float64 {
	var s [lanes]float64
	done := 0
	if groups := len(a) / lanes; active != pathGo && groups > 0 {
		dotVecs(groups, &a[0], &b[0], &s[0])
		done = groups * lanes
	}
	dotGo(a[done:], b[done:], &s)
	return fold64(&s)
}

func softmaxGrad(p, d []float32, dot, scale float32) {
	done := 0
	if vecs := len(p) / wide; active != pathGo && vecs > 0 {
		softmaxGradVecs(vecs, &p[0], &d[0], dot, scale)
		done = vecs * wide
	}
	softmaxGradGo(p[done:], d[done:], dot, scale)
}

func normInputGradRow(x, w, dy, dx []float32, rstd, c float32) {
	done := 0
	if vecs := len(x) / wide; active != pathGo && vecs > 0 {
		normInputGradVecs(vecs, &x[0], &w[0], &dy[0], &dx[0], rstd, c)
		done = vecs * wide
	}
	normInputGradGo(x[done:], w[done:], dy[done:], dx[done:], rstd, c)
}

func normWeightGrad(rows, n int, x []float32, ld int, rstd, dy, dw []float32) {
	j := 0
	if active != pathGo && rows > 0 {
		for ; j+4*wide <= n; j += 4 * wide {
			normWeightGrad32Vecs(rows, &x[j], &rstd[0], &dy[j], 4*ld, &dw[j])
		}
		for ; j+wide <= n; j += wide {
			normWeightGrad8Vecs(rows, &x[j], &rstd[0], &dy[j], 4*ld, &dw[j])
		}
	}
	if j < n && rows > 0 {
		normWeightGradGo(rows, n-j, x[j:], ld, rstd, dy[j:], dw[j:])
	}
}

func rotate(heads, half int, x, cos, sin []float32, sign float32) {
	done := 0
	if vecs := half / wide; active != pathGo && vecs > 0 && heads > 0 {
		rotateVecs(heads, vecs, &x[0], 4*half, &cos[0], &sin[0], sign)
		done = vecs * wide
	}
	if done < half {
		rotateGo(heads, half, done, x, cos, sin, sign)
	}
}
