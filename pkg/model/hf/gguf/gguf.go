// Package gguf reads GGUF files, versions 2 and 3: metadata and tensors, which it
// dequantises to float32 (F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K,
// Q6_K). A file may come from anyone: every length is checked against the file's size and
// a limit before memory is allocated for it, and arrays are decoded only when asked for.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// File is a GGUF file that was read. Its tensors refer to the bytes it was read from.
type File struct {
	Metadata map[string]any // values of the types that [Parse] lists
	Tensors  map[string]Tensor
	Names    []string // of the tensors, in the order of the file
	Header   []byte   // all that is before the tensors' data
}

// Tensor is a tensor of a file. Shape is row-major: the first dimension changes
// slowest, the reverse of the file's order.
type Tensor struct {
	Shape []int
	Type  Type
	data  []byte
}

// Size is the number of elements.
func (t Tensor) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

const (
	magic         = "GGUF"
	maxDims       = 4
	maxArrayDepth = 4
	maxHeader     = 64 << 20 // bytes; those of public models have at most 20 MB
	maxEntries    = 1 << 16  // of metadata, and tensors
)

// Parse reads a GGUF file. Metadata values are uint64 for unsigned integers, int64 for
// signed ones, float64, bool, string, or an [Array]. The error says at which byte and in
// which key or tensor the file is wrong.
func Parse(data []byte) (*File, error) {
	f, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("read GGUF: %w", err)
	}
	return f, nil
}

func parse(data []byte) (*File, error) {
	r := &reader{data: data[:min(len(data), maxHeader)], file: len(data)}
	if string(r.take(4)) != magic {
		return nil, fmt.Errorf("it does not begin with %q", magic)
	}
	version := r.uint32()
	if r.err == nil && version != 2 && version != 3 {
		return nil, fmt.Errorf("version %d is not supported; supported are 2 and 3", version)
	}
	// A tensor takes at least 24 bytes of the file, a metadata entry 13.
	tensors, entries := r.count(24), r.count(13)
	if tensors > maxEntries || entries > maxEntries {
		return nil, fmt.Errorf("it has %d tensors and %d metadata entries, the limit is %d", tensors, entries, maxEntries)
	}
	f := &File{Metadata: make(map[string]any, entries), Tensors: make(map[string]Tensor, tensors)}
	for range entries {
		key := r.string()
		value := r.value(r.uint32(), 0)
		if r.err != nil {
			return nil, fmt.Errorf("metadata %.80q: %w", key, r.err)
		}
		if _, ok := f.Metadata[key]; ok {
			return nil, fmt.Errorf("metadata key %.80q appears twice", key)
		}
		f.Metadata[key] = value
	}
	offsets := make(map[string]uint64, tensors)
	for range tensors {
		name := r.string()
		t, offset := r.tensor()
		if r.err != nil {
			return nil, fmt.Errorf("tensor %.80q: %w", name, r.err)
		}
		if _, ok := f.Tensors[name]; ok {
			return nil, fmt.Errorf("tensor %.80q appears twice", name)
		}
		f.Tensors[name], offsets[name] = t, offset
		f.Names = append(f.Names, name)
	}
	if r.err != nil {
		return nil, r.err
	}
	f.Header = data[:r.at]
	return f, f.locate(data, offsets)
}

// locate finds the data of the tensors, at offsets after the header. Two tensors must not overlap.
func (f *File) locate(data []byte, offsets map[string]uint64) error {
	alignment := uint64(32)
	if v, ok := f.Metadata["general.alignment"]; ok {
		if alignment, ok = v.(uint64); !ok || alignment == 0 || alignment&(alignment-1) != 0 || alignment > 1<<20 {
			return fmt.Errorf("general.alignment is %v, want a power of two up to 1048576", v)
		}
	}
	start := (uint64(len(f.Header)) + alignment - 1) / alignment * alignment
	names := slices.Clone(f.Names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(offsets[a], offsets[b]) })
	end, last := start, ""
	for _, name := range names {
		t := f.Tensors[name]
		size, err := t.Type.bytes(t.Shape)
		if err != nil {
			return fmt.Errorf("tensor %.80q: %w", name, err)
		}
		from := start + offsets[name]
		switch {
		case offsets[name] > uint64(len(data)) || from > uint64(len(data)) || uint64(size) > uint64(len(data))-from:
			return fmt.Errorf("tensor %.80q: its %d bytes at %d are beyond the end of the file, %d", name, size, from, len(data))
		case from < end:
			return fmt.Errorf("tensors %.80q and %.80q overlap at byte %d", last, name, from)
		}
		t.data, end, last = data[from:from+uint64(size)], from+uint64(size), name
		f.Tensors[name] = t
	}
	return nil
}

