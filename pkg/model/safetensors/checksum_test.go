package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"strings"
	"testing"

	"grpo/internal/expect"
)

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
