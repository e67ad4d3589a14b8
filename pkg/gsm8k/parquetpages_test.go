package gsm8k

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"grpo/internal/expect"
)

// handMade is a Parquet file of the columns question and answer whose pages are those given.
func handMade(t *testing.T, codec format.CompressionCodec, rows int64, optional bool, pages ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(parquetMagic)
	repetition := format.Required
	if optional {
		repetition = format.Optional
	}
	root := format.SchemaElement{Name: "root"}
	root.NumChildren.Set(2)
	meta := format.FileMetaData{Version: 1, NumRows: rows, Schema: thrift.Slice[format.SchemaElement]{root}}
	group := format.RowGroup{NumRows: rows}
	for _, name := range []string{"question", "answer"} {
		e := format.SchemaElement{Name: name}
		e.Type.Set(format.ByteArray)
		e.RepetitionType.Set(repetition)
		e.ConvertedType.Set(deprecated.UTF8)
		meta.Schema = append(meta.Schema, e)
		start := int64(b.Len())
		for _, page := range pages {
			b.Write(page)
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{
			Type: format.ByteArray, Encoding: thrift.Slice[format.Encoding]{format.Plain}, PathInSchema: thrift.Slice[string]{name},
			Codec: codec, NumValues: rows, TotalCompressedSize: int64(b.Len()) - start, TotalUncompressedSize: 100, DataPageOffset: start,
		}})
	}
	meta.RowGroups = thrift.Slice[format.RowGroup]{group}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	expect.OK(t, err)
	b.Write(footer)
	_ = binary.Write(&b, binary.LittleEndian, uint32(len(footer)))
	b.WriteString(parquetMagic)
	return b.Bytes()
}

func pageOf(t *testing.T, size int, data []byte, set func(*format.PageHeader)) []byte {
	t.Helper()
	h := format.PageHeader{UncompressedPageSize: int32(size), CompressedPageSize: int32(len(data))}
	set(&h)
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	expect.OK(t, err)
	return append(head, data...)
}

// v1 is the header of a data page, v2 that of version 2, dictionary that of a dictionary page.
func v1(values int32, e format.Encoding) func(*format.PageHeader) {
	return func(h *format.PageHeader) {
		h.Type = format.DataPage
		h.DataPageHeader.Set(format.DataPageHeader{NumValues: values, Encoding: e, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})
	}
}

func v2(values, nulls, levels int32) func(*format.PageHeader) {
	return func(h *format.PageHeader) {
		h.Type = format.DataPageV2
		h.DataPageHeaderV2.Set(format.DataPageHeaderV2{NumValues: values, NumRows: values, NumNulls: nulls, Encoding: format.Plain, DefinitionLevelsByteLength: levels})
	}
}

func dictionary(values int32) func(*format.PageHeader) {
	return func(h *format.PageHeader) {
		h.Type = format.DictionaryPage
		h.DictionaryPageHeader.Set(format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain})
	}
}

