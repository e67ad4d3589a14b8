//go:build (amd64 || arm64) && !noasm

package kernel

// stripRows is the height of the tallest tile of AVX2 and NEON.
const stripRows = 6

// inStrips returns rows of a transposed matrix as strips of as many rows as a tile has, and others as they
// are. A tile reads a strip from one end to the other, but a few numbers in each row of the matrix itself.
func (a matrixA) inStrips(rows, kb, n int, s *scratch) matrixA {
	if active != pathAVX2 && active != pathNEON || a.format != numbers || a.rowStride != 1 || rows%stripRows != 0 ||
		n < minCopied || n%nr != 0 {
		return a
	}
	strip := stripRows*kb + nr // strips begin in different sets of the L1 cache
	s.a = grow(s.a, rows/stripRows*strip)
	packStripsVecs(kb, rows/stripRows, &a.data[0], 4*a.kStride, &s.a[0], 4*strip)
	return matrixA{data: s.a, rowStride: 1, kStride: stripRows, strip: strip}
}
