//go:build (!amd64 && !arm64) || noasm

package kernel

// inStrips returns the rows as they are: only AVX2 and NEON have strips.
func (a matrixA) inStrips(int, int, int, *scratch) matrixA { return a }
