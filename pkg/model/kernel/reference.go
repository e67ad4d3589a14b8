package kernel

import "math"

// The references are the kernels' formulas in readable float64. Tests compare the kernels with
// them; finite-difference tests of other packages may use them too.

// ReferenceGemm is [Gemm] in float64.
func ReferenceGemm(transA, transB bool, m, n, k int, a []float64, lda int, b []float64, ldb int,
	accumulate bool, c []float64, ldc int) {
	at := func(x []float64, ld int, trans bool, i, j int) float64 {
		if trans {
			i, j = j, i
		}
		return x[i*ld+j]
	}
	for i := range m {
		for j := range n {
			sum := 0.0
			for p := range k {
				sum += at(a, lda, transA, i, p) * at(b, ldb, transB, p, j)
			}
			if accumulate {
				sum += c[i*ldc+j]
			}
			c[i*ldc+j] = sum
		}
	}
}

// ReferenceGRUForward is [GRUForward] in float64.
func ReferenceGRUForward(rows, hidden int, gi, gh, bih, bhh, h, out, save []float64) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	at := func(x, bias []float64, i, gate, j int) float64 {
		v := x[(i*3+gate)*hidden+j]
		if bias != nil {
			v += bias[gate*hidden+j]
		}
		return v
	}
	for i := range rows {
		for j := range hidden {
			r := sigmoid(at(gi, bih, i, 0, j) + at(gh, bhh, i, 0, j))
			z := sigmoid(at(gi, bih, i, 1, j) + at(gh, bhh, i, 1, j))
			ghn := at(gh, bhh, i, 2, j)
			n := math.Tanh(at(gi, bih, i, 2, j) + r*ghn)
			out[i*hidden+j] = (1-z)*n + z*h[i*hidden+j]
			if save != nil {
				for gate, v := range [4]float64{r, z, n, ghn} {
					save[(i*4+gate)*hidden+j] = v
				}
			}
		}
	}
}

// ReferenceGRUBackward is [GRUBackward] in float64.
func ReferenceGRUBackward(rows, hidden int, dout, h, save, dgi, dgh, dh []float64) {
	for i := range rows {
		for j := range hidden {
			saved := func(gate int) float64 { return save[(i*4+gate)*hidden+j] }
			r, z, n, ghn := saved(0), saved(1), saved(2), saved(3)
			g := dout[i*hidden+j]
			dan := g * (1 - z) * (1 - n*n)
			daz := g * (h[i*hidden+j] - n) * z * (1 - z)
			dar := dan * ghn * r * (1 - r)
			for gate, v := range [3]float64{dar, daz, dan} {
				dgi[(i*3+gate)*hidden+j] = v
				dgh[(i*3+gate)*hidden+j] = v
			}
			dgh[(i*3+2)*hidden+j] = dan * r
			dh[i*hidden+j] = g * z
		}
	}
}

// ReferenceLogSoftmaxGather is [LogSoftmaxGather] in float64.
func ReferenceLogSoftmaxGather(rows, n int, logits []float64, invTemp float64, targets []int, logp,
	entropy, probs []float64) {
	for i := range rows {
		x, p := logits[i*n:(i+1)*n], probs[i*n:(i+1)*n]
		top, sum := math.Inf(-1), 0.0
		for _, v := range x {
			top = math.Max(top, v)
		}
		for _, v := range x {
			sum += math.Exp((v - top) * invTemp)
		}
		logp[i] = (x[targets[i]]-top)*invTemp - math.Log(sum)
		entropy[i] = 0
		for j, v := range x {
			logProb := (v-top)*invTemp - math.Log(sum)
			p[j] = math.Exp(logProb)
			if p[j] > 0 {
				entropy[i] -= p[j] * logProb
			}
		}
	}
}

