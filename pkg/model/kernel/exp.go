package kernel

import "math"

// The exponential, for every path: with n = round(x·log2 e) and
// r = x - n·ln 2 in [-0.347, 0.347],
//
//	exp(x) = 2ⁿ·(1 + q(r)),  q(r) = r + r²·(e0 + e1·r + ... + e4·r⁴) ≈ exp(r) - 1.
//
// The coefficients are a Remez fit with relative error 1.4e-8 in q. ln 2 is
// split (Cody and Waite) so that n·ln2Hi is exact. Adding roundMagic rounds to
// an integer and leaves it in the low bits of the sum.
const (
	log2E      float32 = 1.44269504088896341
	ln2Hi      float32 = 0.693359375
	ln2Lo      float32 = -2.12194440054690583e-4
	roundMagic float32 = 12582912 // 1.5·2²³
	expE0      float32 = 0.5
	expE1      float32 = 0.1666654348373413
	expE2      float32 = 0.04166628047823906
	expE3      float32 = 0.008366597816348076
	expE4      float32 = 0.0013946472899988294

	expMin  float32 = -104 // exp underflows to 0
	expMax  float32 = 89   // exp overflows to +Inf
	tanhMax float32 = 10   // tanh rounds to 1
)

// expm1Core returns n and q(r) of the reduction above for a clamped x.
func expm1Core(x float32) (n int32, q float32) {
	t := float32(x*log2E) + roundMagic
	n = int32(math.Float32bits(t) - math.Float32bits(roundMagic))
	f := t - roundMagic
	r := x - float32(f*ln2Hi)
	r -= float32(f * ln2Lo)
	p := float32(expE4*r) + expE3
	p = float32(p*r) + expE2
	p = float32(p*r) + expE1
	p = float32(p*r) + expE0
	return n, float32(float32(r*r)*p) + r
}

// pow2 returns 2ⁿ for -126 ≤ n ≤ 127.
func pow2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// exp32 returns eˣ to about an ulp, with gradual underflow.
func exp32(x float32) float32 {
	if x != x {
		return x
	}
	n, q := expm1Core(max(expMin, min(expMax, x)))
	// Two factors, because 2ⁿ alone may lie outside the normal numbers.
	n1 := n >> 1
	s := pow2(n1)
	return float32((float32(s*q) + s) * pow2(n-n1))
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
	n, q := expm1Core(y + y)
	s := pow2(n)
	u := float32(s*q) + (s - 1)
	return math.Float32frombits(math.Float32bits(u/(u+2)) | bits&sign)
}
