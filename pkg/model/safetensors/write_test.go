package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestEncodeBytes(t *testing.T) {
	tests := []struct {
		name     string
		tensors  []Tensor
		metadata map[string]string
		want     []byte
	}{
		{"nothing", nil, nil, raw(`{}      `, "")},
		{"an empty metadata is left out", nil, map[string]string{}, raw(`{}      `, "")},
		{
			"order given, metadata sorted, header padded to 8 bytes",
			[]Tensor{
				{Name: "w", Shape: []int{2, 1}, Data: []float32{1, -2}},
				{Name: "none", Shape: []int{0, 3}},
				{Name: "a", Dtype: "F32", Data: []float32{0.5}},
			},
			map[string]string{"z": "1", "format": "pt", "m": `<"é">`},
			raw(`{"__metadata__":{"format":"pt","m":"\u003c\"é\"\u003e","z":"1"},`+
				`"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},`+
				`"none":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]},`+
				`"a":{"dtype":"F32","shape":[],"data_offsets":[8,12]}} `,
				"\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustWrite(t, tt.tensors, tt.metadata)
			if !bytes.Equal(got, tt.want) {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
			if n := binary.LittleEndian.Uint64(got); n%8 != 0 {
				t.Errorf("a header of %d bytes puts the data off a multiple of 8", n)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	one := []float32{1}
	tests := []struct {
		name     string
		tensors  []Tensor
		metadata map[string]string
		want     string
	}{
		{"duplicate name", []Tensor{{Name: "w", Data: one}, {Name: "w", Data: one}}, nil, `tensor "w": a second tensor of this name`},
		{"reserved name", []Tensor{{Name: "__metadata__", Data: one}}, nil, `tensor "__metadata__": the name is reserved`},
		{"name not UTF-8", []Tensor{{Name: "w\xff", Data: one}}, nil, `tensor "w\xff": the name is not valid UTF-8`},
		{"type", []Tensor{{Name: "w", Dtype: "F16", Data: one}}, nil, `tensor "w": dtype "F16": only F32 and BF16 are written`},
		{"too few data", []Tensor{{Name: "w", Shape: []int{2, 3}, Data: one}}, nil, `tensor "w": shape [2 3] has 6 elements, the data have 1`},
		{"no data for a scalar", []Tensor{{Name: "w"}}, nil, `tensor "w": shape [] has 1 elements, the data have 0`},
		{"negative size", []Tensor{{Name: "w", Shape: []int{-1, -1}, Data: one}}, nil, `tensor "w": shape [-1 -1] has a negative size`},
		{"overflow that wraps to 0", []Tensor{{Name: "w", Shape: []int{1 << 32, 1 << 32}}}, nil, `tensor "w": shape [4294967296 4294967296] overflows`},
		{"rank", []Tensor{{Name: "w", Shape: make([]int, 65)}}, nil, `tensor "w": shape has 65 dimensions, the limit is 64`},
		{"metadata key", nil, map[string]string{"\xff": "v"}, `metadata: "\xff": key or value is not valid UTF-8`},
		{"metadata value", nil, map[string]string{"k": "\xff"}, `metadata: "k": key or value is not valid UTF-8`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := Encode(tt.tensors, tt.metadata)
			if err == nil || !strings.HasPrefix(err.Error(), "write safetensors: "+tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if data != nil {
				t.Errorf("%d bytes were returned with the error", len(data))
			}
		})
	}
}

func TestEncodeHeaderLimit(t *testing.T) {
	metadata := map[string]string{"k": "123456"} // {"__metadata__":{"k":"123456"}} and a space
	if h, _, err := encodeHeader(nil, metadata, 32); err != nil || len(h) != 32 {
		t.Errorf("at the limit: %d bytes, %v", len(h), err)
	}
	_, _, err := encodeHeader(nil, metadata, 31)
	if want := "the header has 32 bytes, the limit is 31"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("over the limit: %v, want %s", err, want)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != metadataKey }), 0, 5, rapid.ID).Draw(t, "names")
		metadata := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata")
		tensors := make([]Tensor, len(names))
		for i, name := range names {
			shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
			n, err := elements(shape)
			expect.OK(t, err)
			bits := rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "bits")
			data := make([]float32, n)
			for j, b := range bits {
				data[j] = math.Float32frombits(b)
			}
			tensors[i] = Tensor{Name: name, Shape: shape, Data: data}
		}
		data, err := Encode(tensors, metadata)
		expect.OK(t, err)
		f, err := readBytes(data)
		expect.OK(t, err)
		if !sameTensors(f.Tensors, tensors) || !maps.Equal(f.Metadata, metadata) {
			t.Fatalf("wrote %v %v\nread %v", tensors, metadata, f)
		}
		if again, err := Encode(f.Tensors, f.Metadata); err != nil || !bytes.Equal(data, again) {
			t.Fatalf("writing again gave other bytes (%v)", err)
		}
	})
}

// Data longer than a chunk, and not a multiple of one.
func TestRoundTripLong(t *testing.T) {
	for _, n := range []int{chunk/4 - 1, chunk / 4, chunk/4 + 1, 3*chunk/4 + 5} {
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(i)
		}
		want := []Tensor{{Name: "first", Shape: []int{3}, Data: []float32{7, 8, 9}}, {Name: "w", Shape: []int{n}, Data: data}}
		if f := mustRead(t, mustWrite(t, want, nil)); !sameTensors(f.Tensors, want) {
			t.Errorf("%d elements changed", n)
		}
	}
}

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
