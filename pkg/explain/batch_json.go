package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"grpo/internal/regular"
	"grpo/internal/textutil"
)

// Limits of a batch file. The reference data that its forms come from is some
// 50 KB; these keep a damaged or hostile file from taking the machine's memory.
const (
	maxFile  = 32 << 20 // bytes
	maxCases = 100_000
	// maxNumbers bounds a list or matrix, and the cases times the tokens of a file,
	// because each case has a gradient.
	maxNumbers = 1 << 22
)

// ReadFile reads a batch file of at most 32 MiB.
func ReadFile(path string) ([]byte, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads a batch of at most 32 MiB; name is what errors call it.
func Read(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read batch: %s: more than %d MiB (split its cases over several files)", name, maxFile>>20)
	}
	return data, nil
}

// node is a JSON value and where it is in the file, such as
// "f.json: cases[3].config.epsilon".
type node struct {
	path string
	raw  json.RawMessage
}

// space is what JSON counts as white.
const space = " \t\r\n"

func (n node) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", n.path, fmt.Errorf(format, args...))
}

// document checks the syntax of a whole file and opens its object. Later steps
// meet valid JSON only.
func document(name string, data []byte) (*fields, error) {
	root := node{path: name}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, root.errorf("the file is empty")
	}
	err := json.Unmarshal(data, &root.raw)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := min(int(syntax.Offset), len(data))
		hint := ""
		if at > 0 && strings.ContainsAny(string(data[at-1]), "NI") {
			hint = " (JSON has no NaN and no Infinity; write null for a missing number)"
		}
		return nil, root.errorf("line %d: %w%s", 1+bytes.Count(data[:at], []byte("\n")), syntax, hint)
	case err != nil:
		return nil, root.errorf("%w", err)
	}
	f := root.open(true)
	return f, f.err
}

func (n node) is(first byte) bool {
	t := bytes.TrimLeft(n.raw, space)
	return len(t) > 0 && t[0] == first
}

func (n node) null() bool { return n.is('n') }

// kind names the type of a value in an error.
func (n node) kind() string {
	t := bytes.TrimLeft(n.raw, space)
	if len(t) == 0 {
		return "nothing"
	}
	switch t[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// nested says whether the value is a list whose first element is a list.
func (n node) nested() bool {
	t := bytes.TrimLeft(n.raw, space)
	return len(t) > 1 && t[0] == '[' && node{raw: t[1:]}.is('[')
}

// each calls f for every element of a list, up to limit elements.
func (n node) each(limit int, f func(i int, e node) error) error {
	if !n.is('[') {
		return n.errorf("%s; it must be a list", n.kind())
	}
	dec := json.NewDecoder(bytes.NewReader(n.raw))
	if _, err := dec.Token(); err != nil {
		return n.errorf("%w", err)
	}
	for i := 0; dec.More(); i++ {
		if i == limit {
			return n.errorf("more than %d elements (split the file)", limit)
		}
		e := node{path: fmt.Sprintf("%s[%d]", n.path, i)}
		if err := dec.Decode(&e.raw); err != nil {
			return e.errorf("%w", err)
		}
		if err := f(i, e); err != nil {
			return err
		}
	}
	return nil
}

// number reads a number.
func (n node) number() (float64, error) {
	if n.kind() != "a number" {
		return 0, n.errorf("%s; it must be a number", n.kind())
	}
	var v float64
	if err := json.Unmarshal(n.raw, &v); err != nil {
		return 0, n.errorf("%s is out of the range of a 64-bit number", clip(string(n.raw)))
	}
	return v, nil
}

// numbers reads a list of numbers. Booleans are 0 and 1; null is NaN where nulls
// are allowed. The syntax is known to be right, so the elements are cut at commas.
func (n node) numbers(nulls bool) ([]float64, error) {
	if !n.is('[') {
		return nil, n.errorf("%s; it must be a list of numbers", n.kind())
	}
	var x []float64
	rest := bytes.TrimLeft(n.raw, space)[1:]
	for {
		rest = bytes.TrimLeft(rest, space+",")
		if rest[0] == ']' {
			return x, nil
		}
		end := bytes.IndexAny(rest, ",]"+space)
		v, fault := scalar(rest[:end], nulls)
		if fault != "" {
			return nil, node{path: fmt.Sprintf("%s[%d]", n.path, len(x))}.errorf("%s", fault)
		}
		if len(x) == maxNumbers {
			return nil, n.errorf("more than %d numbers", maxNumbers)
		}
		x, rest = append(x, v), rest[end:]
	}
}

// scalar reads an element of a list of numbers, or says what is wrong with it.
func scalar(raw []byte, nulls bool) (v float64, fault string) {
	switch kind := (node{raw: raw}).kind(); kind {
	case "a number":
		v, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return 0, "out of the range of a 64-bit number"
		}
		return v, ""
	case "a boolean":
		return indicator(raw[0] == 't'), ""
	case "null":
		if nulls {
			return math.NaN(), ""
		}
		fallthrough
	default:
		return 0, kind + "; it must be a number"
	}
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// matrix reads a list of rows of equal length, flat in row-major order.
func (n node) matrix(nulls bool) (x []float64, r, c int, err error) {
	err = n.each(maxNumbers, func(i int, row node) error {
		y, err := row.numbers(nulls)
		if err != nil {
			return err
		}
		if i > 0 && len(y) != c {
			return row.errorf("%d numbers; the rows before it have %d (pad the shorter ones)", len(y), c)
		}
		if len(x)+len(y) > maxNumbers {
			return n.errorf("more than %d numbers", maxNumbers)
		}
		x, r, c = append(x, y...), r+1, len(y)
		return nil
	})
	return x, r, c, err
}

// cell is the place of element i of a matrix of c columns.
func (n node) cell(i, c int) node {
	return node{path: fmt.Sprintf("%s[%d][%d]", n.path, i/c, i%c)}
}

// clip shortens foreign text for an error.
func clip(s string) string { return textutil.Cut(s, 43) }

// shown is the name of a field as an error or a table shows it: short, and
// without what a terminal would take for a command.
func shown(name string) string { return textutil.Printable(name, 43) }
