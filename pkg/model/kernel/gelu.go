package kernel

// GELU with the approximation of Hendrycks and Gimpel (2016), which PyTorch calls tanh:
//
//	gelu(x) = x/2·(1 + tanh z) = x·σ(2z), z = √(2/π)·(x + 0.044715·x³)
//
// There is one version for every processor: it takes a few percent of a network's time.
const (
	geluSlope float32 = 1.5957691216057308 // 2·√(2/π)
	geluCubic float32 = 0.044715
)

// GeGLU writes gelu(g)·u to out (Shazeer, 2020). gu holds rows of 2n elements, g before u; out is
// rows×n.
func GeGLU(rows, n int, gu, out []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("out", out, rows*n)
	for i := range rows {
		g, u, out := gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], out[i*n:(i+1)*n]
		for j, v := range g {
			s, _ := geluGate(v)
			out[j] = float32(v*s) * u[j]
		}
	}
}

// GeGLUBackward overwrites gu with the gradients of g and u, from da, the gradient of [GeGLU]'s
// output: du = da·gelu(g), dg = da·u·gelu'(g).
func GeGLUBackward(rows, n int, gu, da []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("da", da, rows*n)
	for i := range rows {
		g, u, d := gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], da[i*n:(i+1)*n]
		for j, v := range g {
			s, slope := geluGate(v)
			dg := float32(d[j]*u[j]) * (s + float32(float32(v*slope)*float32(s*(1-s))))
			u[j] = d[j] * float32(v*s)
			g[j] = dg
		}
	}
}

// geluGate returns σ(2z) and the derivative of 2z.
func geluGate(x float32) (gate, slope float32) {
	square := float32(x * x)
	cubic := float32(geluCubic * square)
	return sigmoid32(float32(float32(geluSlope*x) * (1 + cubic))), float32(geluSlope * (1 + float32(3*cubic)))
}
