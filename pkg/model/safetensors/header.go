package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
	"grpo/internal/textutil"
)

// entry is a tensor as the header describes it.
type entry struct {
	name       string
	dtypeName  string
	dtype      dtype
	shape      []int
	begin, end int // of the bytes, from the start of the data
	elements   int
}

// parseHeader reads the JSON strictly. It does not decode into structs, because
// encoding/json ignores the case of their keys.
func parseHeader(header []byte) ([]entry, map[string]string, error) {
	if !utf8.Valid(header) {
		return nil, nil, errors.New("header: not valid UTF-8")
	}
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("header: not a JSON object: it must start with { (is this a safetensors file?)")
	}
	// This stores no value; it finds syntax errors with their position.
	if err := json.Unmarshal(header, new(struct{})); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, nil, fmt.Errorf("header: not valid JSON: byte %d: %w", syntax.Offset, err)
		}
		return nil, nil, fmt.Errorf("header: not valid JSON: %w", err)
	}
	if err := jsonkeys.Check(header); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	var entries []entry
	var metadata map[string]string
	for dec.More() {
		token, err := dec.Token()
		var value any
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		name := token.(string)
		if name == metadataKey {
			if metadata, err = parseMetadata(value); err != nil {
				return nil, nil, fmt.Errorf("header: %s: %w", metadataKey, err)
			}
			continue
		}
		e, err := parseEntry(name, value)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %s: %w", textutil.Quote(name), err)
		}
		entries = append(entries, e)
	}
	return entries, metadata, nil
}

func parseMetadata(value any) (map[string]string, error) {
	object, err := as[map[string]any](value, "an object")
	if err != nil {
		return nil, err
	}
	m := make(map[string]string, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if m[key], err = as[string](object[key], "a string"); err != nil {
			return nil, fmt.Errorf("%s: %w", textutil.Quote(key), err)
		}
	}
	return m, nil
}

func parseEntry(name string, value any) (entry, error) {
	e := entry{name: name}
	var offsets []int
	object, err := as[map[string]any](value, "an object")
	if err != nil {
		return e, err
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		switch v := object[key]; key {
		case "dtype":
			e.dtypeName, err = as[string](v, "a string")
		case "shape":
			e.shape, err = ints(v, maxRank)
		case "data_offsets":
			if offsets, err = ints(v, 2); err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%v: want two numbers", offsets)
			}
		default:
			return e, fmt.Errorf("unknown key %s (want dtype, shape, data_offsets)", textutil.Quote(key))
		}
		if err != nil {
			return e, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if _, ok := object[key]; !ok {
			return e, fmt.Errorf("no %s", key)
		}
	}
	e.begin, e.end = offsets[0], offsets[1]
	var ok bool
	if e.dtype, ok = dtypes[e.dtypeName]; !ok {
		return e, fmt.Errorf("unknown dtype %s (these can be read: F32, F64, F16, BF16)", textutil.Quote(e.dtypeName))
	}
	if e.elements, err = elements(e.shape); err != nil {
		return e, err
	}
	size, err := byteSize(e.elements, e.dtype.size)
	if err != nil {
		return e, fmt.Errorf("shape %v of %s overflows: %w", e.shape, e.dtypeName, err)
	}
	if e.begin > e.end {
		return e, fmt.Errorf("data_offsets [%d %d] end before they start", e.begin, e.end)
	}
	if e.end-e.begin != size {
		return e, fmt.Errorf("shape %v of %s takes %d bytes, data_offsets [%d %d] have %d",
			e.shape, e.dtypeName, size, e.begin, e.end, e.end-e.begin)
	}
	return e, nil
}

// as returns a JSON value of type T; want describes T.
func as[T any](value any, want string) (T, error) {
	x, ok := value.(T)
	if ok {
		return x, nil
	}
	is := fmt.Sprint(value) // a boolean
	switch v := value.(type) {
	case nil:
		is = "null"
	case string:
		is = "the string " + textutil.Quote(v)
	case json.Number:
		is = "the number " + textutil.Quote(v.String())
	case []any:
		is = "a list"
	case map[string]any:
		is = "an object"
	}
	return x, fmt.Errorf("%s: want %s", is, want)
}

// ints reads a list of at most limit whole numbers, none of them negative.
func ints(value any, limit int) ([]int, error) {
	list, err := as[[]any](value, "a list of numbers")
	if err != nil {
		return nil, err
	}
	if len(list) > limit {
		return nil, fmt.Errorf("more than %d numbers", limit)
	}
	out := make([]int, len(list))
	for i, x := range list {
		number, err := as[json.Number](x, "a number")
		if err != nil {
			return nil, err
		}
		s := number.String()
		out[i], err = strconv.Atoi(s)
		switch {
		case strings.HasPrefix(s, "-"):
			return nil, fmt.Errorf("%s is negative", textutil.Quote(s))
		case errors.Is(err, strconv.ErrRange):
			return nil, fmt.Errorf("%s does not fit in an integer", textutil.Quote(s))
		case err != nil:
			return nil, fmt.Errorf("%s is not a whole number", textutil.Quote(s))
		}
	}
	return out, nil
}
