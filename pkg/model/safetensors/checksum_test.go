package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sealedFile(t testing.TB) []byte {
	t.Helper()
	data, err := WriteSealed([]Tensor{
		{Name: "w", Shape: []int{2, 2}, Data: []float32{1, -2, 0.5, 0}},
		{Name: ChecksumKey, Data: []float32{3}}, // a tensor may have the name
	}, map[string]string{"a": `text with "` + ChecksumKey + `":" in it`, "z": "1"})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A sealed file reads as what was written, and apart from the digest it is the
// file that Write would write with one more text in its metadata.
func TestSealedFileReads(t *testing.T) {
	data := sealedFile(t)
	f, err := readBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Sealed || len(f.Tensors) != 2 || f.Tensors[0].Data[1] != -2 {
		t.Errorf("read %+v", f)
	}
	if want := map[string]string{"a": `text with "` + ChecksumKey + `":" in it`, "z": "1"}; !maps.Equal(f.Metadata, want) {
		t.Errorf("metadata %q", f.Metadata)
	}
	if again, err := WriteSealed(f.Tensors, f.Metadata); err != nil || !bytes.Equal(again, data) {
		t.Errorf("what was read is written with other bytes: %v", err)
	}
	plain := mustWrite(t, f.Tensors, f.Metadata)
	if g, err := readBytes(plain); err != nil || g.Sealed {
		t.Errorf("a file without a checksum: sealed %v, %v", g.Sealed, err)
	}
	if alone, err := WriteSealed(nil, nil); err != nil {
		t.Error(err)
	} else if g, err := readBytes(alone); err != nil || !g.Sealed || g.Metadata != nil {
		t.Errorf("nothing, sealed: %+v, %v", g, err)
	}
}

func TestChecksumKeyIsReserved(t *testing.T) {
	metadata := map[string]string{ChecksumKey: "x"}
	if err := Write(&bytes.Buffer{}, nil, metadata); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("Write: %v", err)
	}
	if _, err := WriteSealed(nil, metadata); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("WriteSealed: %v", err)
	}
}

// Every byte that changes is found: none gives a file that passes for a whole
// one. Where the change hides the checksum itself, the file reads as one without.
func TestSealFindsEveryByte(t *testing.T) {
	data := sealedFile(t)
	hidden := 0
	try := func(what string, at int, damaged []byte) {
		f, err := readBytes(damaged)
		switch {
		case err != nil && !strings.Contains(err.Error(), "x.safetensors"):
			t.Errorf("%s %d: error %v does not name the file", what, at, err)
		case err == nil && f.Sealed:
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
		"spaced":         `{"__metadata__":{"grpo.sha256": "` + noDigits + `"}}`,
		"wrong":          `{"__metadata__":{"grpo.sha256":"` + noDigits + `"}}`,
		"escaped":        `{"__metadata__":{"grpo\u002esha256":"` + noDigits + `"}}`,
		"longer":         `{"__metadata__":{"grpo.sha256":"` + noDigits + `0"}}`,
		"not hex at all": `{"__metadata__":{"grpo.sha256":"` + strings.Repeat("x", 64) + `"}}`,
	} {
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if f, err := readBytes(data); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestSealedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metadata := rapid.MapOf(rapid.StringMatching(`[a-z".:\\]{0,20}`), rapid.String().Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s })).Draw(t, "metadata")
		data, err := WriteSealed([]Tensor{{Name: "w", Shape: []int{1}, Data: []float32{rapid.Float32().Draw(t, "w")}}}, metadata)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := readBytes(data); err != nil || !f.Sealed || len(f.Metadata) != len(metadata) {
			t.Fatalf("%+v, %v", f, err)
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		data[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if f, err := readBytes(data); err == nil && f.Sealed {
			t.Fatalf("byte %d changed, and nobody noticed", at)
		}
	})
}
