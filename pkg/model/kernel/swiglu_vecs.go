//go:build (amd64 || arm64) && !noasm

package kernel

func swiGLU(g, u, out []float32) {
	if active == pathGo {
		swiGLUGo(g, u, out)
		return
	}
	groups := len(g) / lanes
	if groups > 0 {
		swiGLUVecs(groups, g, u, out)
	}
	if done := groups * lanes; done < len(g) {
		var pg, pu, po [lanes]float32
		copy(pg[:], g[done:])
		copy(pu[:], u[done:])
		swiGLUVecs(1, pg[:], pu[:], po[:])
		copy(out[done:], po[:])
	}
}

func swiGLUGrad(g, u, d []float32) {
	if active == pathGo {
		swiGLUGradGo(g, u, d)
		return
	}
	groups := len(g) / lanes
	if groups > 0 {
		swiGLUGradVecs(groups, g, u, d)
	}
	if done := groups * lanes; done < len(g) {
		var pg, pu, pd [lanes]float32
		copy(pg[:], g[done:])
		copy(pu[:], u[done:])
		copy(pd[:], d[done:])
		swiGLUGradVecs(1, pg[:], pu[:], pd[:])
		copy(g[done:], pg[:])
		copy(u[done:], pu[:])
	}
}
