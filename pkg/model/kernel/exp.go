package kernel

import "math"

// The exponential, for every path: with n = round(x·log2 e) and
// r = x - n·ln 2 in [-0.347, 0.347],
//
//	exp(x) = 2ⁿ·(1 + q(r)),  q(r) = r + r²·(e0 + e1·r + ... + e4·r⁴) ≈ exp(r) - 1.
//
// The coefficients are a Remez fit with relative error 1.4e-8 in q. ln 2 is
// split (Cody and Waite) so that n·ln2Hi is exact. Adding roundMagic rounds to
// an integer and leaves n + 127 in the low bits of the sum, so that shifting
// them into the exponent gives 2ⁿ. The bounds on x make n run from -127, whose
// "2ⁿ" is 0, to 128, whose is +Inf: results below 2⁻¹²⁶ become 0, and those
// from 2¹²⁷·⁵ on +Inf.
const (
	log2E      float32 = 1.44269504088896341
	ln2Hi      float32 = 0.693359375
	ln2Lo      float32 = -2.12194440054690583e-4
	roundMagic float32 = 12582912 + 127 // 1.5·2²³ + the bias of the exponent
	expE0      float32 = 0.5
	expE1      float32 = 0.1666654348373413
	expE2      float32 = 0.04166628047823906
	expE3      float32 = 0.008366597816348076
	expE4      float32 = 0.0013946472899988294

	expMin  float32 = -87.9
	expMax  float32 = 88.9
	tanhMax float32 = 10 // tanh rounds to 1
)

// expm1Core returns 2ⁿ and q(r) of the reduction above for a bounded x.
func expm1Core(x float32) (scale, q float32) {
	t := float32(x*log2E) + roundMagic
	scale = math.Float32frombits(math.Float32bits(t) << 23)
	f := t - roundMagic
	r := x - float32(f*ln2Hi)
	r -= float32(f * ln2Lo)
	p := float32(expE4*r) + expE3
	p = float32(p*r) + expE2
	p = float32(p*r) + expE1
	p = float32(p*r) + expE0
	return scale, float32(float32(p*r)*r) + r
}

// exp32 returns eˣ to about an ulp.
func exp32(x float32) float32 {
	if x != x {
		return x
	}
	scale, q := expm1Core(max(expMin, min(expMax, x)))
	return (1 + q) * scale
}

// sigmoid32 returns 1/(1+e⁻ˣ).
func sigmoid32(x float32) float32 { return 1 / (1 + exp32(-x)) }

// tanh32 returns tanh x as u/(u+2) with u = exp(2|x|) - 1, which keeps the
// relative accuracy near 0.
func tanh32(x float32) float32 {
	if x != x {
		return x
	}
	const sign = 1 << 31
	bits := math.Float32bits(x)
	y := min(math.Float32frombits(bits&^sign), tanhMax)
	scale, q := expm1Core(y + y)
	u := float32(scale*q) + (scale - 1)
	return math.Float32frombits(math.Float32bits(u/(u+2)) | bits&sign)
}

// logSum returns the natural logarithm of a sum s ≥ 1 of exponentials, in float64 arithmetic that
// no compiler may fuse, so it has the same bits everywhere: s = 2ᵉ·m with m in [√½, √2), log m =
// 2·atanh((m-1)/(m+1)).
func logSum(s float32) float32 {
	if !(s > 0) || s > math.MaxFloat32 {
		return s - s // NaN and infinities: the row had one
	}
	m, e := math.Frexp(float64(s))
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	t := (m - 1) / (m + 1)
	t2 := float64(t * t)
	series := 0.0
	for _, c := range atanhSeries { // |t| ≤ 0.172: the next term is below 1e-13
		series = float64(series*t2) + c
	}
	return float32(float64(2*t*series) + float64(float64(e)*math.Ln2))
}

// atanhSeries are the Taylor coefficients of atanh(t)/t in t², the last first.
var atanhSeries = [...]float64{1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1}

// log32 is the single-precision logarithm of the entropy's gradient, about an
// ulp: x = 2ᵉ·m as above, then log m = 2s + s·s²·(2/3 + 2/5·s² + ...) with
// s = (m-1)/(m+1). x must be positive and normal.
func log32(x float32) float32 {
	const root = 0x3f3504f3 // √½
	// Adding the distance from √½ to 1 carries into the exponent where the
	// significand is at least √2.
	shifted := math.Float32bits(x) + (0x3f800000 - root)
	e := float32(int32(shifted>>23) - 127)
	m := math.Float32frombits(shifted&0x007fffff + root)
	s := (m - 1) / (m + 1)
	s2 := float32(s * s)
	p := float32(logL3*s2) + logL2
	p = float32(p*s2) + logL1
	p = float32(p*s2) + logL0
	p = float32(float32(p*s2) * s)
	lo := float32(e*ln2Lo) + p
	return float32(e*ln2Hi) + (float32(2*s) + lo)
}

// Taylor coefficients of 2·atanh: the first omitted term is below 4e-9.
const (
	logL0 float32 = 2.0 / 3
	logL1 float32 = 2.0 / 5
	logL2 float32 = 2.0 / 7
	logL3 float32 = 2.0 / 9
)
