//go:build !amd64 || noasm

package kernel

// inStrips returns the rows as they are: only AVX2 has strips.
func (a matrixA) inStrips(int, int, int, *scratch) matrixA { return a }
