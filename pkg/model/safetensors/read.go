package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"grpo/internal/regular"
	"grpo/internal/textutil"
)

const (
	smallest = 8 + 2     // bytes of a file without tensors: a length and {}
	chunk    = 256 << 10 // bytes that are converted at a time; each element size divides it
)

// ReadFile reads the file at path; see [Read].
func ReadFile(path string) (*File, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.all()
}

// ReadHeader reads the file at path without its data, which is left out of the tensors; the
// checksum is not verified. The cost does not depend on the size of the model.
func ReadHeader(path string) (*File, error) {
	r, err := open(path, false)
	if err != nil {
		return nil, err
	}
	return &File{Tensors: r.Tensors, Metadata: r.Metadata}, r.Close()
}

// Reader reads the tensors of a file one at a time.
type Reader struct {
	File    // the tensors in the order of their data, without data
	name    string
	r       io.ReaderAt
	start   int64 // of the data
	entries map[string]entry
	buf     []byte
	close   func() error
}

// Open opens the file at path like [Read], which describes what is checked. Its checksum is
// verified, but the elements are only read by [Reader.Into].
func Open(path string) (*Reader, error) { return open(path, true) }

func open(path string, verified bool) (*Reader, error) {
	f, err := regular.Named(path)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // without the path
		}
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	r, err := newReader(path, f, info.Size(), verified)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.close = f.Close
	return r, nil
}

// NewReader is [Open] for the size bytes in r; name is its name in errors.
func NewReader(name string, r io.ReaderAt, size int64) (*Reader, error) {
	return newReader(name, r, size, true)
}

func newReader(name string, r io.ReaderAt, size int64, verified bool) (*Reader, error) {
	entries, metadata, header, err := readLayout(r, size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	out := &Reader{File: File{Metadata: metadata}, name: name, r: r, start: 8 + int64(len(header)),
		entries: make(map[string]entry, len(entries)), close: func() error { return nil }}
	if digest, ok := metadata[ChecksumKey]; ok && verified {
		if err := verify(r, size, header, digest); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if delete(metadata, ChecksumKey); len(metadata) == 0 {
			out.Metadata = nil
		}
		out.Checksummed = true
	}
	out.buf = make([]byte, min(chunk, size-out.start))
	for _, e := range entries {
		out.Tensors = append(out.Tensors, Tensor{Name: e.name, Dtype: e.dtypeName, Shape: e.shape})
		out.entries[e.name] = e
	}
	return out, nil
}

func (r *Reader) Close() error { return r.close() }

// Into reads the elements of a tensor into data, whose size must be that of its shape. The caller
// adds the names of file and tensor to an error.
func (r *Reader) Into(name string, data []float32) error {
	e, ok := r.entries[name]
	switch {
	case !ok:
		return errors.New("it is not in the file")
	case len(data) != e.elements:
		return fmt.Errorf("shape %v has %d elements, want %d", e.shape, e.elements, len(data))
	}
	return readData(r.data(e), e, r.buf, data)
}

// Equal reports whether the elements of a tensor are those of data. Only a part of them is in memory.
func (r *Reader) Equal(name string, data []float32) (bool, error) {
	e := r.entries[name]
	if len(data) != e.elements {
		return false, nil
	}
	in, part := r.data(e), make([]float32, min(len(data), chunk))
	for want := range slices.Chunk(data, chunk) {
		have := part[:len(want)]
		if err := readData(in, e, r.buf, have); err != nil || !slices.Equal(have, want) {
			return false, err
		}
	}
	return true, nil
}

func (r *Reader) data(e entry) io.Reader {
	return io.NewSectionReader(r.r, r.start+int64(e.begin), int64(e.end-e.begin))
}

// all reads the whole file.
func (r *Reader) all() (*File, error) {
	for i := range r.Tensors {
		t := &r.Tensors[i]
		t.Data = make([]float32, r.entries[t.Name].elements)
		if err := r.Into(t.Name, t.Data); err != nil {
			return nil, fmt.Errorf("read %s: tensor %s: %w", r.name, textutil.Quote(t.Name), err)
		}
	}
	return &r.File, nil
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
	f, err := NewReader(name, r, size)
	if err != nil {
		return nil, err
	}
	return f.all()
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
				textutil.Quote(e.name), e.begin, e.end, textutil.Quote(entries[i-1].name), entries[i-1].begin, entries[i-1].end)
		case e.begin > end:
			return fmt.Errorf("tensor %s: data_offsets [%d %d] leave a hole: bytes [%d %d] belong to no tensor",
				textutil.Quote(e.name), e.begin, e.end, end, e.begin)
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
		textutil.Quote(cut.name), cut.begin, cut.end, truncated("", uint64(start)+uint64(end), size))
}

// readData reads the elements of e into data; buf is its buffer.
func readData(r io.Reader, e entry, buf []byte, data []float32) error {
	size := e.dtype.size
	for done := 0; done < len(data); {
		n := min(len(buf)/size, len(data)-done)
		if _, err := io.ReadFull(r, buf[:n*size]); err != nil {
			return shrunk(err)
		}
		if e.dtype.decode == nil { // F32
			for i := range n {
				data[done+i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
			}
		} else {
			for i := range n {
				var fits bool
				if data[done+i], fits = e.dtype.decode(buf[i*size:]); !fits {
					return fmt.Errorf("element %d does not fit in float32", done+i)
				}
			}
		}
		done += n
	}
	return nil
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