// zstdZeros is a frame of n blocks of 128 KiB, each a repeated byte.
func zstdZeros(n int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58} // a window of 2 MiB
	for i := range n {
		block := uint32(1<<17<<3 | 1<<1)
		if i == n-1 {
			block |= 1 // the last
		}
		out = append(out, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return out
}

// zeros are n MiB written by a compressor.
func zeros(t *testing.T, n int, to func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := to(&b)
	for range n {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	expect.OK(t, w.Close())
	return b.Bytes()
}

func gzipTo(w io.Writer) io.WriteCloser   { return gzip.NewWriter(w) }
func brotliTo(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 2) }

// lz4Zeros is a block of about 255 n bytes: a literal, and a match of it with the literals at the end.
func lz4Zeros(n int) []byte {
	out := append([]byte{0x1f, 0, 1, 0}, bytes.Repeat([]byte{255}, n)...)
	return append(out, 0, 0x50, 0, 0, 0, 0, 0)
}

// A page that expands beyond its header, or whose values do beyond their number, is refused before
// it takes memory.
func TestParquetBombs(t *testing.T) {
	var plain []byte
	for range 3 {
		plain = append(plain, 1, 0, 0, 0, '5')
	}
	const many = 1<<31 - 1
	run := binary.AppendUvarint(nil, many<<1)
	long := append(run, 1)
	levels := append(binary.LittleEndian.AppendUint32(nil, uint32(len(long))), long...)
	nothing := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 1, 0, 0} // a zstd frame
	packedHead := func(total uint64) []byte {
		return append(binary.AppendUvarint([]byte{0x80, 1, 4}, total), 0)
	}
	for name, c := range map[string]struct {
		codec format.CompressionCodec
		opt   bool
		pages [][]byte
		want  string // "" = three rows are read
	}{
		"good":                {format.Uncompressed, false, [][]byte{pageOf(t, 15, plain, v1(3, format.Plain))}, ""},
		"good, optional":      {format.Uncompressed, true, [][]byte{pageOf(t, 21, append([]byte{2, 0, 0, 0, 6, 1}, plain...), v1(3, format.Plain))}, ""},
		"good, version 2":     {format.Uncompressed, true, [][]byte{pageOf(t, 17, append([]byte{6, 1}, plain...), v2(3, 0, 2))}, ""},
		"zstd":                {format.Zstd, false, [][]byte{pageOf(t, 100, zstdZeros(8192), v1(3, format.Plain))}, errExpands.Error()},
		"zstd, version 2":     {format.Zstd, false, [][]byte{pageOf(t, 100, zstdZeros(8192), v2(3, 0, 0))}, errExpands.Error()},
		"zstd, dictionary":    {format.Zstd, false, [][]byte{pageOf(t, 100, zstdZeros(8192), dictionary(3))}, errExpands.Error()},
		"zstd, frames":        {format.Zstd, false, [][]byte{pageOf(t, 100, bytes.Repeat(zstdZeros(1), 4096), v1(3, format.Plain))}, errExpands.Error()},
		"gzip":                {format.Gzip, false, [][]byte{pageOf(t, 100, zeros(t, 64, gzipTo), v1(3, format.Plain))}, errExpands.Error()},
		"brotli":              {format.Brotli, false, [][]byte{pageOf(t, 100, zeros(t, 64, brotliTo), v1(3, format.Plain))}, errExpands.Error()},
		"snappy":              {format.Snappy, false, [][]byte{pageOf(t, 100, binary.AppendUvarint(nil, 1<<30), v1(3, format.Plain))}, errExpands.Error()},
		"lz4":                 {format.Lz4Raw, false, [][]byte{pageOf(t, 100, lz4Zeros(1<<20), v1(3, format.Plain))}, errExpands.Error()},
		"damaged lz4":         {format.Lz4Raw, false, [][]byte{pageOf(t, 100, []byte{0xff}, v1(3, format.Plain))}, errExpands.Error()},
		"honest but large":    {format.Zstd, false, [][]byte{pageOf(t, many, zstdZeros(16383), v1(3, format.Plain))}, "a page of 2147483647 bytes"},
		"many pages":          {format.Zstd, false, slices.Repeat([][]byte{pageOf(t, 256<<20, nothing, v1(0, format.Plain))}, 5), "1024 MiB in all"},
		"cut":                 {format.Uncompressed, false, [][]byte{pageOf(t, 15, plain, func(h *format.PageHeader) { v1(3, format.Plain)(h); h.CompressedPageSize = many })}, "a page of 2147483647 bytes, and"},
		"values":              {format.Uncompressed, false, [][]byte{pageOf(t, 15, plain, v1(many, format.Plain))}, "a page of 2147483647 values in a column of 3"},
		"run of indices":      {format.Uncompressed, false, [][]byte{pageOf(t, 5, plain[:5], dictionary(1)), pageOf(t, 7, append([]byte{1}, long...), v1(3, format.RLEDictionary))}, "a run of 2147483647 values"},
		"run of levels":       {format.Uncompressed, true, [][]byte{pageOf(t, 99, append(levels, plain...), v1(3, format.Plain))}, "a run of 2147483647 values"},
		"levels of version 2": {format.Uncompressed, true, [][]byte{pageOf(t, 99, append(long, plain...), v2(3, 0, int32(len(long))))}, "a run of 2147483647 values"},
		"delta lengths":       {format.Uncompressed, false, [][]byte{pageOf(t, 9, packedHead(many), v1(3, format.DeltaLengthByteArray))}, "2147483647 values in a page of 3"},
		"delta":               {format.Uncompressed, false, [][]byte{pageOf(t, 9, packedHead(many), v1(3, format.DeltaByteArray))}, "2147483647 values in a page of 3"},
		"delta suffixes":      {format.Uncompressed, false, [][]byte{pageOf(t, 9, append(packedHead(1), packedHead(many)...), v1(3, format.DeltaByteArray))}, "2147483647 values in a page of 3"},
		// The library writes a warning to standard error.
		"too few values":  {format.Uncompressed, false, [][]byte{pageOf(t, 15, plain[:10], v1(3, format.Plain))}, "2 values in a page of 3"},
		"too many values": {format.Uncompressed, false, [][]byte{pageOf(t, 15, append(plain, plain...), v1(3, format.Plain))}, "6 values in a page of 3"},
		"wrong nulls":     {format.Uncompressed, true, [][]byte{pageOf(t, 17, append([]byte{6, 1}, plain...), v2(3, 1, 2))}, "a page of 0 nulls, and its header says 1"},
	} {
		t.Run(name, func(t *testing.T) {
			data := handMade(t, c.codec, 3, c.opt, c.pages...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			problems, _, err := readParquet(bytes.NewReader(data), int64(len(data)), "x", ReadOptions{})
			if c.want == "" && (err != nil || len(problems) != 3) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d problems, error %v, want %q", len(problems), err, c.want)
			}
			runtime.ReadMemStats(&after)
			if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 32 {
				t.Errorf("%d bytes took %d MiB", len(data), taken)
			}
		})
	}
}

// Every encoding and compression that the library writes is read.
func TestParquetEncodings(t *testing.T) {
	type row struct {
		Question string `parquet:"question,delta"`
		Answer   int64  `parquet:"answer,delta"`
		ID       string `parquet:"id,dict,optional"`
		Type     string `parquet:"type,optional"`
	}
	var rows []row
	for i := range 1000 {
		r := row{Question: fmt.Sprintf("question %d", i), Answer: int64(i * i), ID: fmt.Sprint("own-", i)}
		if i%3 == 0 {
			r.Type = "third"
		}
		rows = append(rows, r)
	}
	for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Gzip),
		parquet.Compression(&parquet.Brotli), parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Lz4Raw)} {
		for version := 1; version <= 2; version++ {
			data := parquetOf(t, []parquet.WriterOption{codec, parquet.DataPageVersion(version), parquet.PageBufferSize(2000)}, rows...)
			problems, _, err := ReadFile(named(t, "x.parquet", data), ReadOptions{Fields: Fields{Question: "question", Answer: "answer"}})
			if err != nil || len(problems) != len(rows) || problems[999].Gold != "998001" || problems[3].ID != "own-3" || problems[3].Type != "third" || problems[4].Type == "third" {
				t.Errorf("version %d: %d problems, %v", version, len(problems), err)
			}
		}
	}
}
