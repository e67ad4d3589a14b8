// Package hugepages allocates large slices on huge pages where the system has them. Matmuls read weights and write
// results that are far larger than what a processor's table of pages holds, and looking pages up takes time, most of
// all if there are few rows (see docs/performance.md).
package hugepages

// Least is the length from which on slices are on huge pages: 1 MB.
const Least = 1 << 18

// Floats returns n zeros.
func Floats(n int) []float32 {
	x := make([]float32, n)
	if n >= Least {
		ask(x)
	}
	return x
}
