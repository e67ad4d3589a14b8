package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// raw puts a file together from a header and data, right or wrong.
func raw(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func readBytes(b []byte) (*File, error) {
	return Read("x.safetensors", bytes.NewReader(b), int64(len(b)))
}

func mustWrite(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	data, err := Encode(tensors, metadata)
	expect.OK(t, err)
	return data
}

func mustRead(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := readBytes(b)
	expect.OK(t, err)
	return f
}

// sameBits compares as bits, for NaN is not equal to itself and -0 equals 0.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y)
	})
}

// sameTensors ignores Dtype.
func sameTensors(a, b []Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y Tensor) bool {
		return x.Name == y.Name && slices.Equal(x.Shape, y.Shape) && sameBits(x.Data, y.Data)
	})
}

// checkAccepted checks properties of any file that Read accepts: shapes agree with data, and it can
// be written and read again without a change.
func checkAccepted(t testing.TB, f *File) {
	t.Helper()
	again := make([]Tensor, len(f.Tensors))
	for i, x := range f.Tensors {
		n, err := elements(x.Shape)
		if err != nil || n != len(x.Data) {
			t.Fatalf("tensor %q: shape %v (%v), %d elements", x.Name, x.Shape, err, len(x.Data))
		}
		if got, ok := f.Get(x.Name); !ok || !sameTensors([]Tensor{got}, []Tensor{x}) {
			t.Fatalf("Get(%q) = %v, %v", x.Name, got, ok)
		}
		again[i] = Tensor{Name: x.Name, Shape: x.Shape, Data: x.Data}
	}
	g := mustRead(t, mustWrite(t, again, f.Metadata))
	if !sameTensors(f.Tensors, g.Tensors) || !maps.Equal(f.Metadata, g.Metadata) {
		t.Fatalf("changed by writing and reading:\n%v\n%v", f, g)
	}
}
