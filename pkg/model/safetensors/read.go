package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"grpo/internal/regular"
)

// smallest is the size of a file without tensors: a length and {}.
const smallest = 8 + 2

// ReadFile reads the file at path; see [Read].
func ReadFile(path string) (*File, error) { return readFile(path, read) }

// ReadHeader reads what the file at path holds without its data, which is left
// out of the tensors; the checksum is not verified. It costs the same for a
// model of any size.
func ReadHeader(path string) (*File, error) {
	return readFile(path, func(r io.ReaderAt, size int64) (*File, error) {
		entries, metadata, _, err := readLayout(r, size)
		if err != nil {
			return nil, err
		}
		f := &File{Metadata: metadata}
		for _, e := range entries {
			f.Tensors = append(f.Tensors, Tensor{Name: e.name, Dtype: e.dtypeName, Shape: e.shape})
		}
		return f, nil
	})
}

func readFile(path string, read func(io.ReaderAt, int64) (*File, error)) (*File, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, withoutPath(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, withoutPath(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	out, err := read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

// Read reads the safetensors file of size bytes in r; name stands for it in
// errors. An error names the file, the tensor where there is one, and what is
// wrong; nothing is returned with it. A sealed file ([WriteSealed]) is held to
// its checksum.
//
// What is refused beyond the rules of the format: types other than F32, F64,
// F16 and BF16, keys of a tensor that the format does not know, a finite F64
// beyond the range of float32, more than 64 dimensions.
//
// Memory: a small multiple of the header, and 4 bytes for each element (at most
// twice the data, for F16 and BF16), allocated when the file is known to hold
// what the header announces.
func Read(name string, r io.ReaderAt, size int64) (*File, error) {
	f, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return f, nil
}

// readLayout reads the header, and checks that the tensors fill the file.
func readLayout(r io.ReaderAt, size int64) (entries []entry, metadata map[string]string, header []byte, err error) {
	if header, err = readHeader(r, size); err != nil {
		return nil, nil, nil, err
	}
	if entries, metadata, err = parseHeader(header); err != nil {
		return nil, nil, nil, err
	}
	return entries, metadata, header, checkLayout(entries, 8+int64(len(header)), size)
}

func read(r io.ReaderAt, size int64) (*File, error) {
	entries, metadata, header, err := readLayout(r, size)
	if err != nil {
		return nil, err
	}
	start := 8 + int64(len(header))
	digest, sealed := metadata[ChecksumKey]
	if sealed {
		if err := verify(r, size, header, digest); err != nil {
			return nil, err
		}
		if delete(metadata, ChecksumKey); len(metadata) == 0 {
			metadata = nil
		}
	}
	f := &File{Tensors: make([]Tensor, 0, len(entries)), Metadata: metadata, Sealed: sealed}
	buf := make([]byte, min(chunk, size-start))
	for _, e := range entries {
		data, err := readData(io.NewSectionReader(r, start+int64(e.begin), int64(e.end-e.begin)), e, buf)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(e.name), err)
		}
		f.Tensors = append(f.Tensors, Tensor{Name: e.name, Dtype: e.dtypeName, Shape: e.shape, Data: data})
	}
	return f, nil
}

func readHeader(r io.ReaderAt, size int64) ([]byte, error) {
	if size < smallest {
		return nil, truncated("at least ", smallest, size)
	}
	var prefix [8]byte
	if err := readFull(r, 0, prefix[:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > MaxHeader {
		return nil, fmt.Errorf("header: the first 8 bytes announce %d bytes of header in a file of %d, the limit is %d (is this a safetensors file?)", n, size, MaxHeader)
	}
	if n > uint64(size-8) {
		return nil, truncated("at least ", 8+n, size)
	}
	header := make([]byte, n)
	if err := readFull(r, 8, header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return header, nil
}

// checkLayout puts entries in the order of their data and checks that they fill
// the bytes from start to size.
func checkLayout(entries []entry, start, size int64) error {
	// An empty tensor goes before the one that begins where it lies.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	end := 0
	for i, e := range entries {
		switch {
		case e.begin < end:
			return fmt.Errorf("tensor %s: data_offsets [%d %d] overlap those of tensor %s, [%d %d]",
				quote(e.name), e.begin, e.end, quote(entries[i-1].name), entries[i-1].begin, entries[i-1].end)
		case e.begin > end:
			return fmt.Errorf("tensor %s: data_offsets [%d %d] leave a hole: bytes [%d %d] belong to no tensor",
				quote(e.name), e.begin, e.end, end, e.begin)
		}
		end = e.end
	}
	have := size - start
	if int64(end) == have {
		return nil
	}
	if int64(end) < have {
		return fmt.Errorf("%d trailing bytes: expected %d bytes, found %d", have-int64(end), start+int64(end), size)
	}
	cut := entries[slices.IndexFunc(entries, func(e entry) bool { return int64(e.end) > have })]
	return fmt.Errorf("tensor %s: data_offsets [%d %d] reach beyond the file: %w",
		quote(cut.name), cut.begin, cut.end, truncated("", uint64(start)+uint64(end), size))
}

func readData(r io.Reader, e entry, buf []byte) ([]float32, error) {
	data := make([]float32, e.elements)
	for done := 0; done < len(data); {
		n := min(len(buf)/e.dtype.size, len(data)-done)
		src := buf[:n*e.dtype.size]
		if _, err := io.ReadFull(r, src); err != nil {
			return nil, shrunk(err)
		}
		if k := e.dtype.decode(data[done:done+n], src); k < n {
			return nil, fmt.Errorf("element %d does not fit in float32", done+k)
		}
		done += n
	}
	return data, nil
}

func readFull(r io.ReaderAt, offset int64, p []byte) error {
	_, err := io.ReadFull(io.NewSectionReader(r, offset, int64(len(p))), p)
	return shrunk(err)
}

// shrunk says what the end of a file means whose size was known to be enough.
func shrunk(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w (did the file shrink while it was read?)", io.ErrUnexpectedEOF)
	}
	return err
}

func truncated(least string, expected uint64, found int64) error {
	return fmt.Errorf("truncated: expected %s%d bytes, found %d", least, expected, found)
}

// withoutPath takes off an error of package os the path that our own message
// already names.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
