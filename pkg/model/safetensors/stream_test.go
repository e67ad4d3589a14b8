package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
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

func checksummedFile(t testing.TB) []byte {
	t.Helper()
	data, err := EncodeChecksummed([]Tensor{
		{Name: "w", Shape: []int{2, 2}, Data: []float32{1, -2, 0.5, 0}},
		{Name: ChecksumKey, Data: []float32{3}}, // a tensor may have the name
	}, map[string]string{"a": `text with "` + ChecksumKey + `":" in it`, "z": "1"})
	expect.OK(t, err)
	return data
}

// A checksummed file reads as what was written.
func TestChecksummedFileReads(t *testing.T) {
	data := checksummedFile(t)
	f, err := readBytes(data)
	expect.OK(t, err)
	if !f.Checksummed || len(f.Tensors) != 2 || f.Tensors[0].Data[1] != -2 {
		t.Errorf("read %+v", f)
	}
	if want := map[string]string{"a": `text with "` + ChecksumKey + `":" in it`, "z": "1"}; !maps.Equal(f.Metadata, want) {
		t.Errorf("metadata %q", f.Metadata)
	}
	if again, err := EncodeChecksummed(f.Tensors, f.Metadata); err != nil || !bytes.Equal(again, data) {
		t.Errorf("what was read is written with other bytes: %v", err)
	}
	plain := mustWrite(t, f.Tensors, f.Metadata)
	if g, err := readBytes(plain); err != nil || g.Checksummed {
		t.Errorf("a file without a checksum: checksummed %v, %v", g.Checksummed, err)
	}
	if alone, err := EncodeChecksummed(nil, nil); err != nil {
		t.Error(err)
	} else if g, err := readBytes(alone); err != nil || !g.Checksummed || g.Metadata != nil {
		t.Errorf("an empty file with a checksum: %+v, %v", g, err)
	}
}

func TestChecksumKeyIsReserved(t *testing.T) {
	metadata := map[string]string{ChecksumKey: "x"}
	for name, encode := range map[string]func([]Tensor, map[string]string) ([]byte, error){"Encode": Encode, "EncodeChecksummed": EncodeChecksummed} {
		if _, err := encode(nil, metadata); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every changed byte is detected. If the change hides the checksum itself, the file reads as one
// without.
func TestChecksumFindsEveryByte(t *testing.T) {
	data := checksummedFile(t)
	hidden := 0
	try := func(what string, at int, damaged []byte) {
		f, err := readBytes(damaged)
		switch {
		case err != nil && !strings.Contains(err.Error(), "x.safetensors"):
			t.Errorf("%s %d: error %v does not name the file", what, at, err)
		case err == nil && f.Checksummed:
			t.Errorf("%s %d: passes for whole", what, at)
		case err == nil:
			hidden++
		}
	}
	for i := range data {
		for mask := 1; mask < 256; mask <<= 1 {
			data[i] ^= byte(mask)
			try("flipped byte", i, data)
			data[i] ^= byte(mask)
		}
		try("cut at byte", i, data[:i])
	}
	if hidden == 0 || hidden > 8*len(ChecksumKey) {
		t.Errorf("%d changes hid the checksum, at most %d can", hidden, 8*len(ChecksumKey))
	}
}

// A checksum of another form than ours is not taken for one.
func TestForeignChecksums(t *testing.T) {
	for name, header := range map[string]string{
		"short":          `{"__metadata__":{"grpo.sha256":"ab"}}`,
		"spaced":         `{"__metadata__":{"grpo.sha256": "` + zeroDigest + `"}}`,
		"wrong":          `{"__metadata__":{"grpo.sha256":"` + zeroDigest + `"}}`,
		"escaped":        `{"__metadata__":{"grpo\u002esha256":"` + zeroDigest + `"}}`,
		"longer":         `{"__metadata__":{"grpo.sha256":"` + zeroDigest + `0"}}`,
		"not hex at all": `{"__metadata__":{"grpo.sha256":"` + strings.Repeat("x", 64) + `"}}`,
	} {
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if f, err := readBytes(data); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
