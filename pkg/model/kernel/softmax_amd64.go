//go:build !noasm

package kernel

func rowMaxVecs(x []float32) float32 {
	if active == pathAVX512 {
		return rowMaxAVX512(len(x), &x[0])
	}
	return rowMaxAVX2(len(x), &x[0])
}

func rowExp(groups int, x, p []float32, tail *float32, top, invTemp float32) (sum, dot float32) {
	if active == pathAVX512 {
		return rowExpAVX512(groups, &x[0], &p[0], tail, top, invTemp)
	}
	return rowExpAVX2(groups, &x[0], &p[0], tail, top, invTemp)
}

func entropyGradVecs(groups int, d, p []float32, g, ge, h float32) {
	if active == pathAVX512 {
		entropyGradAVX512(groups, &d[0], &p[0], g, ge, h)
	} else {
		entropyGradAVX2(groups, &d[0], &p[0], g, ge, h)
	}
}
