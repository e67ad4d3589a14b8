package gsm8k

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonl"
	"grpo/internal/regular"
)

// ReadFile reads problems from a file. A file named .jsonl is JSONL, .csv is CSV with a line of
// field names, and a file that is named .parquet or starts with its signature is Parquet; any
// other file is a JSON array, of SVAMP's or other objects, if its first character is "[", and JSONL
// otherwise. Errors are those of [ReadJSONL] and [ReadSVAMP]; those of Parquet count rows.
func ReadFile(path string, opt ReadOptions) ([]Problem, ReadReport, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, ReadReport{}, fmt.Errorf("read problems: %w", err)
	}
	defer f.Close()
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".jsonl":
		return ReadJSONL(f, path, opt)
	case ".csv":
		return readCSV(f, path, opt)
	case ".parquet":
		return readParquetFile(f, path, opt)
	}
	r := bufio.NewReader(f)
	// A file that starts with more white space than fits into the buffer is JSONL.
	head, err := r.Peek(r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, ReadReport{}, fmt.Errorf("read problems: %w", err)
	}
	if bytes.HasPrefix(head, []byte(parquetMagic)) {
		return readParquetFile(f, path, opt)
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, jsonl.BOM), " \t\r\n")
	if bytes.HasPrefix(head, []byte("[")) {
		return ReadSVAMP(r, path, opt)
	}
	return ReadJSONL(r, path, opt)
}

// rowLimit is a reader that fails after limit bytes, which its user renews for each row.
type rowLimit struct {
	r    io.Reader
	left int
}

func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a row is longer than %d MiB (is a quote not closed?)", jsonl.MaxLine>>20)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// readCSV reads comma-separated values (RFC 4180) whose first line has the names of the fields.
func readCSV(r io.Reader, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	return collect(name, "line", opt, func(c *collector) error { return c.csv(r) })
}

func (c *collector) csv(r io.Reader) error {
	limit := &rowLimit{r, jsonl.MaxLine}
	in := bufio.NewReader(limit)
	if head, _ := in.Peek(len(jsonl.BOM)); bytes.Equal(head, jsonl.BOM) {
		_, _ = in.Discard(len(jsonl.BOM))
	}
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	header = slices.Clone(header)
	if errors.Is(err, io.EOF) {
		return nil
	}
	var broken *csv.ParseError
	if errors.As(err, &broken) {
		err = broken.Err // without its position
	} else if err == nil {
		err = checkHeader(header, c.opt)
	}
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	columns := newColumns(header, c.opt)
	for {
		limit.left = jsonl.MaxLine
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
			why := broken.Err
			if errors.Is(why, csv.ErrFieldCount) {
				why = fmt.Errorf("%d fields, want %d as in line 1", len(row), len(header))
			}
			if broken.Line > broken.StartLine {
				why = fmt.Errorf("%w (lines %d to %d are lost: is a quote not closed?)", why, broken.StartLine, broken.Line)
			}
			// Each lost line counts: an open quote takes the rest of the file.
			err = nil
			for line := broken.StartLine; line <= broken.Line && err == nil; line++ {
				err = c.add(Problem{}, line, why)
			}
		case err == nil:
			line, _ := rows.FieldPos(0)
			p, bad := c.opt.problem(columns.own(row))
			if bad == nil {
				p.Fields, bad = columns.rest(row)
			}
			err = c.add(p, line, bad)
		}
		if err != nil {
			return err
		}
	}
}

// checkHeader checks the names of the fields.
func checkHeader(header []string, o ReadOptions) error {
	if len(header) > maxColumns {
		return fmt.Errorf("%d fields; at most %d are read", len(header), maxColumns)
	}
	seen := map[string]bool{}
	for _, name := range header {
		switch {
		case !utf8.ValidString(name):
			return errUTF8
		case seen[name]:
			return fmt.Errorf("the field %q appears twice", clip(name))
		}
		seen[name] = true
	}
	return missingFields(header, func(name string) bool { return seen[name] }, o.Fields.form(), o.required())
}

// maxColumns bounds the fields of a CSV file.
const maxColumns = 1000

// columns are the fields of a CSV file: those of the problem by name, and the others.
type columns struct {
	index  map[string]int
	others []otherColumn // by name
}

type otherColumn struct {
	index int
	key   string // in JSON, with its colon
}

func newColumns(header []string, o ReadOptions) columns {
	c := columns{index: map[string]int{}}
	own := o.Fields.own()
	read := append(o.further(), own...)
	for i, name := range header {
		if slices.Contains(read, name) {
			c.index[name] = i
		}
	}
	for _, name := range slices.Sorted(slices.Values(header)) {
		if !slices.Contains(own, name) {
			c.others = append(c.others, otherColumn{slices.Index(header, name), string(appendJSON(nil, name)) + ":"})
		}
	}
	return c
}

// own are the problem's fields of a row.
func (c columns) own(row []string) map[string]any {
	values := map[string]any{}
	for name, i := range c.index {
		values[name] = row[i]
	}
	return values
}

// rest encodes the other fields of a row as [otherFields] does; with a thousand columns a map for
// each row would take most of the time.
func (c columns) rest(row []string) (string, error) {
	if len(c.others) == 0 {
		return "", nil
	}
	var out []byte
	for i, o := range c.others {
		value := row[o.index]
		if !utf8.ValidString(value) {
			return "", errUTF8
		}
		out = append(out, "{,"[min(i, 1)])
		out = appendJSON(append(out, o.key...), value)
	}
	return string(append(out, '}')), nil
}

// appendJSON appends s as a JSON string.
func appendJSON(out []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
	if strings.ContainsFunc(s, special) {
		text, _ := json.Marshal(s) // a string has no error
		return append(out, text...)
	}
	out = append(append(out, '"'), s...)
	return append(out, '"')
}