// ReferenceLogSoftmaxBackward is [LogSoftmaxBackward] in float64.
func ReferenceLogSoftmaxBackward(rows, n int, probs, entropy []float64, targets []int, dlogp,
	dentropy []float64, invTemp float64, dlogits []float64) {
	for i := range rows {
		for j := range n {
			p := probs[i*n+j]
			d := -dlogp[i] * p
			if j == targets[i] {
				d += dlogp[i]
			}
			if dentropy != nil && p > 0 {
				d -= dentropy[i] * p * (math.Log(p) + entropy[i])
			}
			dlogits[i*n+j] = invTemp * d
		}
	}
}

// ReferenceRMSNorm is [RMSNorm] in float64.
func ReferenceRMSNorm(rows, n int, x, w []float64, eps float64, y, rstd []float64) {
	for i := range rows {
		square := 0.0
		for _, v := range x[i*n : (i+1)*n] {
			square += v * v
		}
		rstd[i] = 1 / math.Sqrt(square/float64(n)+eps)
		for j := range n {
			y[i*n+j] = x[i*n+j] * rstd[i] * w[j]
		}
	}
}

// ReferenceRMSNormBackward is [RMSNormBackward] in float64.
func ReferenceRMSNormBackward(rows, n int, x, w, rstd, dy, dx, dw []float64) {
	for i := range rows {
		mean := 0.0
		for j := range n {
			mean += dy[i*n+j] * w[j] * x[i*n+j] / float64(n)
		}
		for j := range n {
			dw[j] += dy[i*n+j] * x[i*n+j] * rstd[i]
			dx[i*n+j] += rstd[i] * (dy[i*n+j]*w[j] - x[i*n+j]*rstd[i]*rstd[i]*mean)
		}
	}
}

// ReferenceRoPE is [RoPE] in float64, with angles instead of cosines and sines.
func ReferenceRoPE(rows, heads, dim int, x []float64, ldx int, angles []float64, sign float64) {
	half := dim / 2
	for i := range rows {
		for h := range heads {
			for j := range half {
				at := i*ldx + h*dim + j
				sin, cos := math.Sincos(sign * angles[i*half+j])
				u, v := x[at], x[at+half]
				x[at], x[at+half] = u*cos-v*sin, u*sin+v*cos
			}
		}
	}
}

// ReferenceSwiGLU is [SwiGLU] in float64.
func ReferenceSwiGLU(rows, n int, gu, out []float64) {
	for i := range rows {
		for j := range n {
			g, u := gu[2*i*n+j], gu[(2*i+1)*n+j]
			out[i*n+j] = g / (1 + math.Exp(-g)) * u
		}
	}
}

// ReferenceSwiGLUBackward is [SwiGLUBackward] in float64.
func ReferenceSwiGLUBackward(rows, n int, gu, da []float64) {
	for i := range rows {
		for j := range n {
			g, u, d := gu[2*i*n+j], gu[(2*i+1)*n+j], da[i*n+j]
			s := 1 / (1 + math.Exp(-g))
			gu[2*i*n+j] = d * u * s * (1 + g*(1-s))
			gu[(2*i+1)*n+j] = d * g * s
		}
	}
}

// ReferenceSoftmaxBackward is [SoftmaxBackward] in float64.
func ReferenceSoftmaxBackward(p, d []float64, scale float64) {
	dot := 0.0
	for j, v := range p {
		dot += v * d[j]
	}
	for j, v := range p {
		d[j] = scale * v * (d[j] - dot)
	}
}

// ReferenceAdamW is [AdamW] in float64.
func ReferenceAdamW(w, g, m, v []float64, lr, beta1, beta2, eps, weightDecay, gradScale float64, t int) {
	for i := range w {
		gi := g[i] * gradScale
		w[i] *= 1 - lr*weightDecay
		m[i] = beta1*m[i] + (1-beta1)*gi
		v[i] = beta2*v[i] + (1-beta2)*gi*gi
		mHat := m[i] / (1 - math.Pow(beta1, float64(t)))
		vHat := v[i] / (1 - math.Pow(beta2, float64(t)))
		w[i] -= lr * mHat / (math.Sqrt(vHat) + eps)
	}
}
