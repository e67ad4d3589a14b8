package elementary

import "math"

// Sincos returns the sine and the cosine of x. Arguments from 2²⁹ on are left to package math.
func Sincos(x float64) (sin, cos float64) {
	const ( // π/4 in three parts
		a = 7.85398125648498535156e-1
		b = 3.77489470793079817668e-8
		c = 2.69515142907905952645e-15
	)
	size := math.Abs(x)
	if !(size < 1<<29) {
		return math.Sincos(x)
	}
	if x == 0 {
		return x, 1
	}
	octant := uint64(size * (4 / math.Pi))
	octant += octant & 1
	y := float64(octant)
	z := ((size - float64(y*a)) - float64(y*b)) - float64(y*c)
	octant &= 7
	sinNegative, cosNegative := x < 0, false
	if octant > 3 {
		octant -= 4
		sinNegative, cosNegative = !sinNegative, true
	}
	if octant > 1 {
		cosNegative = !cosNegative
	}
	zz := float64(z * z)
	series := func(coefficients *[6]float64) float64 {
		sum := coefficients[0]
		for _, c := range coefficients[1:] {
			sum = float64(sum*zz) + c
		}
		return sum
	}
	cos = 1 - float64(0.5*zz) + float64(float64(zz*zz)*series(&cosSeries))
	sin = z + float64(float64(z*zz)*series(&sinSeries))
	if octant == 1 || octant == 2 {
		sin, cos = cos, sin
	}
	if sinNegative {
		sin = -sin
	}
	if cosNegative {
		cos = -cos
	}
	return sin, cos
}

// Cos returns the cosine of x.
func Cos(x float64) float64 {
	_, cos := Sincos(x)
	return cos
}

var sinSeries = [6]float64{1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
	-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1}

var cosSeries = [6]float64{-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
	2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2}
