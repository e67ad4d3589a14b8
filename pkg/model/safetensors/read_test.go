package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// testdata/python.safetensors was written by `interop.py` with version
// 0.8.0 of Hugging Face's library and PyTorch 1.13.
func TestReadPythonFile(t *testing.T) {
	f, err := ReadFile(filepath.Join("testdata", "python.safetensors"))
	expect.OK(t, err)
	if want := map[string]string{"format": "pt"}; !maps.Equal(f.Metadata, want) {
		t.Errorf("metadata %v, want %v", f.Metadata, want)
	}
	// In the library's order: larger types first, then by name.
	want := []Tensor{
		{"double", "F64", []int{2}, []float32{0.1, float32(math.Copysign(0, -1))}, nil},
		{"embed.weight", "F32", []int{2, 3}, []float32{1.5, -2.25, 0, 3.4e38, -1e-45, float32(math.Inf(1))}, nil},
		{"empty", "F32", []int{0, 3}, nil, nil},
		{"scalar", "F32", []int{}, []float32{0.1}, nil},
		{"brain", "BF16", []int{3}, []float32{1, -0x1.c4p127, 0.100097656}, nil},
		{"half", "F16", []int{4}, []float32{1, -65504, 0x1p-24, 0.099975586}, nil},
	}
	if len(f.Tensors) != len(want) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors), len(want))
	}
	for i, got := range f.Tensors {
		if w := want[i]; got.Dtype != w.Dtype || !sameTensors([]Tensor{got}, []Tensor{w}) {
			t.Errorf("got %v, want %v", got, w)
		}
	}
	checkAccepted(t, f)
}

// Valid files that are unusual.
func TestReadAccepts(t *testing.T) {
	tests := []struct {
		name, header, data string
		want               []string // names in order
	}{
		{"no tensor", `{}`, "", nil},
		{"header of any length", `{"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}} `, "\x80\x3f", []string{"a"}},
		{"keys and tensors in any order, spaces", `{"b" : {"data_offsets":[2,4], "shape":[1],"dtype":"F16"},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}  `, "\x00\x00\x00\x3c", []string{"a", "b"}},
		{"empty tensor next to another", `{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"z":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}}`, "\x00\x3c", []string{"z", "a"}},
		{"empty metadata", `{"__metadata__":{}}`, "", nil},
		{"escapes", `{"\u0061\ud83d\ude00\\ud800\n":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}`, "\x00\x3c", []string{"a\U0001F600\\ud800\n"}},
		{"64 dimensions", `{"a":{"dtype":"F16","shape":[1` + strings.Repeat(",1", 63) + `],"data_offsets":[0,2]}}`, "\x00\x3c", []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := mustRead(t, raw(tt.header, tt.data))
			var names []string
			for _, x := range f.Tensors {
				names = append(names, x.Name)
			}
			if !slices.Equal(names, tt.want) {
				t.Errorf("tensors %q, want %q", names, tt.want)
			}
			checkAccepted(t, f)
		})
	}
}

func TestReadFileErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.safetensors")
	expect.OK(t, os.WriteFile(empty, nil, 0o600))
	missing := filepath.Join(dir, "none.safetensors")
	tests := []struct{ name, path, want string }{
		{"missing", missing, "read " + missing + ": no such file or directory"},
		{"a folder", dir, "read " + dir + ": not a regular file: it is a directory"},
		{"empty", empty, "read " + empty + ": truncated: expected at least 10 bytes, found 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ReadFile(tt.path)
			if f != nil || err == nil || err.Error() != tt.want {
				t.Errorf("got %v, %v; want %s", f, err, tt.want)
			}
		})
	}
	if _, err := ReadFile(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// A source that is shorter than its announced size: the file shrank during the read.
func TestReadShrunkFile(t *testing.T) {
	whole := mustWrite(t, []Tensor{{Name: "w", Shape: []int{2}, Data: []float32{1, 2}}}, nil)
	for n := range whole {
		_, err := Read("x", bytes.NewReader(whole[:n]), int64(len(whole)))
		want := "read x: header: "
		if n >= len(whole)-8 {
			want = `read x: tensor "w": `
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// Every binary16, against its definition: (-1)^s * 2^(e-15) * (1 + m/1024), and
// (-1)^s * 2^-14 * m/1024 for subnormals.
func TestF16EveryNumber(t *testing.T) {
	for h := range 1 << 16 {
		sign, e, m := h>>15, h>>10&31, h&1023
		got, _ := decodeF16(binary.LittleEndian.AppendUint16(nil, uint16(h)))
		bits := math.Float32bits(got)
		if int(bits>>31) != sign {
			t.Fatalf("%#04x: sign of %#08x", h, bits)
		}
		if e == 31 && m != 0 {
			if bits&0x7fffffff != 0x7f800000|uint32(m)<<13 {
				t.Fatalf("%#04x: NaN %#08x", h, bits)
			}
			continue
		}
		want := math.Ldexp(1+float64(m)/1024, e-15)
		if e == 0 {
			want = math.Ldexp(float64(m)/1024, -14)
		} else if e == 31 {
			want = math.Inf(1)
		}
		if math.Abs(float64(got)) != want {
			t.Fatalf("%#04x: got %g, want %g", h, got, want)
		}
	}
}

func TestBF16EveryNumber(t *testing.T) {
	for h := range 1 << 16 {
		got, _ := decodeBF16(binary.LittleEndian.AppendUint16(nil, uint16(h)))
		if bits := math.Float32bits(got); bits != uint32(h)<<16 {
			t.Fatalf("%#04x: %#08x", h, bits)
		}
	}
}

func TestF64(t *testing.T) {
	const half = 0x1p-24 // half a unit in the last place of 1
	tests := []struct {
		name string
		in   float64
		want uint32
		fits bool
	}{
		{"exact", -2.5, math.Float32bits(-2.5), true},
		{"minus zero", math.Copysign(0, -1), 1 << 31, true},
		{"tie to even, down", 1 + half, math.Float32bits(1), true},
		{"above the tie", 1 + half + 0x1p-50, 0x3f800001, true},
		{"tie to even, up", 1 + 3*half, 0x3f800002, true},
		{"below the smallest", 1e-300, 0, true},
		{"subnormal", 0x1p-149, 1, true},
		{"infinite", math.Inf(-1), 0xff800000, true},
		{"largest", math.MaxFloat32, 0x7f7fffff, true},
		{"rounds to the largest", math.MaxFloat32 + 0x1p102, 0x7f7fffff, true},
		{"would round to infinity", math.MaxFloat32 + 0x1p103, 0, false},
		{"far too large", -1e300, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := binary.LittleEndian.AppendUint64(nil, math.Float64bits(tt.in))
			got, fits := decodeF64(src)
			if fits != tt.fits {
				t.Fatalf("fits: %v", fits)
			}
			if tt.fits && math.Float32bits(got) != tt.want {
				t.Errorf("%g became %#08x, want %#08x", tt.in, math.Float32bits(got), tt.want)
			}
		})
	}
	t.Run("NaN", func(t *testing.T) {
		got, fits := decodeF64(binary.LittleEndian.AppendUint64(nil, 0x7ff0000000000001))
		if !fits || !math.IsNaN(float64(got)) {
			t.Errorf("fits %v: %g", fits, got)
		}
	})
}
