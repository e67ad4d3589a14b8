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

// Peak returns 0 without assembly.
func Peak(int) (flops float64) { return 0 }
