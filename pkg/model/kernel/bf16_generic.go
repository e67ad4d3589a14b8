//go:build !amd64 || noasm

package kernel

// bf16 has assembly for amd64 only: the first Apple processors have no instructions for it, and those of
// later ones round differently.

func hasBF16() bool { return false }

func roundRow(x, to []float32) { roundRowGo(x, to) }

func pairRowsVecs(int, int, []float32, int, []float32, int) (columns int) { return 0 }

// PeakBF16 returns 0 without assembly.
func PeakBF16(int) (flops float64) { return 0 }
