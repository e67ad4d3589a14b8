//go:build !noasm

package kernel

// Every arm64 processor has NEON.

func bestPath() path { return pathNEON }

// vectorLanes is the number of float32 in a vector of the active path.
func vectorLanes() int { return 4 }

var tilesNEON = tiles6{
	6: {1: tile6x16NEON},
	5: {1: tile5x16NEON},
	4: {1: tile4x16NEON},
	3: {1: tile3x16NEON, 2: tile3x32NEON},
	2: {1: tile2x16NEON, 3: tile2x48NEON},
	1: {1: tile1x16NEON, 4: tile1x64NEON},
}

func tiles(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	switch {
	case a.format == pairs:
		tilesPairs(rows, panels, kb, a, packed, add, c, ldc)
	case active == pathGo:
		tilesGo(rows, panels, kb, a, packed, add, c, ldc)
	default:
		t := newTiling(panels, kb, a, packed, add, c, ldc)
		t.cut6(rows, &tilesNEON)
	}
}

func lastTiles(rows, w, kb int, a matrixA, packed, c []float32) {
	if active == pathGo || w > nr/2 || a.format == pairs {
		tiles(rows, 1, kb, a, packed, false, c, nr)
		return
	}
	lastTiles6(rows, kb, a, packed, c, tile12x8NEON, &tilesNEON)
}

func gruForwardVecs(rows, vecs, hidden int, gi, gh, bih, bhh, h, out, save []float32) {
	var s *float32
	if save != nil {
		s = &save[0]
	}
	gruForwardNEON(rows, vecs, hidden, &gi[0], &gh[0], &bih[0], &bhh[0], &h[0], &out[0], s)
}

func gruBackwardVecs(rows, vecs, hidden int, dout, h, save, dgh, dh []float32) {
	gruBackwardNEON(rows, vecs, hidden, &dout[0], &h[0], &save[0], &dgh[0], &dh[0])
}

func rowMaxVecs(x []float32) float32 { return rowMaxNEON(len(x), &x[0]) }

func rowExp(groups int, x, p []float32, tail *float32, top, invTemp float32) (sum, dot float32) {
	return rowExpNEON(groups, &x[0], &p[0], tail, top, invTemp)
}

func entropyGradVecs(groups int, d, p []float32, g, ge, h float32) {
	entropyGradNEON(groups, &d[0], &p[0], g, ge, h)
}

func swiGLUVecs(groups int, g, u, out []float32) { swiGLUNEON(groups, &g[0], &u[0], &out[0]) }

func swiGLUGradVecs(groups int, g, u, d []float32) { swiGLUGradNEON(groups, &g[0], &u[0], &d[0]) }

// Peak runs iterations of register-only multiply-adds and returns their number of
// floating-point operations: see that of amd64.
func Peak(turns int) (flops float64) {
	if turns < 1 || active == pathGo {
		return 0
	}
	peakNEON(turns)
	const sums = 24 // independent ones: four pipes with a latency of four cycles need 16
	return 2 * sums * float64(vectorLanes()) * float64(turns)
}
