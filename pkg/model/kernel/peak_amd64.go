//go:build !noasm

package kernel

// Peak runs turns of multiply-adds on registers and returns how many
// floating-point operations that were, two for each multiply-add: divided by
// the time, what one core can do at most. Without assembly it returns 0.
func Peak(turns int) (flops float64) {
	const sums = 12
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
	return 2 * sums * float64(vectorLanes()) * float64(turns)
}
