package elementary

import "math"

// Exp returns eˣ. With n = round(x·log2 e) and r = (x - n·ln 2)/16, a Taylor series gives
// u = eʳ - 1, four times u·(u+2) the same of 2r, 4r, 8r and 16r, and eˣ = (1+u)·2ⁿ.
func Exp(x float64) float64 {
	const (
		ln2Hi    = 0.69314718055966295651160180568695068359375
		ln2Lo    = 0.28235290563031577122588448175013436025525412068e-12
		overflow = 7.09782712893384e+02
	)
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x > overflow:
		return math.Inf(1)
	case x < -math.MaxInt32/2: // the product below is an int32 in the original
		return 0
	}
	f := math.RoundToEven(x * math.Log2E)
	n := int(f)
	r := math.FMA(-f, ln2Hi, x)
	r = math.FMA(-f, ln2Lo, r)
	r *= 0.0625
	p := math.FMA(expTaylor[0], r, expTaylor[1])
	for _, c := range expTaylor[2:] {
		p = math.FMA(p, r, c)
	}
	u := r * p
	for range 3 {
		u *= u + 2
	}
	y := math.FMA(u, u+2, 1)
	switch n += 0x3ff; { // the exponent of the result, with its bias
	case n >= 0x7ff:
		return math.Inf(1)
	case n > 0:
		return y * math.Float64frombits(uint64(n)<<52)
	case n < -52:
		return 0
	}
	return y * math.Float64frombits(uint64(n+0x3fe)<<52) * 0x1p-1022
}

// expTaylor are 1/8! to 1/2! and 1.
var expTaylor = [...]float64{2.4801587301587301587e-5, 1.9841269841269841270e-4, 1.3888888888888888889e-3,
	8.3333333333333333333e-3, 4.1666666666666666667e-2, 1.6666666666666666667e-1, 0.5, 1}

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Expm1 returns eˣ - 1 without loss of digits near 0.
func Expm1(x float64) float64 {
	const (
		overflow = 7.09782712893383973096e+02
		ln2X56   = 3.88162421113569373274e+01
		ln2X1p5  = 1.03972077083991796413e+00
		ln2Half  = 3.46573590279972654709e-01
		tiny     = 1.0 / (1 << 54)
		q1       = -3.33333333333331316428e-02
		q2       = 1.58730158725481460165e-03
		q3       = -7.93650757867487942473e-05
		q4       = 4.00821782732936239552e-06
		q5       = -2.01099218183624371326e-07
	)
	size := math.Abs(x)
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x <= -ln2X56:
		return -1
	case x >= overflow:
		return math.Inf(1)
	case size < tiny:
		return x
	}
	var c float64 // the error of the reduced x
	k := 0
	if size > ln2Half {
		var hi, lo float64
		switch {
		case size >= ln2X1p5:
			k = int(float64(math.Log2E*x) + math.Copysign(0.5, x))
			hi, lo = x-float64(float64(k)*ln2Hi), float64(k)*ln2Lo
		case x < 0:
			k, hi, lo = -1, x+ln2Hi, -ln2Lo
		default:
			k, hi, lo = 1, x-ln2Hi, ln2Lo
		}
		x = hi - lo
		c = (hi - x) - lo
	}
	hfx := 0.5 * x
	hxs := float64(x * hfx)
	r1 := q4 + float64(hxs*q5)
	for _, q := range [...]float64{q3, q2, q1, 1} {
		r1 = q + float64(hxs*r1)
	}
	t := 3 - float64(r1*hfx)
	e := float64(hxs * ((r1 - t) / (6 - float64(x*t))))
	if k == 0 {
		return x - (float64(x*e) - hxs)
	}
	e = float64(x*(e-c)) - c
	e -= hxs
	scaled := func(y float64) float64 { return math.Float64frombits(math.Float64bits(y) + uint64(k)<<52) }
	switch {
	case k == -1:
		return float64(0.5*(x-e)) - 0.5
	case k == 1 && x < -0.25:
		return -2 * (e - (x + 0.5))
	case k == 1:
		return 1 + float64(2*(x-e))
	case k <= -2 || k > 56:
		return scaled(1-(e-x)) - 1
	case k < 20:
		return scaled(math.Float64frombits(0x3ff0000000000000-0x20000000000000>>uint(k)) - (e - x))
	}
	return scaled(x - (e + math.Float64frombits(uint64(0x3ff-k)<<52)) + 1)
}

// Tanh returns the hyperbolic tangent of x.
func Tanh(x float64) float64 {
	const maxLog = 8.8029691931113054295988e+01 // log 2¹²⁷
	z := math.Abs(x)
	switch {
	case z > 0.5*maxLog:
		return math.Copysign(1, x)
	case z >= 0.625:
		return math.Copysign(1-2/(Exp(2*z)+1), x)
	case x == 0:
		return x
	}
	s := float64(x * x)
	p := float64((float64((float64(-9.64399179425052238628e-1*s)-9.92877231001918586564e1)*s) - 1.61468768441708447952e3))
	q := float64((float64((s+1.12811678491632931402e2)*s)+2.23548839060100448583e3)*s) + 4.84406305325125486048e3
	return x + float64(float64(x*s)*p)/q
}
