package gsm8k

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// maxParquetPage bounds a page after decompression. Writers make pages of about 1 MiB.
const maxParquetPage = 256 << 20

// pageCheck walks through the pages of a file before the library reads them. The library
// decompresses and decodes a page whatever its header says, so a small file could take any amount
// of memory.
type pageCheck struct {
	r          io.ReaderAt
	size       int64 // of the file
	decoded    int64 // bytes of the pages so far, after decompression
	byteArrays bool  // whether the column has strings
	optional   bool  // whether it can have nulls
	codec      format.CompressionCodec
}

// chunk checks the pages of a column in a row group. An error says what a page claims or is.
func (p *pageCheck) chunk(column *parquet.Column, chunk *format.ColumnMetaData) error {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		start = chunk.DictionaryPageOffset
	}
	if start < 0 || chunk.TotalCompressedSize < 0 || start > p.size || chunk.TotalCompressedSize > p.size-start {
		return fmt.Errorf("its pages are at byte %d to %d of %d", start, start+chunk.TotalCompressedSize, p.size)
	}
	// The library takes the codec of the first row group for all.
	p.codec = column.Compression().CompressionCodec()
	p.byteArrays, p.optional = column.Type().Kind() == parquet.ByteArray, column.MaxDefinitionLevel() > 0
	section := io.NewSectionReader(p.r, start, chunk.TotalCompressedSize)
	in := bufio.NewReader(section)
	decoder := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(in))
	for {
		header := new(format.PageHeader)
		switch err := decoder.Decode(header); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		at, _ := section.Seek(0, io.SeekCurrent)
		if left := chunk.TotalCompressedSize - at + int64(in.Buffered()); int64(header.CompressedPageSize) > left ||
			header.CompressedPageSize < 0 {
			return fmt.Errorf("a page of %d bytes, and %d are left", header.CompressedPageSize, left)
		}
		data := make([]byte, header.CompressedPageSize)
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
		if err := p.page(header, data, chunk.NumValues); err != nil {
			return err
		}
	}
}

// page checks one page; rows is the number of values in its column.
func (p *pageCheck) page(h *format.PageHeader, data []byte, rows int64) error {
	size := int64(h.UncompressedPageSize)
	if p.decoded += size; size < 0 || size > maxParquetPage || p.decoded > maxText {
		return fmt.Errorf("a page of %d bytes (at most %d MiB a page and %d MiB in all are read)", size,
			maxParquetPage>>20, maxText>>20)
	}
	var levels []byte // definition levels, in RLE
	var values int
	var encoding format.Encoding
	var err error
	switch v2 := h.DataPageHeaderV2.V; {
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		first := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
		if v2.RepetitionLevelsByteLength != 0 || v2.DefinitionLevelsByteLength < 0 || first > int64(len(data)) {
			return fmt.Errorf("levels of %d bytes in a page of %d", first, len(data))
		}
		levels, data = data[:first], data[first:]
		if !v2.IsCompressed.Valid || v2.IsCompressed.V {
			data, err = expand(p.codec, data, int(size))
		}
		values, encoding = int(v2.NumValues), v2.Encoding
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		if data, err = expand(p.codec, data, int(size)); err == nil && p.optional {
			levels, data, err = levelsV1(data)
		}
		values, encoding = int(h.DataPageHeader.V.NumValues), h.DataPageHeader.V.Encoding
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		data, err = expand(p.codec, data, int(size))
		values, encoding = int(h.DictionaryPageHeader.V.NumValues), h.DictionaryPageHeader.V.Encoding
		if encoding == format.PlainDictionary {
			encoding = format.Plain
		}
	default:
		return fmt.Errorf("a page of type %s", h.Type)
	}
	if err != nil {
		return err
	}
	if int64(values) > rows || values < 0 {
		return fmt.Errorf("a page of %d values in a column of %d", values, rows)
	}
	all := values
	if p.optional && h.Type != format.DictionaryPage {
		if values, err = definedValues(levels, values); err != nil {
			return err
		}
	}
	if nulls := h.DataPageHeaderV2.V.NumNulls; h.Type == format.DataPageV2 && int(nulls) != all-values {
		return fmt.Errorf("a page of %d nulls, and its header says %d", all-values, nulls)
	}
	return p.values(encoding, data, values)
}

var errExpands = errors.New("a page is longer than its header says")

// expand decompresses a page, to at most size bytes.
func expand(codec format.CompressionCodec, data []byte, size int) (out []byte, err error) {
	var r io.Reader
	in := bytes.NewReader(data)
	switch codec {
	case format.Uncompressed:
		return data, nil
	case format.Snappy:
		if n, err := snappy.DecodedLen(data); err != nil || n > size {
			return nil, errors.Join(err, errExpands)
		}
		return snappy.Decode(nil, data)
	case format.Lz4Raw:
		out = make([]byte, size)
		n, err := lz4.UncompressBlock(data, out)
		if err != nil {
			return nil, fmt.Errorf("%w (or is damaged)", errExpands) // the library has one error for both
		}
		return out[:n], nil
	case format.Gzip:
		r, err = gzip.NewReader(in)
	case format.Brotli:
		r = brotli.NewReader(in)
	case format.Zstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxParquetPage))
		if err == nil {
			defer z.Close()
		}
		r = z
	default:
		return nil, fmt.Errorf("compression %s is not supported", codec)
	}
	if err != nil {
		return nil, err
	}
	if out, err = io.ReadAll(io.LimitReader(r, int64(size)+1)); err == nil && len(out) > size {
		err = errExpands
	}
	return out, err
}
