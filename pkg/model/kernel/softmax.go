package kernel

import "fmt"

// LogSoftmaxGather computes, for each of rows rows of n logits x, with
// p = softmax(x·invTemp), t the row's target and natural logarithms:
//
//	z_j = (x_j - max x)·invTemp,  S = Σ exp z_j,  p_j = exp(z_j)/S
//	logp    = log p_t = z_t - log S
//	entropy = -Σ p_j·log p_j = log S - Σ exp(z_j)·z_j / S
//
// logits and probs are rows×n and may be the same slice; logp, entropy and
// targets have rows elements. A logit of -Inf has probability 0 and adds
// nothing to the entropy; a NaN or +Inf makes its row NaN. invTemp must be
// positive.
//
// It panics if a slice is too short or a target outside [0, n).
func LogSoftmaxGather(rows, n int, logits []float32, invTemp float32, targets []int, logp []float32,
	entropy []float32, probs []float32) {
	checkTargets(rows, n, targets)
	checkLen("logits", logits, rows*n)
	checkLen("probs", probs, rows*n)
	checkLen("logp", logp, rows)
	checkLen("entropy", entropy, rows)
	for i := range rows {
		x := logits[i*n : (i+1)*n]
		xt := x[targets[i]] // before x is overwritten, if it is
		top, sum, dot := softmaxRow(x, invTemp, probs[i*n:(i+1)*n])
		ls := logSum(sum)
		logp[i] = shifted(xt, top, invTemp) - ls
		entropy[i] = ls - dot/sum
	}
}

// Softmax writes softmax(logits·invTemp) of one row of n logits to probs, which
// may be the same slice. The log-probability of element j, with the bits that
// [LogSoftmaxGather] gives, is (logits[j]-max)*invTemp - logSum: see [LogProb]. The
// entropy has its bits too.
func Softmax(n int, logits []float32, invTemp float32, probs []float32) (max, logSumExp, entropy float32) {
	checkLen("logits", logits, n)
	checkLen("probs", probs, n)
	if n == 0 {
		return 0, 0, 0
	}
	top, sum, dot := softmaxRow(logits[:n], invTemp, probs[:n])
	ls := logSum(sum)
	return top, ls, ls - dot/sum
}

// LogProb returns the log-probability of a logit from the results of [Softmax].
func LogProb(logit, max, invTemp, logSumExp float32) float32 {
	return shifted(logit, max, invTemp) - logSumExp
}

// shifted is z of the formulas above. The conversion keeps the compiler from
// fusing the product with a later subtraction.
func shifted(x, top, invTemp float32) float32 { return float32((x - top) * invTemp) }

// lanes is the number of interleaved partial sums of a row, on every path.
const lanes = 16

// softmaxRowGo writes the softmax of x to p and returns max x, the sum S of the
// exponentials and their dot product with z. Element j belongs to lane j mod 16.
func softmaxRowGo(x []float32, invTemp float32, p []float32) (top, sum, dot float32) {
	top = maxOf(x[0], x)
	var s, d [lanes]float32
	for j, v := range x {
		z := shifted(v, top, invTemp)
		e := exp32(z)
		p[j] = e
		s[j%lanes] += e
		// Below expMin e is 0; the bound keeps 0·(-Inf) out of the sum.
		d[j%lanes] += float32(e * max(expMin, z))
	}
	sum, dot = fold(&s), fold(&d)
	inv := 1 / sum
	for j := range p {
		p[j] *= inv
	}
	return top, sum, dot
}

// maxOf returns the largest of top and x, without regard to NaN.
func maxOf(top float32, x []float32) float32 {
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// fold adds the partial sums in the order in which vectors are halved.
func fold(s *[lanes]float32) float32 {
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			s[i] += s[i+w]
		}
	}
	return s[0]
}

// LogSoftmaxBackward computes the gradient of the logits from those of the log-probability and the
// entropy, with H the row's entropy:
//
//	dlogits_j = invTemp·( dlogp·([j = t] - p_j) - dentropy·p_j·(log p_j + H) )
//
// probs (rows×n), logp and entropy are what [LogSoftmaxGather] wrote for the same targets. dlogp
// and dentropy have rows elements; a nil dentropy means zeros, and then logp and entropy are not
// read. dlogits may be the same slice as probs. Where p_j = 0, p_j·log p_j counts as 0.
//
// It panics if a slice is too short or a target outside [0, n).
func LogSoftmaxBackward(rows, n int, probs []float32, logp, entropy []float32, targets []int, dlogp,
	dentropy []float32, invTemp float32, dlogits []float32) {
	checkTargets(rows, n, targets)
	checkLen("probs", probs, rows*n)
	checkLen("dlogits", dlogits, rows*n)
	checkLen("dlogp", dlogp, rows)
	if dentropy != nil {
		checkLen("logp", logp, rows)
		checkLen("entropy", entropy, rows)
		checkLen("dentropy", dentropy, rows)
	}
	for i := range rows {
		p, d := probs[i*n:(i+1)*n], dlogits[i*n:(i+1)*n]
		g := float32(invTemp * dlogp[i])
		if dentropy == nil || dentropy[i] == 0 {
			scaleTo(d, p, -g)
		} else {
			entropyGrad(d, p, -g, -(invTemp * dentropy[i]), entropy[i])
		}
		d[targets[i]] += g
	}
}

// entropyGradGo sets d_j = p_j·(g + ge·(log p_j + h)). Below 2⁻¹²⁶ it takes log p at 2⁻¹²⁶: finite,
// so that p = 0 gives 0, and too small to matter.
func entropyGradGo(d, p []float32, g, ge, h float32) {
	for j, v := range p {
		d[j] = v * (float32(ge*(log32(max(v, 0x1p-126))+h)) + g)
	}
}

// scaleToGo sets d = s·x.
func scaleToGo(d, x []float32, s float32) {
	for j, v := range x {
		d[j] = s * v
	}
}

func checkTargets(rows, n int, targets []int) {
	if rows < 0 || n < 0 {
		panic(fmt.Sprintf("kernel: %d rows of %d logits: negative size", rows, n))
	}
	if len(targets) < rows {
		panic(fmt.Sprintf("kernel: targets: %d elements, want at least %d", len(targets), rows))
	}
	for i, t := range targets[:rows] {
		if t < 0 || t >= n {
			panic(fmt.Sprintf("kernel: target %d of row %d is outside [0, %d)", t, i, n))
		}
	}
}
