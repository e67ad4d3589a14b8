// Package jsonl reads files of unknown origin that have one JSON object per line (problems, worked
// examples, preference pairs), and writes such files.
package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
)

// MaxLine bounds one line in bytes, so that a file without line ends can't fill the memory. GSM8K's
// longest line has 1743 bytes.
const MaxLine = 16 << 20

// BOM is the byte order mark that some editors put at the start of a file.
var BOM = []byte("\xef\xbb\xbf")

// Reader splits a stream at "\n" only: JSON strings may contain raw U+2028, which other readers
// treat as a line end. It drops a "\r" before "\n" and a byte order mark at the start.
type Reader struct {
	// Line is the number of the last line, from 1.
	Line int

	r     *bufio.Reader
	limit int
	text  []byte
}

// NewReader returns a reader of lines of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next returns the next line that is not blank, valid until the following call. bad is the reason if
// the line was skipped because it exceeds the limit. The error after the last line is io.EOF.
func (l *Reader) Next() (text []byte, bad, err error) {
	for err == nil && bad == nil && len(bytes.TrimSpace(text)) == 0 {
		text, bad, err = l.line()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("after line %d: %w", l.Line, err)
	}
	return text, bad, err
}

func (l *Reader) line() (text []byte, bad, err error) {
	l.text = l.text[:0]
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var chunk []byte
		chunk, err = l.r.ReadSlice('\n')
		if len(l.text) <= l.limit {
			l.text = append(l.text, chunk...)
		}
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(l.text) == 0) {
		return nil, nil, err
	}
	if l.Line++; len(l.text) > l.limit {
		return nil, fmt.Errorf("longer than %d MiB", l.limit>>20), nil
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(l.text, []byte("\n")), []byte("\r"))
	if l.Line == 1 {
		text = bytes.TrimPrefix(text, BOM)
	}
	return text, nil, nil
}

// ReadAll reads a file of at least one and at most limit values, one per line. what names them in
// errors ("examples"). An invalid line is an error with its number.
func ReadAll[T any](r io.Reader, what string, limit int, parse func(text []byte) (T, error)) ([]T, error) {
	return read(r, what, limit, true, parse)
}

// ReadFirst reads the first n values, or all if there are fewer, as [ReadAll] does.
func ReadFirst[T any](r io.Reader, what string, n int, parse func(text []byte) (T, error)) ([]T, error) {
	return read(r, what, n, false, parse)
}

func read[T any](r io.Reader, what string, limit int, all bool, parse func(text []byte) (T, error)) ([]T, error) {
	var out []T
	lines := NewReader(r, MaxLine)
	for all || len(out) < limit {
		text, bad, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF) && len(out) == 0:
			return nil, fmt.Errorf("the file has no %s", what)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(out) == limit:
			return nil, fmt.Errorf("line %d: more than %d %s", lines.Line, limit, what)
		}
		var v T
		if bad == nil {
			v, bad = parse(text)
		}
		if bad != nil {
			return nil, fmt.Errorf("line %d: %w", lines.Line, bad)
		}
		out = append(out, v)
	}
	return out, nil
}

// Write writes values, one per line.
func Write[T any](w io.Writer, values []T) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // keep "<<7+5=12>>" readable
	for i, v := range values {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return buf.Flush()
}

// Object decodes a JSON object without duplicate keys. It gives a map, because encoding/json does
// not distinguish "Question" from "question" in structs. Numbers are [json.Number], because float64
// would round.
func Object(text []byte) (map[string]any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := json.Unmarshal(text, new(json.RawMessage)) // the decoder accepts text after the value
	if err == nil {
		err = dec.Decode(&v)
	}
	if err != nil {
		return nil, fmt.Errorf("broken JSON: %w", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s, want an object", Kind(v))
	}
	return fields, jsonkeys.Check(text)
}

// Kind names the type of a value that [Object] decoded, with its article.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
