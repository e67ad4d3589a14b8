package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/internal/textutil"
)

// The format has no checksum: a flipped bit in the data changes a weight unnoticed. A checksummed
// file has the SHA-256 of all its bytes, header included, as an entry of the metadata, which other
// libraries keep. The digest can't cover itself: it is computed with zeros in place of its 64
// digits.

// ChecksumKey is the metadata key of the file's digest. It is reserved:
// [Encode] refuses it, and [Read] verifies it and leaves it out.
const ChecksumKey = "grpo.sha256"

var zeroDigest = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// Encode returns a file of tensors, in the order given, and of metadata, sorted by key; an empty
// metadata is left out. The same arguments give the same bytes. The header is padded with spaces so
// that the data start at a multiple of 8 bytes.
//
// An error names the tensor: names must be unique, UTF-8 and not "__metadata__", and shapes must
// agree with data. Metadata must not contain [ChecksumKey].
func Encode(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var f memory
	err := Write(&f, tensors, metadata)
	return f, err
}

// EncodeChecksummed is [Encode] with a checksum of the whole file.
func EncodeChecksummed(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var f memory
	err := WriteChecksummed(&f, tensors, metadata)
	return f, err
}

// memory is a file in memory.
type memory []byte

func (m *memory) Write(p []byte) (int, error) {
	*m = append(*m, p...)
	return len(p), nil
}

func (m *memory) WriteAt(p []byte, at int64) (int, error) { return copy((*m)[at:], p), nil }

// Output is a new file: *os.File is one.
type Output interface {
	io.Writer
	io.WriterAt
}

// Write writes the file of [Encode] to w, without a copy of it in memory.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	if err := reserved(metadata); err != nil {
		return err
	}
	_, err := write(w, tensors, metadata)
	return err
}

// WriteChecksummed writes the file of [EncodeChecksummed] to w, where it begins at offset 0. The
// checksum is computed on the way; its place in the header is filled in last.
func WriteChecksummed(w Output, tensors []Tensor, metadata map[string]string) error {
	if err := reserved(metadata); err != nil {
		return err
	}
	all := map[string]string{ChecksumKey: zeroDigest}
	maps.Copy(all, metadata)
	h := sha256.New()
	header, err := write(io.MultiWriter(h, w), tensors, all)
	if err == nil {
		_, err = w.WriteAt([]byte(hex.EncodeToString(h.Sum(nil))), 8+int64(digestAt(header)))
	}
	return err
}

func reserved(metadata map[string]string) error {
	if _, ok := metadata[ChecksumKey]; ok {
		return fmt.Errorf("write safetensors: metadata: the key %q is reserved for the checksum", ChecksumKey)
	}
	return nil
}

// write returns the header that it wrote.
func write(w io.Writer, tensors []Tensor, metadata map[string]string) (header []byte, err error) {
	if header, _, err = encodeHeader(tensors, metadata, MaxHeader); err != nil {
		return nil, fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)); err != nil {
		return nil, err
	}
	buf := make([]byte, writeBytes)
	for _, t := range tensors {
		data := t.Data
		if t.Load != nil {
			if data, err = t.Load(); err != nil {
				return nil, err
			}
			if n, _ := elements(t.Shape); n != len(data) {
				return nil, fmt.Errorf("write safetensors: tensor %s: %d elements were loaded, want %d",
					textutil.Quote(t.Name), len(data), n)
			}
		}
		for part := range slices.Chunk(data, writeBytes/4) {
			if _, err := w.Write(encodeData(buf, part, t.Dtype)); err != nil {
				return nil, err
			}
		}
	}
	return header, nil
}

const writeBytes = 1 << 18 // converted at a time

// encodeData returns the bytes of data, in buf.
func encodeData(buf []byte, data []float32, dtype string) []byte {
	if dtype == "BF16" {
		for i, x := range data {
			binary.LittleEndian.PutUint16(buf[2*i:], toBF16(x))
		}
		return buf[:2*len(data)]
	}
	for i, x := range data {
		binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(x))
	}
	return buf[:4*len(data)]
}

// encodeHeader returns the header and the number of bytes of the data.
func encodeHeader(tensors []Tensor, metadata map[string]string, limit int) (header []byte, size int, err error) {
	h := []byte{'{'}
	if len(metadata) > 0 {
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, 0, fmt.Errorf("metadata: %s: key or value is not valid UTF-8", textutil.Quote(key))
			}
		}
		h = fmt.Appendf(h, `%q:%s`, metadataKey, toJSON(metadata))
	}
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		n, err := checkTensor(t)
		if err == nil && seen[t.Name] {
			err = errors.New("a second tensor of this name")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %s: %w", textutil.Quote(t.Name), err)
		}
		seen[t.Name] = true
		if len(h) > 1 {
			h = append(h, ',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		h = fmt.Appendf(h, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`,
			toJSON(t.Name), cmp.Or(t.Dtype, "F32"), toJSON(shape), size, size+n)
		size += n
	}
	h = append(h, '}')
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	if len(h) > limit {
		return nil, 0, fmt.Errorf("the header has %d bytes, the limit is %d (write fewer tensors or less metadata)", len(h),
			limit)
	}
	return h, size, nil
}

func toJSON(v any) []byte {
	data, _ := json.Marshal(v) // strings and integers always have a JSON form
	return data
}

// checkTensor returns the number of bytes of t's data in a file.
func checkTensor(t Tensor) (int, error) {
	if t.Name == metadataKey {
		return 0, errors.New("the name is reserved for metadata")
	}
	if !utf8.ValidString(t.Name) {
		return 0, errors.New("the name is not valid UTF-8")
	}
	size := 4
	switch t.Dtype {
	case "", "F32":
	case "BF16":
		size = 2
	default:
		return 0, fmt.Errorf("dtype %s: only F32 and BF16 are written (set it to F32 to save the converted numbers)",
			textutil.Quote(t.Dtype))
	}
	n, err := elements(t.Shape)
	if err != nil {
		return 0, err
	}
	if n != len(t.Data) && t.Load == nil {
		return 0, fmt.Errorf("shape %v has %d elements, the data have %d", t.Shape, n, len(t.Data))
	}
	return byteSize(n, size)
}

// digestAt finds the digest in a header, or returns -1. The quotes make the match unique: within a
// string they would be escaped, and a tensor of this name would be followed by an object.
func digestAt(header []byte) int {
	before := []byte(`"` + ChecksumKey + `":"`)
	at := bytes.Index(header, before)
	if at < 0 || len(header) < at+len(before)+len(zeroDigest) {
		return -1
	}
	return at + len(before)
}

// verify compares a checksummed file with its digest.
func verify(r io.ReaderAt, size int64, header []byte, digest string) error {
	at := digestAt(header)
	if at < 0 {
		return fmt.Errorf("checksum: the metadata key %q is at another position than when written: the file was damaged "+
			"or changed", ChecksumKey)
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	h.Write(header[:at])
	io.WriteString(h, zeroDigest)
	h.Write(header[at+len(zeroDigest):])
	start := 8 + int64(len(header))
	if _, err := io.Copy(h, io.NewSectionReader(r, start, size-start)); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return fmt.Errorf("checksum: computed %s, stored %s: the file was damaged or changed",
			got, textutil.Quote(digest))
	}
	return nil
}
