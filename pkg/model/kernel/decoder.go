package kernel

import "math"

// RMSNorm normalises rows of n elements by their root mean square (Zhang and Sennrich,
// 2019): y = x·rstd·w with rstd = 1/√(mean(x²)+eps). x and y are rows×n and may be the
// same slice; rstd gets a number for each row and may be nil.
func RMSNorm(rows, n int, x, w []float32, eps float64, y, rstd []float32) {
	checkLen("x", x, rows*n)
	checkLen("y", y, rows*n)
	checkLen("w", w, n)
	for i := range rows {
		xi, yi := x[i*n:(i+1)*n], y[i*n:(i+1)*n]
		r := float32(1 / math.Sqrt(SumSquares(xi)/float64(n)+eps))
		if rstd != nil {
			rstd[i] = r
		}
		for j, v := range xi {
			yi[j] = float32(v*r) * w[j]
		}
	}
}

// RMSNormBackward adds the gradients of [RMSNorm] to dx and dw, from its inputs and dy:
//
//	dw_j += Σ_rows dy_j·x_j·rstd
//	dx_j += rstd·(dy_j·w_j - x_j·rstd²·mean(dy·w·x))
//
// x, dy and dx are rows×n.
func RMSNormBackward(rows, n int, x, w, rstd, dy, dx, dw []float32) {
	checkLen("x", x, rows*n)
	checkLen("dy", dy, rows*n)
	checkLen("dx", dx, rows*n)
	checkLen("dw", dw, n)
	for i := range rows {
		xi, gi, di, r := x[i*n:(i+1)*n], dy[i*n:(i+1)*n], dx[i*n:(i+1)*n], rstd[i]
		dot := 0.0
		for j, g := range gi {
			dot += float64(g) * float64(w[j]) * float64(xi[j])
		}
		c := float32(dot / float64(n) * float64(r) * float64(r))
		for j, g := range gi {
			dw[j] += float32(g * float32(xi[j]*r))
			di[j] += float32(r * (float32(g*w[j]) - float32(xi[j]*c)))
		}
	}
}

// RoPE rotates pairs of elements of heads by their position (Su et al., 2021), in the
// layout of Hugging Face: elements j and j+dim/2 of a head are a pair. x holds rows of
// heads·dim elements, ldx apart; cos and sin hold dim/2 numbers for each row. sign is 1,
// or -1 for the gradient, which rotates back.
func RoPE(rows, heads, dim int, x []float32, ldx int, cos, sin []float32, sign float32) {
	half := dim / 2
	checkLen("cos", cos, rows*half)
	checkLen("sin", sin, rows*half)
	for i := range rows {
		c, s := cos[i*half:(i+1)*half], sin[i*half:(i+1)*half]
		for h := range heads {
			a := x[i*ldx+h*dim : i*ldx+h*dim+half]
			b := x[i*ldx+h*dim+half : i*ldx+(h+1)*dim]
			for j := range half {
				u, v, sj := a[j], b[j], sign*s[j]
				a[j] = float32(u*c[j]) - float32(v*sj)
				b[j] = float32(v*c[j]) + float32(u*sj)
			}
		}
	}
}

// SwiGLU writes silu(g)·u to out (Shazeer, 2020), with silu(g) = g/(1+e⁻ᵍ). gu holds
// rows of 2n elements, g before u; out is rows×n.
func SwiGLU(rows, n int, gu, out []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("out", out, rows*n)
	for i := range rows {
		g, u, o := gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], out[i*n:(i+1)*n]
		for j, v := range g {
			o[j] = float32(v*sigmoid32(v)) * u[j]
		}
	}
}

// SwiGLUBackward overwrites gu with the gradients of g and u, from da, the gradient of
// [SwiGLU]'s output: du = da·silu(g), dg = da·u·σ(g)·(1 + g·(1 - σ(g))).
func SwiGLUBackward(rows, n int, gu, da []float32) {
	checkLen("gu", gu, rows*2*n)
	checkLen("da", da, rows*n)
	for i := range rows {
		g, u, d := gu[2*i*n:(2*i+1)*n], gu[(2*i+1)*n:(2*i+2)*n], da[i*n:(i+1)*n]
		for j, v := range g {
			s := sigmoid32(v)
			dg := float32(float32(d[j]*u[j])*s) * (1 + float32(v*(1-s)))
			u[j] = float32(d[j] * float32(v*s))
			g[j] = dg
		}
	}
}
