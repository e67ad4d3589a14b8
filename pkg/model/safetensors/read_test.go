package safetensors

import (
	"bytes"
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
