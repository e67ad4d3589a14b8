package safetensors

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// BF16 rounds to the nearest of the two neighbours, ties to the even one.
func TestBF16Rounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		got := math.Float32frombits(uint32(toBF16(x)) << 16)
		if x != x {
			if got == got {
				t.Fatalf("NaN became %v", got)
			}
			return
		}
		below := math.Float32bits(x) &^ 0xffff // towards zero
		lo, hi := float64(math.Float32frombits(below)), float64(math.Float32frombits(below+0x10000))
		if math.IsInf(hi, 0) {
			hi = math.Copysign(0x1p128, hi)
		}
		want, wide := lo, float64(x)
		if d, e := math.Abs(wide-lo), math.Abs(hi-wide); d > e || d == e && below>>16&1 == 1 {
			want = hi
		}
		if math.Abs(want) == 0x1p128 {
			want = math.Inf(int(math.Copysign(1, want)))
		}
		if float64(got) != want {
			t.Fatalf("%v became %v, want %v", x, got, want)
		}
	})
}

// A file written in parts, with tensors that are loaded when their turn comes, has the bytes of the
// file in memory, and its tensors can be read one at a time.
func TestWriteAndReadInParts(t *testing.T) {
	long := make([]float32, 3*writeBytes/4+5)
	for i := range long {
		long[i] = float32(i) / 3
	}
	metadata := map[string]string{"a": "b"}
	for _, dtype := range []string{"F32", "BF16"} {
		list := []Tensor{{Name: "x", Dtype: dtype, Shape: []int{len(long)}, Data: long}, {Name: "y", Shape: []int{1}, Data: []float32{7}}}
		want, err := EncodeChecksummed(list, metadata)
		expect.OK(t, err)
		path := filepath.Join(t.TempDir(), "w.safetensors")
		f, err := os.Create(path)
		expect.OK(t, err)
		list[0].Data, list[0].Load = nil, func() ([]float32, error) { return long, nil }
		expect.OK(t, errors.Join(WriteChecksummed(f, list, metadata), f.Close()))
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", dtype)
		}
		r, err := Open(path)
		expect.OK(t, err)
		defer r.Close()
		one, all := make([]float32, 1), make([]float32, len(long))
		if err := errors.Join(r.Into("y", one), r.Into("x", all)); err != nil || one[0] != 7 {
			t.Error(one, err)
		}
		for i, x := range all {
			if y := long[i]; dtype == "F32" && x != y || math.Abs(float64(x-y)) > math.Abs(float64(y))/256 {
				t.Fatalf("%s: element %d is %v, want %v", dtype, i, x, y)
			}
		}
		if r.Into("z", one) == nil || r.Into("x", one) == nil {
			t.Error("a missing tensor or one of another size was read")
		}
		list[0].Load = func() ([]float32, error) { return one, nil }
		expect.Error(t, Write(&memory{}, list, nil), "1 elements were loaded")
	}
}
