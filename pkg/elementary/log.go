package elementary

import "math"

// logPoly are the coefficients of log(1+f) in s = f/(2+f), those of s¹⁴ to s².
var logPoly = [...]float64{1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
	2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01}

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	// x = (1+f)·2ᵏ. As in the original, a subnormal number is not normalised: see Go issue 9546.
	bits := math.Float64bits(x)
	m, k := math.Float64frombits(bits&(1<<52-1)|0x3fe0000000000000), float64(int(bits>>52)-0x3fe)
	if m <= math.Sqrt2/2 {
		m *= 2
		k--
	}
	f := m - 1
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	odd, even := logPoly[0], logPoly[1]
	for i := 2; i < len(logPoly); i += 2 {
		odd = logPoly[i] + float64(s4*odd)
	}
	for i := 3; i < len(logPoly); i += 2 {
		even = logPoly[i] + float64(s4*even)
	}
	r := float64(s2*odd) + float64(s4*even)
	half := float64(float64(0.5*f) * f)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+r)) + float64(k*ln2Lo))) - f)
}

// Log1p returns log(1+x) without loss of digits near 0.
func Log1p(x float64) float64 {
	const (
		sqrt2Less1     = 4.142135623730950488017e-01
		sqrt2HalfLess1 = -2.928932188134524755992e-01
		small          = 1.0 / (1 << 29)
		tiny           = 1.0 / (1 << 54)
		two53          = 1 << 53
		sqrt2Mantissa  = 0x0006a09e667f3bcd
	)
	size := math.Abs(x)
	switch {
	case x < -1 || x != x:
		return math.NaN()
	case x == -1:
		return math.Inf(-1)
	case x > math.MaxFloat64:
		return x
	case size < tiny:
		return x
	case size < small:
		return x - float64(float64(x*x)*0.5)
	}
	// 1+x = (1+f)·2ᵏ, and c corrects the rounding of 1+x.
	f, c, k, mantissa := x, 0.0, 0, uint64(1)
	if !(size < sqrt2Less1 && x > sqrt2HalfLess1) {
		u := x
		if size < two53 {
			u = 1 + x
		}
		mantissa = math.Float64bits(u)
		k = int(mantissa>>52) - 1023
		switch {
		case size >= two53:
		case k > 0:
			c = (1 - (u - x)) / u
		default:
			c = (x - (u - 1)) / u
		}
		mantissa &= 1<<52 - 1
		if mantissa < sqrt2Mantissa {
			u = math.Float64frombits(mantissa | 0x3ff0000000000000)
		} else {
			k++
			u = math.Float64frombits(mantissa | 0x3fe0000000000000)
			mantissa = (1<<52 - mantissa) >> 2
		}
		f = u - 1
	}
	whole, rest := float64(float64(k)*ln2Hi), float64(float64(k)*ln2Lo)+c
	half := float64(float64(0.5*f) * f)
	if mantissa == 0 { // |f| < 2⁻²⁰
		if f == 0 {
			return whole + rest
		}
		r := float64(half * (1 - float64(0.66666666666666666*f)))
		if k == 0 {
			return f - r
		}
		return whole - ((r - rest) - f)
	}
	s := f / (2 + f)
	z := float64(s * s)
	r := logPoly[0]
	for _, p := range logPoly[1:] {
		r = p + float64(z*r)
	}
	r = float64(z * r)
	if k == 0 {
		return f - (half - float64(s*(half+r)))
	}
	return whole - ((half - (float64(s*(half+r)) + rest)) - f)
}
