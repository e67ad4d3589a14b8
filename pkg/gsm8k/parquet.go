package gsm8k

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"grpo/internal/jsonl"
	"grpo/internal/textutil"
)

// parquetMagic starts and ends a Parquet file.
const parquetMagic = "PAR1"

// maxParquetFooter bounds the footer in bytes. The rows, of which a small file can claim billions, have the
// bounds of any file.
const maxParquetFooter = 64 << 20

// readParquetFile reads a file that has a size: it is read from its end.
func readParquetFile(f *os.File, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("Parquet is read from its end, which a pipe has not (write it to a file)")
	}
	if err != nil {
		return nil, ReadReport{}, fmt.Errorf("read problems: %s: %w", name, err)
	}
	return readParquet(f, info.Size(), name, opt)
}

// readParquet reads problems from the columns of a Parquet file: strings, or for the answer numbers
// and booleans too. Errors name the row, from 1 on.
func readParquet(r io.ReaderAt, size int64, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	return collect(name, "row", opt, func(c *collector) error { return c.parquet(r, size) })
}

// parquet adds the rows of a file. The library panics on some damaged files.
func (c *collector) parquet(r io.ReaderAt, size int64) (err error) {
	row := 0
	defer func() {
		if p := recover(); p != nil {
			err = damaged(row, fmt.Errorf("%v", p))
		}
	}()
	if err := checkFooter(r, size); err != nil {
		return err
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return damaged(0, err)
	}
	columns, err := parquetColumns(file.Root(), c.opt)
	if err != nil {
		return err
	}
	pages := pageCheck{r: r, size: size}
	for g, group := range file.RowGroups() {
		n := group.NumRows()
		if n < 0 || n > maxRecords-int64(row) {
			return fmt.Errorf("more than %d rows", maxRecords)
		}
		for i := range columns {
			c := &columns[i]
			err := pages.chunk(c.column, &file.Metadata().RowGroups[g].Columns[c.column.Index()].MetaData)
			if err == nil {
				err = c.open(group)
			}
			if err != nil {
				return damaged(row, fmt.Errorf("column %q: %w", clip(c.name), err))
			}
		}
		for range n {
			row++
			values := map[string]any{}
			for i := range columns {
				value, err := columns[i].next()
				if err != nil {
					return damaged(row, fmt.Errorf("column %q: %w", clip(columns[i].name), err))
				}
				values[columns[i].name] = value
			}
			p, bad := c.opt.problem(values)
			if err := c.add(p, row, bad); err != nil {
				return err
			}
		}
	}
	return nil
}

// damaged wraps an error of the library, whose text may come from the file.
func damaged(row int, err error) error {
	where := ""
	if row > 0 {
		where = fmt.Sprintf("row %d: ", row)
	}
	return fmt.Errorf("%sdamaged or not Parquet: %s (is the download complete?)", where,
		textutil.Printable(err.Error(), 120))
}

// checkFooter checks the end of the file, which says how much of it is read at once.
func checkFooter(r io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return damaged(0, fmt.Errorf("it has %d bytes", size))
	}
	if n, err := r.ReadAt(end[:], size-8); n < len(end) {
		return err
	}
	if string(end[4:]) != parquetMagic {
		return damaged(0, fmt.Errorf("it does not end in %s", parquetMagic))
	}
	if n := int64(binary.LittleEndian.Uint32(end[:4])); n > size-12 || n > maxParquetFooter {
		return damaged(0, fmt.Errorf("its footer has %d bytes", n))
	}
	return nil
}

// parquetColumn reads the values of one column.
type parquetColumn struct {
	name     string
	column   *parquet.Column
	unsigned bool
	pages    parquet.Pages
	values   parquet.ValueReader
	buffer   [64]parquet.Value
	queue    []parquet.Value
}

