package kernel

// rows cuts rows into tasks, so that each result has the bits of the plain version. n is
// the number of elements of a row.
func (p *Pool) rows(rows, n int, f func(lo, hi int)) {
	if p.Threads() == 1 || rows*n < minShareSum {
		f(0, rows)
		return
	}
	height := (rows + shareTasks*p.threads - 1) / (shareTasks * p.threads)
	p.Run((rows+height-1)/height, func(task, _ int) { f(task*height, min(rows, (task+1)*height)) })
}

// elements cuts n numbers into tasks. What is done to each must not depend on the cut.
func (p *Pool) elements(n int, f func(lo, hi int)) {
	const few = 1 << 18 // TinyLM has fewer: splitting them saves nothing
	if p.Threads() == 1 || n < few {
		f(0, n)
		return
	}
	size := roundUp((n+shareTasks*p.threads-1)/(shareTasks*p.threads), lanes)
	p.Run((n+size-1)/size, func(task, _ int) { f(task*size, min(n, (task+1)*size)) })
}

// Clear sets x to zero.
func (p *Pool) Clear(x []float32) { p.elements(len(x), func(lo, hi int) { clear(x[lo:hi]) }) }

// Add adds x to y, of the same length.
func (p *Pool) Add(y, x []float32) {
	p.elements(len(y), func(lo, hi int) { Axpy(1, x[lo:hi], y[lo:hi]) })
}

// SoftCap is [SoftCap] over the pool's threads, with the same bits.
func (p *Pool) SoftCap(x []float32, scale, c float32, slope []float32) {
	p.elements(len(x), func(lo, hi int) {
		var s []float32
		if slope != nil {
			s = slope[lo:hi]
		}
		SoftCap(x[lo:hi], scale, c, s)
	})
}

// Multiply is [Multiply] over the pool's threads, with the same bits.
func (p *Pool) Multiply(y, x []float32) {
	p.elements(len(y), func(lo, hi int) { Multiply(y[lo:hi], x[lo:hi]) })
}

// RMSNorm is [RMSNorm] over the pool's threads, with the same bits.
func (p *Pool) RMSNorm(rows, n int, x, w []float32, eps float64, y, rstd []float32) {
	p.rows(rows, n, func(lo, hi int) {
		var r []float32
		if rstd != nil {
			r = rstd[lo:hi]
		}
		RMSNorm(hi-lo, n, x[lo*n:], w, eps, y[lo*n:], r)
	})
}

// RMSNormBackward is [RMSNormBackward] over the pool's threads, with the same bits: dx is
// cut by rows, dw by columns.
func (p *Pool) RMSNormBackward(rows, n int, x, w, rstd, dy, dx, dw []float32) {
	if p.Threads() == 1 || rows*n < minShareSum {
		RMSNormBackward(rows, n, x, w, rstd, dy, dx, dw)
		return
	}
	checkNormBackward(rows, n, x, w, rstd, dy, dx, dw)
	p.rows(rows, n, func(lo, hi int) { normInputGrad(hi-lo, n, x[lo*n:], w, rstd[lo:], dy[lo*n:], dx[lo*n:]) })
	if dw != nil {
		p.columns(n, func(lo, hi int) { normWeightGrad(rows, hi-lo, x[lo:], n, rstd, dy[lo:], dw[lo:]) })
	}
}

// RoPE is [RoPE] over the pool's threads, with the same bits.
func (p *Pool) RoPE(rows, heads, dim int, x []float32, ldx int, cos, sin []float32, sign float32) {
	half := dim / 2
	p.rows(rows, heads*dim, func(lo, hi int) {
		RoPE(hi-lo, heads, dim, x[lo*ldx:], ldx, cos[lo*half:], sin[lo*half:], sign)
	})
}

// SwiGLU is [SwiGLU] over the pool's threads, with the same bits.
func (p *Pool) SwiGLU(rows, n int, gu, out []float32) {
	p.rows(rows, n, func(lo, hi int) { SwiGLU(hi-lo, n, gu[2*lo*n:], out[lo*n:]) })
}

// SwiGLUBackward is [SwiGLUBackward] over the pool's threads, with the same bits.
func (p *Pool) SwiGLUBackward(rows, n int, gu, da []float32) {
	p.rows(rows, n, func(lo, hi int) { SwiGLUBackward(hi-lo, n, gu[2*lo*n:], da[lo*n:]) })
}

// GeGLU is [GeGLU] over the pool's threads, with the same bits.
func (p *Pool) GeGLU(rows, n int, gu, out []float32) {
	p.rows(rows, n, func(lo, hi int) { GeGLU(hi-lo, n, gu[2*lo*n:], out[lo*n:]) })
}

// GeGLUBackward is [GeGLUBackward] over the pool's threads, with the same bits.
func (p *Pool) GeGLUBackward(rows, n int, gu, da []float32) {
	p.rows(rows, n, func(lo, hi int) { GeGLUBackward(hi-lo, n, gu[2*lo*n:], da[lo*n:]) })
}

// AddBias is [AddBias] over the pool's threads, with the same bits.
func (p *Pool) AddBias(rows, n int, x []float32, ldx int, bias []float32) {
	p.rows(rows, n, func(lo, hi int) { AddBias(hi-lo, n, x[lo*ldx:], ldx, bias) })
}

// LogSoftmaxGather is [LogSoftmaxGather] over the pool's threads, with the same bits.
func (p *Pool) LogSoftmaxGather(rows, n int, logits []float32, invTemp float32, targets []int, logp,
	entropy, probs []float32) {
	checkTargets(rows, n, targets) // a panic on another goroutine would end the program
	p.rows(rows, n, func(lo, hi int) {
		LogSoftmaxGather(hi-lo, n, logits[lo*n:], invTemp, targets[lo:hi], logp[lo:], entropy[lo:], probs[lo*n:])
	})
}

// LogSoftmaxBackward is [LogSoftmaxBackward] over the pool's threads, with the same bits.
func (p *Pool) LogSoftmaxBackward(rows, n int, probs, logp, entropy []float32, targets []int, dlogp,
	dentropy []float32, invTemp float32, dlogits []float32) {
	checkTargets(rows, n, targets)
	p.rows(rows, n, func(lo, hi int) {
		lp, h, dh := logp, entropy, dentropy
		if dentropy != nil {
			lp, h, dh = logp[lo:], entropy[lo:], dentropy[lo:]
		}
		LogSoftmaxBackward(hi-lo, n, probs[lo*n:], lp, h, targets[lo:hi], dlogp[lo:], dh, invTemp, dlogits[lo*n:])
	})
}
