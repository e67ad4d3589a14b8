package safetensors

import (
	"encoding/binary"
	"math"
)

// dtype is a type of element that can be read.
type dtype struct {
	size int // bytes of an element
	// decode converts little-endian elements into dst and returns how many;
	// fewer than len(dst) when the next one has no float32.
	decode func(dst []float32, src []byte) int
}

const dtypeNames = "F32, F64, F16, BF16"

func dtypeOf(name string) (dtype, bool) {
	switch name {
	case "F32":
		return dtype{4, decodeF32}, true
	case "F64":
		return dtype{8, decodeF64}, true
	case "F16":
		return dtype{2, decodeF16}, true
	case "BF16":
		return dtype{2, decodeBF16}, true
	}
	return dtype{}, false
}

func decodeF32(dst []float32, src []byte) int {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
	return len(dst)
}

// decodeF64 rounds to nearest, ties to even. It stops at a finite number that
// would become infinite, for a weight that big is an error in the file.
func decodeF64(dst []float32, src []byte) int {
	for i := range dst {
		x := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		dst[i] = float32(x)
		if math.IsInf(float64(dst[i]), 0) && !math.IsInf(x, 0) {
			return i
		}
	}
	return len(dst)
}

func decodeF16(dst []float32, src []byte) int {
	for i := range dst {
		dst[i] = math.Float32frombits(f16Bits(binary.LittleEndian.Uint16(src[2*i:])))
	}
	return len(dst)
}

// decodeBF16 is exact: a bfloat16 is the upper half of a float32.
func decodeBF16(dst []float32, src []byte) int {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
	return len(dst)
}

// f16Bits widens an IEEE 754 binary16 to the bits of the same number in
// binary32, which is exact. Payloads of NaN keep their place at the top of the
// mantissa.
func f16Bits(h uint16) uint32 {
	sign := uint32(h>>15) << 31
	exponent := uint32(h>>10) & 0x1f
	mantissa := uint32(h) & 0x3ff
	switch exponent {
	case 0:
		// Subnormal, mantissa * 2^-24: the product is exact, and so is 0.
		return sign | math.Float32bits(float32(mantissa)*0x1p-24)
	case 0x1f:
		return sign | 0xff<<23 | mantissa<<13
	}
	return sign | (exponent+127-15)<<23 | mantissa<<13
}