// parquetColumns finds the columns of the question, the answer and what it is made from, and the optional ones that
// are strings; an ID may be a number.
func parquetColumns(root *parquet.Column, o ReadOptions) ([]parquetColumn, error) {
	var found []string
	for _, c := range root.Columns() {
		found = append(found, c.Name())
	}
	want := o.required()
	has := func(name string) bool { return root.Column(name) != nil }
	if err := missingFields(found, has, o.Fields.form(), want); err != nil {
		return nil, err
	}
	var out []parquetColumn
	question := o.Fields.names()[0]
	for _, name := range append(o.Fields.own(), o.further()...) {
		c := root.Column(name)
		if c == nil || slices.ContainsFunc(out, func(o parquetColumn) bool { return o.name == name }) {
			continue
		}
		kind, further := parquetKind(c), slices.Contains(o.further(), name)
		switch required := slices.Contains(want, name); {
		case kind == "string":
		case kind == "" && further: // the answers are made from it, so without it they would be others
			return nil, fmt.Errorf("column %q is %s; write such a file as JSONL", clip(name), clip(typeOf(c)))
		case !required && !further && (name != "id" || kind != "number" && kind != "unsigned"):
			continue
		case kind == "" || name == question:
			return nil, fmt.Errorf("column %q is %s; want strings%s", clip(name), clip(typeOf(c)),
				map[bool]string{true: ", numbers or booleans"}[name != question])
		}
		out = append(out, parquetColumn{name: name, column: c, unsigned: kind == "unsigned"})
	}
	return out, nil
}

func typeOf(c *parquet.Column) string {
	switch {
	case !c.Leaf():
		return "nested"
	case c.Repeated():
		return "a list"
	}
	return c.Type().String()
}

// parquetKind is "string", "boolean", "number" or "unsigned" for columns that can be read, and else "".
func parquetKind(c *parquet.Column) string {
	if !c.Leaf() || c.MaxRepetitionLevel() > 0 {
		return ""
	}
	t := c.Type()
	text, number, unsigned := true, true, false
	if l := t.LogicalType(); l != nil && l.Value != nil {
		text, number = false, false
		switch v := l.Value.(type) {
		case *format.StringType, *format.EnumType:
			text = true
		case *format.IntType:
			number, unsigned = true, !v.IsSigned
		}
	} else if l := t.ConvertedType(); l != nil {
		text = *l == deprecated.UTF8 || *l == deprecated.Enum
		unsigned = *l >= deprecated.Uint8 && *l <= deprecated.Uint64
		number = unsigned || *l >= deprecated.Int8 && *l <= deprecated.Int64
	}
	switch t.Kind() {
	case parquet.ByteArray:
		if text {
			return "string"
		}
	case parquet.Boolean:
		return "boolean"
	case parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
		if unsigned {
			return "unsigned"
		}
		if number {
			return "number"
		}
	}
	return ""
}

// open starts with the first value of a row group.
func (c *parquetColumn) open(group parquet.RowGroup) error {
	if c.pages != nil {
		if err := c.pages.Close(); err != nil {
			return err
		}
	}
	chunk := group.ColumnChunks()[c.column.Index()]
	if n := chunk.NumValues(); n < 0 || n > maxRecords {
		return fmt.Errorf("it has %d values", n)
	}
	c.pages, c.values, c.queue = chunk.Pages(), nil, nil
	return nil
}

// next returns the next value: a string, a bool, a [json.Number], or nil for null.
func (c *parquetColumn) next() (any, error) {
	for len(c.queue) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return nil, errors.New("it ends too early")
			}
			if err != nil {
				return nil, err
			}
			c.values = page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		c.queue = c.buffer[:n]
		if err != nil {
			c.values = nil
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
	}
	v := c.queue[0]
	c.queue = c.queue[1:]
	return c.value(v)
}

func (c *parquetColumn) value(v parquet.Value) (any, error) {
	switch kind := v.Kind(); {
	case v.IsNull():
		return nil, nil
	case kind == parquet.ByteArray:
		if n := len(v.ByteArray()); n > jsonl.MaxLine {
			return nil, fmt.Errorf("longer than %d MiB", jsonl.MaxLine>>20)
		}
		return string(v.ByteArray()), nil
	case kind == parquet.Boolean:
		return v.Boolean(), nil
	case kind == parquet.Int32 && c.unsigned:
		return json.Number(strconv.FormatUint(uint64(v.Uint32()), 10)), nil
	case kind == parquet.Int64 && c.unsigned:
		return json.Number(strconv.FormatUint(v.Uint64(), 10)), nil
	case kind == parquet.Int32:
		return json.Number(strconv.FormatInt(int64(v.Int32()), 10)), nil
	case kind == parquet.Int64:
		return json.Number(strconv.FormatInt(v.Int64(), 10)), nil
	case kind == parquet.Float:
		return json.Number(strconv.FormatFloat(float64(v.Float()), 'f', -1, 32)), nil
	case kind == parquet.Double:
		return json.Number(strconv.FormatFloat(v.Double(), 'f', -1, 64)), nil
	}
	return nil, errors.New("a value of another type")
}
