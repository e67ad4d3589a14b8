package gguf

import (
	"encoding/binary"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

func reference(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/types.gguf")
	expect.OK(t, err)
	return data
}

// Values equal those of the gguf package, which wrote the file (testdata/reference.py).
func TestTypes(t *testing.T) {
	f, err := Parse(reference(t))
	expect.OK(t, err)
	var want map[string]struct {
		Shape  []int
		Sum    float64
		Values []float64
	}
	golden.ReadJSON(t, "testdata/types.json", &want)
	if len(want) != len(blocks) || len(f.Tensors) != len(blocks) {
		t.Errorf("%d types in the reference, %d in the file, %d supported", len(want), len(f.Tensors), len(blocks))
	}
	for name, w := range want {
		tensor := f.Tensors["t."+name]
		if tensor.Type.String() != name || !reflect.DeepEqual(tensor.Shape, w.Shape) {
			t.Errorf("%s has type %s and shape %v", name, tensor.Type, tensor.Shape)
			continue
		}
		out := make([]float32, tensor.Size())
		tensor.Float32(out)
		sum := 0.0
		for _, v := range out {
			sum += float64(v)
		}
		if math.Abs(sum-w.Sum) > 1e-4*max(1, math.Abs(w.Sum)) {
			t.Errorf("%s: sum %v, want %v", name, sum, w.Sum)
		}
		for i, v := range w.Values {
			if got := float64(out[37*i]); math.Abs(got-v) > 1e-6*max(1, math.Abs(v)) {
				t.Errorf("%s: element %d is %v, want %v", name, 37*i, got, v)
				break
			}
		}
	}
}

func TestMetadata(t *testing.T) {
	f, err := Parse(reference(t))
	expect.OK(t, err)
	for key, want := range map[string]any{
		"general.architecture": "llama", "llama.block_count": uint64(2), "llama.eps": float64(float32(1e-5)), "flag": true,
		"tokens": []string{"a", "ü", "<|x|>"}, "neg": int64(-7), "types": []int64{1, 2, 3},
	} {
		got := f.Metadata[key]
		if a, ok := got.(Array); ok {
			if got, err = a.Ints(); err != nil {
				got, err = a.Strings()
			}
			if err != nil {
				t.Error(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", key, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	good := reference(t)
	change := func(f func(b []byte) []byte) []byte { return f(append([]byte(nil), good...)) }
	tests := []struct {
		name, says string
		data       []byte
	}{
		{"empty", "GGUF", nil},
		{"another format", "GGUF", []byte("PK\x03\x04 and more")},
		{"version 1", "version 1", change(func(b []byte) []byte { b[4] = 1; return b })},
		{"too many tensors", "do not fit", change(func(b []byte) []byte { b[14] = 1; return b })},
		{"too many entries", "do not fit", change(func(b []byte) []byte { b[22] = 1; return b })},
		{"cut", "beyond the end", good[:len(good)-100]},
		{"an array beyond the limit", "64 MiB", hugeArray()},
		{"too many entries for a file", "the limit is", manyEntries(maxEntries + 1)},
		{"overlapping tensors", "overlap", change(func(b []byte) []byte {
			i := strings.Index(string(b), "t.Q6_K") + len("t.Q6_K") + 4 + 16 + 4
			j := strings.Index(string(b), "t.Q5_K") + len("t.Q5_K") + 4 + 16 + 4
			copy(b[i:i+8], b[j:j+8])
			return b
		})},
		{"an unknown type", "not supported", change(func(b []byte) []byte {
			i := strings.Index(string(b), "t.Q6_K") + len("t.Q6_K") + 4 + 16
			b[i] = 200
			return b
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.Error(t, expect.Err(Parse(tt.data)), tt.says)
		})
	}
}

// hugeArray has more bytes than metadata may take.
func hugeArray() []byte {
	b := append(manyEntries(0)[:16], 1, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = append(b, "x\x09\x00\x00\x00\x00\x00\x00\x00"...)
	b = binary.LittleEndian.AppendUint64(b, maxHeader)
	out := make([]byte, len(b)+maxHeader) // zeros that nothing touches
	copy(out, b)
	return out
}

// manyEntries has n entries of a byte.
func manyEntries(n int) []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return append(b, make([]byte, 13*n)...)
}

// Arrays that nobody reads cost no memory.
func TestUnreadArray(t *testing.T) {
	b := append([]byte(nil), reference(t)...)
	const n = 32 << 20
	entry := binary.LittleEndian.AppendUint64(nil, 6)
	entry = append(entry, "unread\x09\x00\x00\x00\x00\x00\x00\x00"...)
	entry = append(binary.LittleEndian.AppendUint64(entry, n), make([]byte, n)...)
	b[16]++ // one more entry
	b = slices.Insert(b, 24, entry...)
	allocated := testing.AllocsPerRun(1, func() {
		expect.OK(t, expect.Err(Parse(b)))
	})
	if allocated > 1000 {
		t.Errorf("%v allocations", allocated)
	}
}

// Whatever a file is, reading it ends in an error or in tensors that can be read.
func FuzzParse(f *testing.F) {
	f.Add(reference(f))
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for _, tensor := range file.Tensors {
			if tensor.Size() < 1<<20 {
				tensor.Float32(make([]float32, tensor.Size()))
			}
		}
	})
}
