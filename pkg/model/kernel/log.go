package kernel

import "math"

// logSum returns the natural logarithm of a sum s ≥ 1 of exponentials, in
// float64 arithmetic that no compiler may fuse, so that it has the same bits
// everywhere: s = 2ᵉ·m with m in [√½, √2), log m = 2·atanh((m-1)/(m+1)).
func logSum(s float32) float32 {
	if !(s > 0) || s > math.MaxFloat32 {
		return s - s // NaN and infinities: the row held one
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
