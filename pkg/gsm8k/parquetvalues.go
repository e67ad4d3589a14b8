package gsm8k

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// The encodings of Parquet compress as well: a run of 2^31 values takes six bytes. The functions
// below count the values without storing them.

var errCut = errors.New("a page is damaged: its values end too early")

// levelsV1 splits a page of version 1 into its definition levels and its values.
func levelsV1(data []byte) (levels, values []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errCut
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	if n > uint64(len(data)-4) {
		return nil, nil, errCut
	}
	return data[4 : 4+n], data[4+n:], nil
}

// definedValues counts the levels of 1 among the first n, whose others are nulls.
func definedValues(levels []byte, n int) (defined int, err error) {
	at := 0
	err = runs(levels, 1, n, func(count int, packed []byte, value byte) {
		for i := range min(count, n-at) {
			if packed != nil {
				value = packed[i/8] >> (i % 8)
			}
			defined += int(value & 1)
		}
		at += count
	})
	return defined, err
}

// runs calls f for each run of the RLE and bit-packed hybrid encoding, which may have at most n
// values and those that fill up its last 8 bytes.
func runs(data []byte, width, n int, f func(count int, packed []byte, value byte)) error {
	total := uint64(0)
	for len(data) > 0 {
		header, k := binary.Uvarint(data)
		if k <= 0 {
			return errCut
		}
		data = data[k:]
		count, size := header>>1, uint64(width+7)/8
		if count > uint64(n)+64 {
			return fmt.Errorf("a run of %d values in a page of %d", count, n)
		}
		packed := header&1 == 1
		if packed {
			count, size = 8*count, count*uint64(width)
		}
		if total += count; total > uint64(n)+64 {
			return fmt.Errorf("%d values in a page of %d", total, n)
		}
		if size > uint64(len(data)) {
			return errCut
		}
		switch {
		case f == nil:
		case packed:
			f(int(count), data[:size:size], 0)
		default:
			f(int(count), nil, data[0])
		}
		data = data[size:]
	}
	return nil
}

// values checks that a page has n values, neither more nor, for strings, less.
func (p *pageCheck) values(encoding format.Encoding, data []byte, n int) error {
	var err error
	count := n
	switch encoding {
	case format.Plain:
		if p.byteArrays {
			count, err = plainStrings(data)
		}
	case format.PlainDictionary, format.RLEDictionary:
		if len(data) > 0 {
			if data[0] > 32 {
				return fmt.Errorf("indices of %d bits", data[0])
			}
			err = runs(data[1:], int(data[0]), n, nil)
		}
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		count, _, err = packed(data, n)
	case format.DeltaByteArray:
		count, err = prefixedStrings(data, n)
	case format.ByteStreamSplit:
	default:
		return fmt.Errorf("encoding %s is not supported", encoding)
	}
	if err == nil && count != n {
		err = fmt.Errorf("%d values in a page of %d", count, n)
	}
	return err
}

// plainStrings counts strings that follow their lengths.
func plainStrings(data []byte) (n int, err error) {
	for ; len(data) > 0; n++ {
		if _, data, err = levelsV1(data); err != nil {
			return n, err
		}
	}
	return n, nil
}

// packed skips over at most n numbers of DELTA_BINARY_PACKED and returns their number and what
// follows them.
func packed(data []byte, n int) (count int, rest []byte, err error) {
	var head [4]uint64 // values of a block, its parts, values in all, the first value
	for i := range head {
		if head[i], data, err = uvarint(data); err != nil {
			return 0, nil, err
		}
	}
	block, parts, total := head[0], head[1], head[2]
	if total > uint64(n) {
		return 0, nil, fmt.Errorf("%d values in a page of %d", total, n)
	}
	if parts == 0 || parts > block || block > 1<<16 {
		return 0, nil, fmt.Errorf("blocks of %d values in %d parts", block, parts)
	}
	for left := int64(total) - 1; left > 0; {
		if _, data, err = uvarint(data); err != nil || uint64(len(data)) < parts {
			return 0, nil, errCut
		}
		widths := data[:parts]
		data = data[parts:]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			size := block / parts * uint64(width) / 8
			data = data[min(size, uint64(len(data))):]
			left -= int64(block / parts)
		}
	}
	return int(total), data, nil
}

func uvarint(data []byte) (uint64, []byte, error) {
	x, k := binary.Uvarint(data)
	if k <= 0 {
		return 0, nil, errCut
	}
	return x, data[k:], nil
}

// prefixedStrings counts the strings of DELTA_BYTE_ARRAY, which repeat the start of the one before:
// with them a page can grow with the square of its size.
func prefixedStrings(data []byte, n int) (int, error) {
	count, rest, err := packed(data, n)
	if err != nil {
		return 0, err
	}
	if _, _, err := packed(rest, n); err != nil {
		return 0, err
	}
	lengths, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, data)
	if err != nil {
		return 0, err
	}
	total := uint64(len(data))
	for _, l := range lengths {
		if total += uint64(max(l, 0)); total > maxParquetPage {
			return 0, fmt.Errorf("a page of more than %d MiB", maxParquetPage>>20)
		}
	}
	return count, nil
}
