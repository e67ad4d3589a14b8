//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

func hasBF16() bool { return cpu.X86.HasAVX512BF16 }

// roundRow rounds x to ⌈len(x)/2⌉ pairs of neighbours.
func roundRow(x, to []float32) {
	done := 0
	if vecs := len(x) / 32; vecs > 0 && HasBF16() {
		roundBF16(vecs, &x[0], &to[0])
		done = 16 * vecs
	}
	roundRowGo(x[2*done:], to[done:])
}

// pairRowsVecs rounds and interleaves 2·n rows in whole vectors and returns how many columns it did.
func pairRowsVecs(n, columns int, x []float32, ld int, to []float32, ldt int) (done int) {
	vecs := columns / 16
	if n == 0 || vecs == 0 || !HasBF16() {
		return 0
	}
	pairRowsBF16(n, vecs, &x[0], 4*ld, &to[0], 4*ldt)
	return 16 * vecs
}
