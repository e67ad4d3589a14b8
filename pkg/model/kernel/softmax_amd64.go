//go:build !noasm

package kernel

import "math"

var negInf = float32(math.Inf(-1))

// softmaxRow is softmaxRowGo with vectors: whole groups of 16 in place, the
// rest padded with -Inf, which adds 0 to each sum.
func softmaxRow(x []float32, invTemp float32, p []float32) (top, sum, dot float32) {
	if active == pathGo {
		return softmaxRowGo(x, invTemp, p)
	}
	groups := len(x) / lanes
	top = rowMax(groups, x)
	var s, d [lanes]float32
	if groups > 0 {
		rowExp(groups, x, p, top, invTemp, &s, &d)
	}
	if done := groups * lanes; done < len(x) {
		var in, out [lanes]float32
		fill(in[copy(in[:], x[done:]):], negInf)
		rowExp(1, in[:], out[:], top, invTemp, &s, &d)
		copy(p[done:], out[:])
	}
	sum, dot = fold(&s), fold(&d)
	scaleTo(p, p, 1/sum)
	return top, sum, dot
}

func rowMax(groups int, x []float32) float32 {
	top := x[0]
	if groups > 0 {
		var t [lanes]float32
		fill(t[:], top)
		if active == pathAVX512 {
			rowMaxAVX512(groups, &x[0], &t[0])
		} else {
			rowMaxAVX2(groups, &x[0], &t[0])
		}
		top = maxOf(top, t[:])
	}
	return maxOf(top, x[groups*lanes:])
}

func rowExp(groups int, x, p []float32, top, invTemp float32, sums, dots *[lanes]float32) {
	if active == pathAVX512 {
		rowExpAVX512(groups, &x[0], &p[0], top, invTemp, &sums[0], &dots[0])
	} else {
		rowExpAVX2(groups, &x[0], &p[0], top, invTemp, &sums[0], &dots[0])
	}
}

func entropyGrad(d, p []float32, g, ge, h float32) {
	if active == pathGo {
		entropyGradGo(d, p, g, ge, h)
		return
	}
	groups := len(p) / lanes
	if groups > 0 {
		entropyGradVecs(groups, d, p, g, ge, h)
	}
	if done := groups * lanes; done < len(p) {
		var in, out [lanes]float32
		copy(in[:], p[done:])
		entropyGradVecs(1, out[:], in[:], g, ge, h)
		copy(d[done:], out[:])
	}
}

func entropyGradVecs(groups int, d, p []float32, g, ge, h float32) {
	if active == pathAVX512 {
		entropyGradAVX512(groups, &d[0], &p[0], g, ge, h)
	} else {
		entropyGradAVX2(groups, &d[0], &p[0], g, ge, h)
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
