package tinylm

import "math"

// Simple float64 references of the fused ops, on the packed layout. Output entries that no sequence
// uses are NaN: the tests do not compare them, send no gradient there, and poison them.

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

func refLinear(x, w []float64, first, rows, in, out, capRows int) []float64 {
	y := nans(capRows * out)
	for i := range rows {
		for o := range out {
			var s float64
			for k := range in {
				s += x[(first+i)*in+k] * w[o*in+k]
			}
			y[i*out+o] = s
		}
	}
	return y
}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// refGRUCell is one step for one sequence.
func refGRUCell(gi, h, whh, bih, bhh []float64) []float64 {
	n := len(h)
	gh := func(row int) float64 {
		s := bhh[row]
		for k := range n {
			s += whh[row*n+k] * h[k]
		}
		return s
	}
	out := make([]float64, n)
	for j := range n {
		r := sigmoid64(gi[j] + bih[j] + gh(j))
		z := sigmoid64(gi[n+j] + bih[n+j] + gh(n+j))
		c := math.Tanh(gi[2*n+j] + bih[2*n+j] + r*gh(2*n+j))
		out[j] = (1-z)*c + z*h[j]
	}
	return out
}

func refGRU(gi, h0, whh, bih, bhh []float64, active []int, h, capRows int) []float64 {
	out := nans(capRows * h)
	for i := range active[0] * h {
		out[i] = 0
		if h0 != nil {
			out[i] = h0[i]
		}
	}
	prev, at, in := 0, active[0], 0
	for _, n := range active[1:] {
		for r := range n {
			copy(out[(at+r)*h:], refGRUCell(gi[(in+r)*3*h:(in+r+1)*3*h], out[(prev+r)*h:(prev+r+1)*h], whh, bih, bhh))
		}
		prev, at, in = at, at+n, in+n
	}
	return out
}

// refHeadRow returns log-probability of the target and entropy.
func refHeadRow(x, w, b []float64, target int, temperature float64) (logp, entropy float64) {
	v, h := len(b), len(x)
	logits := make([]float64, v)
	peak := math.Inf(-1)
	for o := range v {
		logits[o] = b[o]
		for k := range h {
			logits[o] += w[o*h+k] * x[k]
		}
		logits[o] /= temperature
		peak = math.Max(peak, logits[o])
	}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(l - peak)
	}
	lse := peak + math.Log(sum)
	for _, l := range logits {
		entropy -= math.Exp(l-lse) * (l - lse)
	}
	return logits[target] - lse, entropy
}

func refValue(x, w []float64, b float64) float64 {
	for k := range x {
		b += w[k] * x[k]
	}
	return b
}
