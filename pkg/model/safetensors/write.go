package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// chunk is the number of bytes that are converted at a time; each element size
// divides it.
const chunk = 32 << 10

// Write writes tensors as F32, in the order given, and metadata sorted by key;
// an empty metadata is left out. The same arguments give the same bytes. The
// metadata must not hold [ChecksumKey]. The
// header is padded with spaces so that the data begin at a multiple of 8 bytes.
//
// Before the first byte is written, Write checks names (unique, UTF-8, not
// "__metadata__"), types, and shapes against data, and returns an error that
// names the tensor.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	if err := checkMetadata(metadata); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	return write(w, tensors, metadata)
}

func write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	header, err := encodeHeader(tensors, metadata, MaxHeader)
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	for _, part := range [][]byte{prefix, header} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write safetensors: header: %w", err)
		}
	}
	buf := make([]byte, 0, chunk)
	for _, t := range tensors {
		if err := writeData(w, t.Data, buf); err != nil {
			return fmt.Errorf("write safetensors: tensor %s: %w", quote(t.Name), err)
		}
	}
	return nil
}

func writeData(w io.Writer, data []float32, buf []byte) error {
	for part := range slices.Chunk(data, chunk/4) {
		buf = buf[:0]
		for _, x := range part {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

func encodeHeader(tensors []Tensor, metadata map[string]string, limit int) ([]byte, error) {
	h := []byte{'{'}
	if len(metadata) > 0 {
		h = append(h, `"`+metadataKey+`":{`...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata: %s: key or value is not valid UTF-8", quote(key))
			}
			if i > 0 {
				h = append(h, ',')
			}
			h = appendString(h, key)
			h = append(h, ':')
			h = appendString(h, metadata[key])
		}
		h = append(h, '}')
	}
	seen := make(map[string]bool, len(tensors))
	offset := 0
	for _, t := range tensors {
		size, err := checkTensor(t)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %s: a second tensor of this name", quote(t.Name))
		}
		seen[t.Name] = true
		if len(h) > 1 {
			h = append(h, ',')
		}
		h = appendString(h, t.Name)
		h = append(h, `:{"dtype":"F32","shape":`...)
		h = appendInts(h, t.Shape)
		h = append(h, `,"data_offsets":`...)
		h = appendInts(h, []int{offset, offset + size})
		h = append(h, '}')
		offset += size
	}
	h = append(h, '}')
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	if len(h) > limit {
		return nil, fmt.Errorf("the header has %d bytes, the limit is %d (write fewer tensors or less metadata)", len(h), limit)
	}
	return h, nil
}

// checkMetadata refuses the one key that is the file's own.
func checkMetadata(metadata map[string]string) error {
	if _, ok := metadata[ChecksumKey]; ok {
		return fmt.Errorf("metadata: the key %s is reserved for the file's checksum", quote(ChecksumKey))
	}
	return nil
}

// checkTensor returns the number of bytes of t's data in a file.
func checkTensor(t Tensor) (int, error) {
	if t.Name == metadataKey {
		return 0, fmt.Errorf("the name is reserved for metadata")
	}
	if !utf8.ValidString(t.Name) {
		return 0, fmt.Errorf("the name is not valid UTF-8")
	}
	if t.Dtype != "F32" && t.Dtype != "" {
		return 0, fmt.Errorf("dtype %s: only F32 is written (set it to F32 to save the converted numbers)", quote(t.Dtype))
	}
	n, err := elements(t.Shape)
	if err != nil {
		return 0, err
	}
	if n != len(t.Data) {
		return 0, fmt.Errorf("shape %v has %d elements, the data have %d", t.Shape, n, len(t.Data))
	}
	return byteSize(n, 4)
}

func appendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return append(dst, b...)
}

func appendInts(dst []byte, list []int) []byte {
	dst = append(dst, '[')
	for i, n := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return append(dst, ']')
}
