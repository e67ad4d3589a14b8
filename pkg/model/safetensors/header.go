package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// entry is a tensor as the header announces it, not yet checked against others
// or against the file.
type entry struct {
	name       string
	dtypeName  string
	dtype      dtype
	shape      []int
	begin, end int // of the bytes, from the start of the data
	elements   int
}

// parseHeader reads the JSON. It walks the tokens instead of filling structs,
// because encoding/json lets the last of two equal keys win, ignores the case
// of keys and replaces what is not Unicode, each without a word.
func parseHeader(header []byte) ([]entry, map[string]string, error) {
	if !utf8.Valid(header) {
		return nil, nil, errors.New("header: not valid UTF-8")
	}
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("header: not a JSON object: it must begin with { (is this a safetensors file?)")
	}
	// Nothing is stored by this: it finds the place of a syntax error.
	if err := json.Unmarshal(header, new(struct{})); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, nil, fmt.Errorf("header: not valid JSON: byte %d: %w", syntax.Offset, err)
		}
		return nil, nil, fmt.Errorf("header: not valid JSON: %w", err)
	}
	if i := loneSurrogate(header); i >= 0 {
		return nil, nil, fmt.Errorf("header: byte %d: half of a UTF-16 surrogate pair is no character", i)
	}

	p := parser{json.NewDecoder(bytes.NewReader(header))}
	p.dec.UseNumber()
	var entries []entry
	var metadata map[string]string
	err := p.object(func(key string) error {
		if key == metadataKey {
			m, err := p.metadata()
			if err != nil {
				return fmt.Errorf("header: %s: %w", metadataKey, err)
			}
			metadata = m
			return nil
		}
		e, err := p.entry(key)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(key), err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return entries, metadata, nil
}

type parser struct{ dec *json.Decoder }

func (p parser) metadata() (map[string]string, error) {
	m := map[string]string{}
	err := p.object(func(key string) error {
		s, err := p.str()
		if err != nil {
			return fmt.Errorf("%s: %w", quote(key), err)
		}
		m[key] = s
		return nil
	})
	return m, err
}

func (p parser) entry(name string) (entry, error) {
	e := entry{name: name}
	var offsets []int
	err := p.object(func(key string) (err error) {
		switch key {
		case "dtype":
			e.dtypeName, err = p.str()
		case "shape":
			e.shape, err = p.ints(maxRank)
		case "data_offsets":
			if offsets, err = p.ints(2); err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%v: want two numbers", offsets)
			}
		default:
			return fmt.Errorf("unknown key %s (want dtype, shape, data_offsets)", quote(key))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return entry{}, err
	case e.dtypeName == "":
		return entry{}, errors.New("no dtype")
	case e.shape == nil:
		return entry{}, errors.New("no shape")
	case offsets == nil:
		return entry{}, errors.New("no data_offsets")
	}
	e.begin, e.end = offsets[0], offsets[1]
	var ok bool
	if e.dtype, ok = dtypeOf(e.dtypeName); !ok {
		return entry{}, fmt.Errorf("unknown dtype %s (these can be read: %s)", quote(e.dtypeName), dtypeNames)
	}
	if e.elements, err = elements(e.shape); err != nil {
		return entry{}, err
	}
	size, err := byteSize(e.elements, e.dtype.size)
	if err != nil {
		return entry{}, fmt.Errorf("shape %v of %s overflows: %w", e.shape, e.dtypeName, err)
	}
	if e.begin > e.end {
		return entry{}, fmt.Errorf("data_offsets [%d %d] end before they begin", e.begin, e.end)
	}
	if e.end-e.begin != size {
		return entry{}, fmt.Errorf("shape %v of %s takes %d bytes, data_offsets [%d %d] hold %d",
			e.shape, e.dtypeName, size, e.begin, e.end, e.end-e.begin)
	}
	return e, nil
}

// object reads an object and calls member at each value, which member must read.
func (p parser) object(member func(key string) error) error {
	tok, err := p.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("%s: want an object", describe(tok))
	}
	seen := map[string]bool{}
	for p.dec.More() {
		key, err := p.str()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("duplicate name %s in the header", quote(key))
		}
		seen[key] = true
		if err := member(key); err != nil {
			return err
		}
	}
	_, err = p.dec.Token()
	return err
}

func (p parser) str() (string, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("%s: want a string", describe(tok))
	}
	return s, nil
}

// ints reads a list of at most limit whole numbers, none of them negative.
func (p parser) ints(limit int) ([]int, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('[') {
		return nil, fmt.Errorf("%s: want a list of numbers", describe(tok))
	}
	list := []int{}
	for p.dec.More() {
		if len(list) == limit {
			return nil, fmt.Errorf("more than %d numbers", limit)
		}
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		number, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s: want a number", describe(tok))
		}
		s := number.String()
		n, err := strconv.Atoi(s)
		switch {
		case strings.HasPrefix(s, "-"):
			return nil, fmt.Errorf("%s is negative", quote(s))
		case errors.Is(err, strconv.ErrRange):
			return nil, fmt.Errorf("%s does not fit in an integer", quote(s))
		case err != nil:
			return nil, fmt.Errorf("%s is not a whole number", quote(s))
		}
		list = append(list, n)
	}
	_, err = p.dec.Token()
	return list, err
}

func describe(tok json.Token) string {
	switch tok := tok.(type) {
	case nil:
		return "null"
	case string:
		return "the string " + quote(tok)
	case json.Number:
		return "the number " + quote(tok.String())
	case json.Delim:
		if tok == '[' {
			return "a list"
		}
		return "an object"
	}
	return fmt.Sprint(tok)
}

// loneSurrogate returns the place of the first \u escape in valid JSON that is
// half of a surrogate pair, or -1. Two names could differ in such a half alone.
func loneSurrogate(header []byte) int {
	for i := 0; i+1 < len(header); i++ {
		if header[i] != '\\' {
			continue
		}
		if r := escape(header[i:]); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escape(header[i+6:])) == utf8.RuneError {
				return i
			}
			i += 6
		}
		i++ // the escaped character may be a backslash itself
	}
	return -1
}

// escape returns the code unit of the \uXXXX escape that b begins with, or 0.
func escape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n)
}
