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
	"grpo/internal/words"
)

const (
	smallest = 8 + 2    // bytes of a file without tensors: a length and {}
	chunk    = 32 << 10 // bytes that are converted at a time; each element size divides it
)

// ReadFile reads the file at path; see [Read].
func ReadFile(path string) (*File, error) { return readFile(path, read) }

// ReadHeader reads the file at path without its data, which is left out of the tensors; the
// checksum is not verified. The cost does not depend on the size of the model.
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
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // without the path
		}
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	out, err := read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

// Read reads the safetensors file of size bytes in r; name is its name in errors.
// An error also names the tensor, if there is one; nothing is returned with it. A
// checksummed file ([EncodeChecksummed]) is verified.
//
// Beyond the rules of the format these are refused: types other than F32, F64,
// F16 and BF16, unknown keys of a tensor, a finite F64 beyond the range of
// float32, more than 64 dimensions.
//
// Memory: a small multiple of the header, and 4 bytes for each element (at most
// twice the data, for F16 and BF16).
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
	digest, checksummed := metadata[ChecksumKey]
	if checksummed {
		if err := verify(r, size, header, digest); err != nil {
			return nil, err
		}
		if delete(metadata, ChecksumKey); len(metadata) == 0 {
			metadata = nil
		}
	}
	f := &File{Tensors: make([]Tensor, 0, len(entries)), Metadata: metadata, Checksummed: checksummed}
	buf := make([]byte, min(chunk, size-start))
	for _, e := range entries {
		data, err := readData(io.NewSectionReader(r, start+int64(e.begin), int64(e.end-e.begin)), e, buf)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", words.Quote(e.name), err)
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
		return nil, fmt.Errorf("header: the first 8 bytes announce %d bytes of header in a file of %d, "+
			"the limit is %d (is this a safetensors file?)", n, size, MaxHeader)
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
	// An empty tensor sorts before the one that starts at the same offset.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	end := 0
	for i, e := range entries {
		switch {
		case e.begin < end:
			return fmt.Errorf("tensor %s: data_offsets [%d %d] overlap those of tensor %s, [%d %d]",
				words.Quote(e.name), e.begin, e.end, words.Quote(entries[i-1].name), entries[i-1].begin, entries[i-1].end)
		case e.begin > end:
			return fmt.Errorf("tensor %s: data_offsets [%d %d] leave a hole: bytes [%d %d] belong to no tensor",
				words.Quote(e.name), e.begin, e.end, end, e.begin)
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
		words.Quote(cut.name), cut.begin, cut.end, truncated("", uint64(start)+uint64(end), size))
}

func readData(r io.Reader, e entry, buf []byte) ([]float32, error) {
	data := make([]float32, e.elements)
	size := e.dtype.size
	for done := 0; done < len(data); {
		n := min(len(buf)/size, len(data)-done)
		if _, err := io.ReadFull(r, buf[:n*size]); err != nil {
			return nil, shrunk(err)
		}
		for i := range n {
			var fits bool
			if data[done+i], fits = e.dtype.decode(buf[i*size:]); !fits {
				return nil, fmt.Errorf("element %d does not fit in float32", done+i)
			}
		}
		done += n
	}
	return data, nil
}

func readFull(r io.ReaderAt, offset int64, p []byte) error {
	_, err := io.ReadFull(io.NewSectionReader(r, offset, int64(len(p))), p)
	return shrunk(err)
}

// shrunk explains the early end of a file whose size was checked.
func shrunk(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w (did the file shrink while it was read?)", io.ErrUnexpectedEOF)
	}
	return err
}

func truncated(least string, expected uint64, found int64) error {
	return fmt.Errorf("truncated: expected %s%d bytes, found %d", least, expected, found)
}
