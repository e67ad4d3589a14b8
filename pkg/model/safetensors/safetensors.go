// Package safetensors reads and writes the safetensors format, in which PyTorch users keep
// checkpoints (https://github.com/huggingface/safetensors):
//
//	8 bytes   n, the length of the header, little-endian
//	n bytes   JSON: {"__metadata__": {"key": "value"}, "name": {"dtype": "F32",
//	          "shape": [2, 3], "data_offsets": [0, 24]}, ...}, padded with spaces
//	the rest  the elements, little-endian, row-major; data_offsets count from here
//
// Weights are float32 here. F32 is read and written bit for bit, NaN payloads included; F64, F16
// and BF16 are read and converted, and BF16 can be written.
//
// A file is checked as a whole before its data are read: tensors must fill the data exactly, in any
// order, without overlap, hole or trailing bytes. Numbers in the header are compared with the size
// of the file before memory is allocated for them.
package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// MaxHeader is the largest header in bytes, the limit of the original library.
const MaxHeader = 100_000_000

// maxRank is the largest number of dimensions, which is PyTorch's and NumPy's.
const maxRank = 64

// metadataKey is the one name in a header that is not a tensor.
const metadataKey = "__metadata__"

// Tensor is a named array of float32.
type Tensor struct {
	Name string
	// Dtype is the type in the file: F32, F64, F16 or BF16. [Encode] takes F32, BF16, to which it
	// rounds, or "" (which means F32).
	Dtype string
	Shape []int     // sizes of the dimensions; empty for a scalar
	Data  []float32 // row-major
	// Load returns the data of a tensor to write, for tensors that are too large to have all of them
	// in memory; nil means Data.
	Load func() ([]float32, error)
}

// File is the content of a safetensors file.
type File struct {
	Tensors  []Tensor          // in the order of their data
	Metadata map[string]string // nil when the file has none
	// Checksummed is true if the file had a checksum of all its bytes, and it matched: see
	// [EncodeChecksummed].
	Checksummed bool
}

// Get returns the tensor called name. Its Data are shared with f.
func (f *File) Get(name string) (Tensor, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// elements returns the product of shape. The product of the nonzero sizes must fit in an int even
// if a 0 makes the tensor empty, because strides are such products.
func elements(shape []int) (int, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("shape has %d dimensions, the limit is %d", len(shape), maxRank)
	}
	product, empty := 1, false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative size", shape)
		case d == 0:
			empty = true
		case product > math.MaxInt/d:
			return 0, fmt.Errorf("shape %v overflows: its number of elements does not fit in an integer", shape)
		default:
			product *= d
		}
	}
	if empty {
		return 0, nil
	}
	return product, nil
}

// byteSize returns the number of bytes of n elements of size bytes each.
func byteSize(n, size int) (int, error) {
	if n > math.MaxInt/size {
		return 0, errors.New("the number of bytes does not fit in an integer")
	}
	return n * size, nil
}

// dtype is an element type that can be read.
type dtype struct {
	size int // bytes of an element
	// decode converts a little-endian element; false if float32 can't hold it. F32 needs none.
	decode func(src []byte) (float32, bool)
}

var dtypes = map[string]dtype{"F32": {size: 4}, "F64": {8, decodeF64}, "F16": {2, decodeF16},
	"BF16": {2, decodeBF16}}

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
