package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"grpo/pkg/model/safetensors"
)

// Type is how a tensor's elements are stored.
type Type uint32

// The supported types, by their numbers in the file.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// block is a storage type: size bytes hold n elements. dequantise writes the n
// elements of one block. The layouts are those of ggml-quants.c.
type block struct {
	name       string
	n, size    int
	dequantise func(out []float32, b []byte)
}

var blocks = map[Type]block{
	F32: {"F32", 1, 4, func(out []float32, b []byte) { out[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	F16: {"F16", 1, 2, func(out []float32, b []byte) { out[0] = safetensors.Half(b) }},
	BF16: {"BF16", 1, 2, func(out []float32, b []byte) {
		out[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}},
	Q4_0: {"Q4_0", 32, 18, q4_0}, Q4_1: {"Q4_1", 32, 20, q4_1}, Q5_0: {"Q5_0", 32, 22, q5_0}, Q5_1: {"Q5_1", 32, 24, q5_1},
	Q8_0: {"Q8_0", 32, 34, q8_0}, Q4_K: {"Q4_K", 256, 144, q4K}, Q5_K: {"Q5_K", 256, 176, q5K},
	Q6_K: {"Q6_K", 256, 210, q6K},
}

func (t Type) String() string {
	if b, ok := blocks[t]; ok {
		return b.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// bytes is the size of a tensor in the file. Blocks do not cross rows.
func (t Type) bytes(shape []int) (int, error) {
	b, ok := blocks[t]
	if !ok {
		return 0, fmt.Errorf("%s is not supported; supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "+
			"Q4_K, Q5_K and Q6_K", t)
	}
	row := shape[len(shape)-1]
	if row%b.n != 0 {
		return 0, fmt.Errorf("rows of %d are not made of %s blocks of %d", row, b.name, b.n)
	}
	return Tensor{Shape: shape}.Size() / b.n * b.size, nil
}

// Float32 writes the tensor's elements to out, which has t.Size() elements, in
// row-major order.
func (t Tensor) Float32(out []float32) {
	b := blocks[t.Type]
	for i := 0; i*b.n < len(out); i++ {
		b.dequantise(out[i*b.n:(i+1)*b.n], t.data[i*b.size:(i+1)*b.size])
	}
}

// q4_0: x = d (q - 8). The low nibbles are the elements 0 to 15.
func q4_0(out []float32, b []byte) {
	d := safetensors.Half(b)
	for j, q := range b[2:18] {
		out[j], out[j+16] = d*float32(int(q&15)-8), d*float32(int(q>>4)-8)
	}
}

// q4_1: x = d q + m.
func q4_1(out []float32, b []byte) {
	d, m := safetensors.Half(b), safetensors.Half(b[2:])
	for j, q := range b[4:20] {
		out[j], out[j+16] = float32(d*float32(q&15))+m, float32(d*float32(q>>4))+m
	}
}

// q5_0: as Q4_0 with fifth bits of their own: x = d (q - 16).
func q5_0(out []float32, b []byte) {
	d, high := safetensors.Half(b), binary.LittleEndian.Uint32(b[2:])
	for j, q := range b[6:22] {
		lo, hi := int(q&15)|int(high>>j&1)<<4, int(q>>4)|int(high>>(j+16)&1)<<4
		out[j], out[j+16] = d*float32(lo-16), d*float32(hi-16)
	}
}

// q5_1: x = d q + m with fifth bits of their own.
func q5_1(out []float32, b []byte) {
	d, m, high := safetensors.Half(b), safetensors.Half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for j, q := range b[8:24] {
		lo, hi := int(q&15)|int(high>>j&1)<<4, int(q>>4)|int(high>>(j+16)&1)<<4
		out[j], out[j+16] = float32(d*float32(lo))+m, float32(d*float32(hi))+m
	}
}

// q8_0: x = d q.
func q8_0(out []float32, b []byte) {
	d := safetensors.Half(b)
	for j, q := range b[2:34] {
		out[j] = d * float32(int8(q))
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block j of Q4_K and Q5_K.
func scaleMin(j int, b []byte) (scale, minimum float32) {
	if j < 4 {
		return float32(b[j] & 63), float32(b[j+4] & 63)
	}
	return float32(b[j+4]&15 | b[j-4]>>6<<4), float32(b[j+4]>>4 | b[j]>>6<<4)
}

// q4K: eight sub-blocks of 32: x = d scale q - dmin minimum.
func q4K(out []float32, b []byte) {
	d, dmin, scales, qs := safetensors.Half(b), safetensors.Half(b[2:]), b[4:16], b[16:144]
	for j := range 8 {
		s, m := scaleMin(j, scales)
		s, m = float32(d*s), float32(dmin*m)
		for l := range 32 {
			q := qs[j/2*32+l] >> (4 * (j % 2)) & 15
			out[32*j+l] = float32(s*float32(q)) - m
		}
	}
}

// q5K: as Q4_K with fifth bits of their own.
func q5K(out []float32, b []byte) {
	d, dmin, scales, high, qs := safetensors.Half(b), safetensors.Half(b[2:]), b[4:16], b[16:48], b[48:176]
	for j := range 8 {
		s, m := scaleMin(j, scales)
		s, m = float32(d*s), float32(dmin*m)
		for l := range 32 {
			q := qs[j/2*32+l]>>(4*(j%2))&15 | high[l]>>j&1<<4
			out[32*j+l] = float32(s*float32(q)) - m
		}
	}
}

// q6K: sixteen sub-blocks of 16: x = d scale (q - 32).
func q6K(out []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], safetensors.Half(b[208:])
	for part := range 2 {
		for l := range 32 {
			for k := range 4 {
				lo := low[64*part+32*(k%2)+l] >> (4 * (k / 2)) & 15
				hi := high[32*part+l] >> (2 * k) & 3
				scale := float32(int8(scales[8*part+2*k+l/16]))
				out[128*part+32*k+l] = float32(d*scale) * float32(int(lo|hi<<4)-32)
			}
		}
	}
}
