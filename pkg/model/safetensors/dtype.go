package safetensors

import (
	"encoding/binary"
	"math"
)

// dtype is an element type that can be read.
type dtype struct {
	size int // bytes of an element
	// decode converts a little-endian element; false if float32 can't hold it.
	decode func(src []byte) (float32, bool)
}

var dtypes = map[string]dtype{"F32": {4, decodeF32}, "F64": {8, decodeF64}, "F16": {2, decodeF16},
	"BF16": {2, decodeBF16}}

func decodeF32(src []byte) (float32, bool) {
	return math.Float32frombits(binary.LittleEndian.Uint32(src)), true
}

// decodeF64 rounds to nearest, ties to even. A finite number that would become infinite is an
// error: no valid weight is that large.
func decodeF64(src []byte) (float32, bool) {
	x := math.Float64frombits(binary.LittleEndian.Uint64(src))
	return float32(x), math.IsInf(x, 0) || !math.IsInf(float64(float32(x)), 0)
}

// decodeBF16 is exact: a bfloat16 is the upper half of a float32.
func decodeBF16(src []byte) (float32, bool) {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16), true
}

// toBF16 rounds to nearest, ties to even, as PyTorch does. A NaN stays one.
func toBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func decodeF16(src []byte) (float32, bool) { return Half(src), true }

// Half is the little-endian IEEE 754 binary16 number at src. Payloads of NaN stay at the top of the
// mantissa.
func Half(src []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(src))
	sign, exponent, mantissa := h>>15<<31, h>>10&0x1f, h&0x3ff
	switch exponent {
	case 0: // subnormal, or 0: mantissa * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(mantissa)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}