// reader reads little-endian values. After the first error it returns zeros.
type reader struct {
	data []byte // up to maxHeader bytes of the file
	file int    // the file's size in bytes
	at   int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.at, fmt.Errorf(format, args...))
	}
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)-r.at) {
		r.fail("%d bytes are needed, %s", n, r.left())
	}
	if r.err != nil {
		return make([]byte, min(n, 8))
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

// left says how many bytes may still be read.
func (r *reader) left() string {
	if r.file > len(r.data) {
		return fmt.Sprintf("%d are left of the %d MiB that metadata and list of tensors may take", len(r.data)-r.at,
			maxHeader>>20)
	}
	return fmt.Sprintf("%d are left", len(r.data)-r.at)
}

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

// count is a number of things that take at least size bytes each.
func (r *reader) count(size uint64) int {
	n := r.uint64()
	if r.err == nil && n > uint64(len(r.data)-r.at)/size {
		r.fail("%d elements do not fit: %s", n, r.left())
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.uint64()
	if r.err != nil {
		return ""
	}
	return string(r.take(n))
}

// scalarSizes are the sizes of the value types 0 to 12, 0 for those that have none.
var scalarSizes = [13]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

const (
	typeString = 8
	typeArray  = 9
)

func (r *reader) value(kind uint32, depth int) any {
	if r.err != nil {
		return nil
	}
	switch {
	case kind == typeString:
		return r.string()
	case kind == typeArray:
		return r.array(depth)
	case kind >= uint32(len(scalarSizes)):
		r.fail("unknown value type %d", kind)
		return nil
	}
	var wide [8]byte
	b := r.take(scalarSizes[kind])
	copy(wide[:], b)
	u := binary.LittleEndian.Uint64(wide[:])
	signed := func(bits int) int64 { return int64(u<<(64-bits)) >> (64 - bits) }
	switch kind {
	case 1:
		return signed(8)
	case 3:
		return signed(16)
	case 5:
		return signed(32)
	case 11:
		return signed(64)
	case 6:
		return float64(math.Float32frombits(uint32(u)))
	case 12:
		return math.Float64frombits(u)
	case 7:
		return u != 0
	}
	return u
}

// array passes over an array: its elements stay in the file.
func (r *reader) array(depth int) any {
	if depth >= maxArrayDepth {
		r.fail("arrays are nested more than %d deep", maxArrayDepth)
		return nil
	}
	a := Array{kind: r.uint32()}
	size := uint64(8) // of a string's or an array's length
	if a.kind < uint32(len(scalarSizes)) && scalarSizes[a.kind] > 0 {
		size = scalarSizes[a.kind]
	}
	a.Len = r.count(size)
	from := r.at
	switch a.kind {
	case typeString:
		for i := 0; i < a.Len && r.err == nil; i++ {
			r.take(r.uint64())
		}
	case typeArray:
		for i := 0; i < a.Len && r.err == nil; i++ {
			r.array(depth + 1)
		}
	default:
		if a.kind >= uint32(len(scalarSizes)) {
			r.fail("unknown value type %d", a.kind)
		}
		r.take(uint64(a.Len) * size)
	}
	a.data = r.data[from:r.at]
	return a
}

func (r *reader) tensor() (t Tensor, offset uint64) {
	dims := r.uint32()
	if r.err == nil && (dims == 0 || dims > maxDims) {
		r.fail("%d dimensions; 1 to %d are supported", dims, maxDims)
	}
	if r.err != nil {
		return t, 0
	}
	t.Shape = make([]int, dims)
	size := uint64(1)
	for i := range t.Shape {
		d := r.uint64()
		if r.err == nil && (d == 0 || d > math.MaxInt32 || size > math.MaxInt64/8/d) {
			r.fail("dimension %d is %d", i, d)
		}
		if r.err != nil {
			return t, 0
		}
		size *= d
		t.Shape[int(dims)-1-i] = int(d)
	}
	t.Type = Type(r.uint32())
	return t, r.uint64()
}

// Array is an array of the metadata as it is in the file; few are read.
type Array struct {
	Len  int
	kind uint32
	data []byte
}

// Strings returns the elements; an error if they are not strings.
func (a Array) Strings() ([]string, error) {
	if a.kind != typeString {
		return nil, fmt.Errorf("it is not an array of strings")
	}
	r := &reader{data: a.data}
	out := make([]string, a.Len)
	for i := range out {
		out[i] = r.string()
	}
	return out, nil
}

// Floats returns the elements; an error if they are not floating-point numbers.
func (a Array) Floats() ([]float64, error) {
	r := &reader{data: a.data}
	out := make([]float64, a.Len)
	for i := range out {
		v, ok := r.value(a.kind, 0).(float64)
		if !ok {
			return nil, fmt.Errorf("it is not an array of floating-point numbers")
		}
		out[i] = v
	}
	return out, nil
}

// Ints returns the elements; an error if they are not integers.
func (a Array) Ints() ([]int64, error) {
	r := &reader{data: a.data}
	out := make([]int64, a.Len)
	for i := range out {
		switch v := r.value(a.kind, 0).(type) {
		case int64:
			out[i] = v
		case uint64:
			out[i] = int64(v)
		default:
			return nil, fmt.Errorf("it is not an array of integers")
		}
	}
	return out, nil
}
