//go:build (amd64 || arm64) && !noasm

package kernel

import "math"

// negInfs pads the tail of a row: -Inf adds 0 to each sum.
var negInfs = func() (x [lanes]float32) {
	for i := range x {
		x[i] = float32(math.Inf(-1))
	}
	return x
}()

// softmaxRow is softmaxRowGo with vectors: whole groups of 16 in place, the rest in a padded group.
func softmaxRow(x []float32, invTemp float32, p []float32) (top, sum, dot float32) {
	if active == pathGo {
		return softmaxRowGo(x, invTemp, p)
	}
	groups := len(x) / lanes
	top = rowMax(x)
	if done := groups * lanes; done < len(x) {
		tail := negInfs
		copy(tail[:], x[done:])
		sum, dot = rowExp(groups, x, p, &tail[0], top, invTemp)
		copy(p[done:], tail[:])
	} else {
		sum, dot = rowExp(groups, x, p, nil, top, invTemp)
	}
	scaleTo(p, p, 1/sum)
	return top, sum, dot
}

func rowMax(x []float32) float32 {
	if len(x) < lanes {
		return maxOf(x[0], x)
	}
	return rowMaxVecs(x)
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
