package explain

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listed turns a file of one case per line, a list of cases or a single case into an object with the list
// "cases". Values keep their lines.
func (f File) listed() (File, error) {
	lines := bytes.Split(f.Data, []byte("\n"))
	first := slices.IndexFunc(lines, func(l []byte) bool { return len(bytes.TrimSpace(l)) > 0 })
	if first < 0 {
		return f, nil
	}
	rest := bytes.Join(lines[first+1:], nil)
	begin, end := `{"cases":`, `}`
	switch {
	case lines[first][0] == '{' && len(bytes.TrimSpace(rest)) > 0 && syntaxOf(lines[first]) == nil:
		start, separator := 0, []byte{}
		for i, l := range lines {
			if err := syntaxOf(l); err != nil {
				err.ByteOffset += int64(start)
				return f, err
			}
			if start += len(l) + 1; len(bytes.TrimSpace(l)) > 0 {
				lines[i] = slices.Concat(separator, l)
				separator = []byte(",")
			}
		}
		begin, end = begin+"[", "]"+end
	case bytes.TrimSpace(f.Data)[0] == '[':
	default:
		var c map[string]jsontext.Value
		err := json.Unmarshal(f.Data, &c)
		if _, many := c["cases"]; err != nil || many {
			return f, nil
		}
		begin, end = begin+"[", "]"+end
	}
	f.Data = slices.Concat([]byte(begin), bytes.Join(lines, []byte("\n")), []byte(end))
	return f, nil
}

// syntaxOf returns the error in a line of JSON. A name that appears twice is left to [File.decode].
func syntaxOf(line []byte) (err *jsontext.SyntacticError) {
	var v jsontext.Value
	if len(bytes.TrimSpace(line)) > 0 {
		errors.As(json.Unmarshal(line, &v, jsontext.AllowDuplicateNames(true)), &err)
	}
	return err
}

// member is a member of an object whose order counts.
type member[T any] struct {
	name  string
	value T
}

type members[T any] []member[T]

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (m *members[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	t, err := dec.ReadToken()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	if t.Kind() != '{' {
		return refuse(dec, "%s; it must be an object", kinds[t.Kind()])
	}
	for *m = (members[T]{}); ; {
		if t, err = dec.ReadToken(); err != nil || t.Kind() == '}' {
			return err
		}
		next := member[T]{name: t.String()}
		if err := json.UnmarshalDecode(dec, &next.value); err != nil {
			return err
		}
		*m = append(*m, next)
	}
}

// values is a list of numbers; a null in it is NaN.
type values []float64

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (v *values) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return readList(dec, (*[]float64)(v), "numbers", number)
}

// bitRows is a list of strings of 0 and 1.
type bitRows []string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (b *bitRows) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return readList(dec, (*[]string)(b), "strings", func(dec *jsontext.Decoder, t jsontext.Token) (string, error) {
		if t.Kind() != '"' {
			return "", refuse(dec, "%s; it must be a string of 0 and 1", kinds[t.Kind()])
		}
		row := t.String()
		for i, c := range row {
			if c != '0' && c != '1' {
				return "", refuse(dec, "character %d is %q; right or wrong is written in 1 and 0", i, c)
			}
		}
		return row, nil
	})
}

// readList reads a list; a null leaves it as it is.
func readList[T any](
	dec *jsontext.Decoder, to *[]T, of string, read func(*jsontext.Decoder, jsontext.Token) (T, error),
) error {
	t, err := dec.ReadToken()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	if t.Kind() != '[' {
		return refuse(dec, "%s; it must be a list of %s", kinds[t.Kind()], of)
	}
	for *to = []T{}; ; {
		if t, err = dec.ReadToken(); err != nil || t.Kind() == ']' {
			return err
		}
		v, err := read(dec, t)
		if err != nil {
			return err
		}
		*to = append(*to, v)
	}
}
