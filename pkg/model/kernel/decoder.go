package kernel

import "math"

// RMSNorm normalises rows of n elements by their root mean square (Zhang and Sennrich,
// 2019): y = x·rstd·w with rstd = 1/√(mean(x²)+eps). x and y are rows×n and may be the
// same slice; rstd gets a number for each row and may be nil.
//
// It panics if a slice is too short, as do the other functions of this file.
func RMSNorm(rows, n int, x, w []float32, eps float64, y, rstd []float32) {
	checkLen("x", x, rows*n)
	checkLen("y", y, rows*n)
	checkLen("w", w, n)
	if rstd != nil {
		checkLen("rstd", rstd, rows)
	}
	for i := range rows {
		xi := x[i*n : (i+1)*n]
		r := float32(1 / math.Sqrt(sumSquares(xi)/float64(n)+eps))
		if rstd != nil {
			rstd[i] = r
		}
		normScale(y[i*n:(i+1)*n], xi, w[:n], r)
	}
}

// RMSNormBackward adds the gradients of [RMSNorm] to dx and dw, from its inputs and dy:
//
//	dw_j += Σ_rows dy_j·x_j·rstd
//	dx_j += rstd·(dy_j·w_j - x_j·rstd²·mean(dy·w·x))
//
// x, dy and dx are rows×n; dw is nil if the weights are frozen. Each dw_j is added up in
// ascending order of rows; the mean has 16 interleaved partial sums in float64.
func RMSNormBackward(rows, n int, x, w, rstd, dy, dx, dw []float32) {
	checkNormBackward(rows, n, x, w, rstd, dy, dx, dw)
	normInputGrad(rows, n, x, w, rstd, dy, dx)
	if dw != nil {
		normWeightGrad(rows, n, x, n, rstd, dy, dw)
	}
}

func checkNormBackward(rows, n int, x, w, rstd, dy, dx, dw []float32) {
	checkLen("x", x, rows*n)
	checkLen("w", w, n)
	checkLen("rstd", rstd, rows)
	checkLen("dy", dy, rows*n)
	checkLen("dx", dx, rows*n)
	if dw != nil {
		checkLen("dw", dw, n)
	}
}

// normInputGrad adds the gradient of x to dx.
func normInputGrad(rows, n int, x, w, rstd, dy, dx []float32) {
	for i := range rows {
		xi, gi, r := x[i*n:(i+1)*n], dy[i*n:(i+1)*n], rstd[i]
		c := float32(dot3(gi, w[:n], xi) / float64(n) * float64(r) * float64(r))
		normInputGradRow(xi, w, gi, dx[i*n:(i+1)*n], r, c)
	}
}

// RoPE rotates pairs of elements of heads by their position (Su et al., 2021), in the
// layout of Hugging Face: elements j and j+dim/2 of a head are a pair. x holds rows of
// heads·dim elements, ldx apart; cos and sin hold dim/2 numbers for each row. sign is 1,
// or -1 for the gradient, which rotates back.
func RoPE(rows, heads, dim int, x []float32, ldx int, cos, sin []float32, sign float32) {
	half := dim / 2
	checkMatrix("x", rows, heads*dim, x, ldx)
	checkLen("cos", cos, rows*half)
	checkLen("sin", sin, rows*half)
	for i := range rows {
		rotate(heads, half, x[i*ldx:i*ldx+heads*dim], cos[i*half:(i+1)*half], sin[i*half:(i+1)*half], sign)
	}
}

// SwiGLU writes silu(g)·u to out (Shazeer, 2020), with silu(g) = g/(1+e⁻ᵍ). gu holds
// rows of 2n elements, g before u; out is rows×n.
func SwiGLU(rows, n int, gu, out []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("out", out, rows*n)
	for i := range rows {
		swiGLU(gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], out[i*n:(i+1)*n])
	}
}

// SwiGLUBackward overwrites gu with the gradients of g and u, from da, the gradient of
// [SwiGLU]'s output: du = da·silu(g), dg = da·u·σ(g)·(1 + g·(1 - σ(g))).
func SwiGLUBackward(rows, n int, gu, da []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("da", da, rows*n)
	for i := range rows {
		swiGLUGrad(gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], da[i*n:(i+1)*n])
	}
}

// SoftmaxBackward overwrites d, the gradient of p = softmax(scale·x), with that of x for
// one row: dx_j = scale·p_j·(d_j - Σ p·d). The sum has 16 interleaved partial sums in
// float64. p and d have the same length.
func SoftmaxBackward(p, d []float32, scale float32) {
	sameLen("d", len(p), len(d))
	softmaxGrad(p, d, float32(dot(p, d)), scale)
}

// The portable versions follow. A product that must not be fused with a sum is
// converted to its type.

func normScaleGo(y, x, w []float32, s float32) {
	for j, v := range x {
		y[j] = float32(v*s) * w[j]
	}
}

// dot3Go adds the products of float64(a·b), which is exact, and c to 16 partial sums.
func dot3Go(a, b, c []float32, s *[lanes]float64) {
	for j, v := range a {
		s[j%lanes] += float64(float64(v) * float64(b[j]) * float64(c[j]))
	}
}

func dotGo(a, b []float32, s *[lanes]float64) {
	for j, v := range a {
		s[j%lanes] += float64(float64(v) * float64(b[j]))
	}
}

func softmaxGradGo(p, d []float32, dot, scale float32) {
	for j, v := range p {
		d[j] = float32(v*(d[j]-dot)) * scale
	}
}

func normInputGradGo(x, w, dy, dx []float32, rstd, c float32) {
	for j, g := range dy {
		dx[j] += float32(rstd * (float32(g*w[j]) - float32(x[j]*c)))
	}
}

// normWeightGradGo sums the first n columns of rows that are ld apart.
func normWeightGradGo(rows, n int, x []float32, ld int, rstd, dy, dw []float32) {
	for i := range rows {
		xi, r := x[i*ld:i*ld+n], rstd[i]
		for j, g := range dy[i*ld : i*ld+n] {
			dw[j] += float32(g * float32(xi[j]*r))
		}
	}
}

// rotateGo rotates the pairs from the given one on.
func rotateGo(heads, half, from int, x, cos, sin []float32, sign float32) {
	for h := range heads {
		a, b := x[2*h*half:(2*h+1)*half], x[(2*h+1)*half:(2*h+2)*half]
		for j := from; j < half; j++ {
			u, v, s := a[j], b[j], sign*sin[j]
			a[j] = float32(u*cos[j]) - float32(v*s)
			b[j] = float32(v*cos[j]) + float32(u*s)
		}
	}
}

func swiGLUGo(g, u, out []float32) {
	for j, v := range g {
		out[j] = float32(v*sigmoid32(v)) * u[j]
	}
}

func swiGLUGradGo(g, u, d []float32) {
	for j, v := range g {
		s := sigmoid32(v)
		dg := float32(float32(d[j]*u[j])*s) * (1 + float32(v*(1-s)))
		u[j] = d[j] * float32(v*s)
		g[j] = dg
	}
}
