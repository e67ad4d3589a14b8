package elementary

import "math"

// Pow returns xʸ. The whole part of y is exact squarings and products, which round alike everywhere.
func Pow(x, y float64) float64 {
	whole, part := math.Modf(math.Abs(y))
	if part == 0 || part == 0.5 && whole == 0 || !(x > 0) || x > math.MaxFloat64 || whole >= 1<<63 {
		return math.Pow(x, y) // products and square roots alone, or no number at all
	}
	if part > 0.5 {
		part--
		whole++
	}
	a := Exp(part * Log(x))
	exp := 0
	m, e := math.Frexp(x)
	for i := int64(whole); i != 0; i >>= 1 {
		if e < -1<<12 || 1<<12 < e { // the result under- or overflows
			exp += e
			break
		}
		if i&1 == 1 {
			a *= m
			exp += e
		}
		m = float64(m * m)
		e <<= 1
		if m < 0.5 {
			m += m
			e--
		}
	}
	if y < 0 {
		a, exp = 1/a, -exp
	}
	return math.Ldexp(a, exp)
}
