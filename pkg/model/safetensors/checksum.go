package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strings"
)

// The format has no checksum of its own: a flipped bit in the data is another
// weight, and nobody is told. A sealed file holds the SHA-256 of all its bytes,
// header included, as one more entry of the metadata, which other libraries
// hand on as a text like any other. The digest can't cover itself: it is taken
// with zeros in the place of its 64 digits.

// ChecksumKey is the metadata key of a sealed file's digest. It is the file's
// own: [Write] refuses it, and [Read] checks it and leaves it out.
const ChecksumKey = "grpo.sha256"

// noDigits stand in the digest's place while it is taken.
var noDigits = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// WriteSealed returns the bytes of [Write] with a checksum over all of them.
func WriteSealed(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	if err := checkMetadata(metadata); err != nil {
		return nil, fmt.Errorf("write safetensors: %w", err)
	}
	sealed := maps.Clone(metadata)
	if sealed == nil {
		sealed = map[string]string{}
	}
	sealed[ChecksumKey] = noDigits
	var b bytes.Buffer
	b.Grow(roomFor(tensors, sealed)) // a buffer that doubles would hold the file three times
	if err := write(&b, tensors, sealed); err != nil {
		return nil, err
	}
	file := b.Bytes()
	sum := sha256.Sum256(file)
	header := file[8 : 8+binary.LittleEndian.Uint64(file)]
	hex.Encode(header[digestAt(header):], sum[:])
	return file, nil
}

// roomFor is a little more than the size of the file.
func roomFor(tensors []Tensor, metadata map[string]string) int {
	n := 4 << 10
	for _, t := range tensors {
		n += 4*len(t.Data) + len(t.Name) + 128
	}
	for key, text := range metadata {
		n += len(key) + len(text) + len(text)/4 // escapes
	}
	return n
}

// digestAt finds the digest in a header, or returns -1. The quotes make the
// place the only one: within a text they would be escaped, and a tensor of this
// name would be followed by an object.
func digestAt(header []byte) int {
	before := []byte(`"` + ChecksumKey + `":"`)
	at := bytes.Index(header, before)
	if at < 0 || len(header) < at+len(before)+len(noDigits) {
		return -1
	}
	return at + len(before)
}

// verify compares a sealed file with its digest.
func verify(r io.ReaderAt, size int64, header []byte, digest string) error {
	at := digestAt(header)
	if at < 0 {
		return fmt.Errorf("checksum: the metadata key %s is not where it was written: the file was damaged or changed", quote(ChecksumKey))
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	h.Write(header[:at])
	io.WriteString(h, noDigits)
	h.Write(header[at+len(noDigits):])
	start := 8 + int64(len(header))
	if _, err := io.Copy(h, io.NewSectionReader(r, start, size-start)); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return fmt.Errorf("checksum: the bytes have %s, the file says %s: it was damaged or changed", got, quote(digest))
	}
	return nil
}
