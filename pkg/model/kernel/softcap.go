package kernel

// SoftCap replaces each x by c·tanh(scale·x/c), the soft cap c of Gemma 2 (Gemma Team, 2024, "Gemma 2:
// improving open language models at a practical size"), and writes the derivative, scale·(1 - tanh²), to
// slope, of the same length, unless that is nil. There is one version for every processor.
func SoftCap(x []float32, scale, c float32, slope []float32) {
	if slope != nil {
		checkLen("slope", slope, len(x))
	}
	for i, v := range x {
		t := tanh32(float32(v*scale) / c)
		x[i] = c * t
		if slope != nil {
			slope[i] = scale * (1 - float32(t*t))
		}
	}
}

// Multiply multiplies each element of y by that of x, of the same length.
func Multiply(y, x []float32) {
	checkLen("x", x, len(y))
	for i := range y {
		y[i] *= x[i]
	}
}
