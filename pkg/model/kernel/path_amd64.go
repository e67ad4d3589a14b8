//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

func bestPath() path {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return pathGo
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512BW:
		return pathAVX2
	default:
		return pathAVX512
	}
}

// Peak runs iterations of register-only multiply-adds and returns their number of
// floating-point operations, two for each multiply-add. Divided by the time this is
// the peak of one core. Without assembly it returns 0.
func Peak(turns int) (flops float64) {
	if turns < 1 {
		return 0
	}
	switch active {
	case pathAVX512:
		peakAVX512(turns)
	case pathAVX2:
		peakAVX2(turns)
	default:
		return 0
	}
	return 2 * peakSums * float64(vectorLanes()) * float64(turns)
}

// peakSums is the number of independent sums of a loop of multiply-adds.
const peakSums = 12

// PeakBF16 is [Peak] for bf16; it returns 0 without AVX512_BF16.
func PeakBF16(turns int) (flops float64) {
	if turns < 1 || !HasBF16() {
		return 0
	}
	peakBF16(turns)
	return 2 * peakSums * 2 * float64(vectorLanes()) * float64(turns)
}
