package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// JSON has no NaN and no infinity, and a run that diverged must still be
// recorded. So every float that is not finite is written as null, and a null
// (or a missing key) is read back as NaN where the field is a plain float64.
// NaN and the two infinities can't be distinguished afterwards. A *float64 reads
// null as nil, so a pointer to NaN comes back as "no such value".

// Marshal encodes v in compact JSON like [json.Marshal], with two
// differences: floats that are not finite become null, and <, > and & are left
// as they are, so that worked answers (<<7+5=12>>) stay readable.
func Marshal(v any) ([]byte, error) {
	data, err := marshalFinite(v)
	var unsupported *json.UnsupportedValueError
	if !errors.As(err, &unsupported) {
		return data, err
	}
	var buf bytes.Buffer
	if err := encodeValue(&buf, reflect.ValueOf(v), "value", 0); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// WriteJSON replaces the file at path by v in indented JSON with a newline at
// the end (see [Marshal] for floats that are not finite and [WriteFileAtomic]
// for what a crash leaves).
func WriteJSON(path string, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, data, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	buf.WriteByte('\n')
	return WriteFileAtomic(path, buf.Bytes())
}

// marshalFinite is json.Marshal without the escaping of HTML.
func marshalFinite(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// maxDepth bounds the recursion: a value that refers to itself is an error.
const maxDepth = 100

// encodeValue writes v with null for every float that is not finite. It
// follows encoding/json for the kinds that the run folder uses: structs with
// json tags, pointers, interfaces, slices, arrays and maps with string keys.
func encodeValue(buf *bytes.Buffer, v reflect.Value, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("encode %s: nested deeper than %d", path, maxDepth)
	}
	if !v.IsValid() {
		buf.WriteString("null")
		return nil
	}
	if _, ok := v.Interface().(json.Marshaler); ok {
		return encodeLeaf(buf, v, path)
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			buf.WriteString("null")
			return nil
		}
		return encodeLeaf(buf, v, path)
	case reflect.Pointer, reflect.Interface:
		return encodeValue(buf, v.Elem(), path, depth+1)
	case reflect.Struct:
		return encodeStruct(buf, v, path, depth)
	case reflect.Map:
		return encodeMap(buf, v, path, depth)
	case reflect.Slice, reflect.Array:
		return encodeList(buf, v, path, depth)
	default:
		return encodeLeaf(buf, v, path)
	}
}

func encodeLeaf(buf *bytes.Buffer, v reflect.Value, path string) error {
	data, err := marshalFinite(v.Interface())
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	buf.Write(data)
	return nil
}

func encodeStruct(buf *bytes.Buffer, v reflect.Value, path string, depth int) error {
	buf.WriteByte('{')
	first := true
	for i := range v.NumField() {
		name, omitEmpty, ok, err := jsonField(v.Type().Field(i))
		if err != nil {
			return fmt.Errorf("encode %s: %w", path, err)
		}
		if !ok || omitEmpty && isEmpty(v.Field(i)) {
			continue
		}
		if !first {
			buf.WriteByte(',')
		}
		first = false
		if err := encodeLeaf(buf, reflect.ValueOf(name), path); err != nil {
			return err
		}
		buf.WriteByte(':')
		if err := encodeValue(buf, v.Field(i), path+"."+name, depth+1); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

func encodeMap(buf *bytes.Buffer, v reflect.Value, path string, depth int) error {
	if v.IsNil() {
		buf.WriteString("null")
		return nil
	}
	if v.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("encode %s: the keys of a map with non-finite numbers must be strings, got %s", path, v.Type().Key())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	buf.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := encodeLeaf(buf, reflect.ValueOf(k.String()), path); err != nil {
			return err
		}
		buf.WriteByte(':')
		if err := encodeValue(buf, v.MapIndex(k), path+"."+k.String(), depth+1); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

func encodeList(buf *bytes.Buffer, v reflect.Value, path string, depth int) error {
	if v.Kind() == reflect.Slice && (v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8) {
		return encodeLeaf(buf, v, path)
	}
	buf.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := encodeValue(buf, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	buf.WriteByte(']')
	return nil
}

// jsonField reads a field's json tag. ok is false for a field that JSON leaves
// out.
func jsonField(f reflect.StructField) (name string, omitEmpty, ok bool, err error) {
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !f.Anonymous {
		return "", false, false, nil
	}
	name, rest, _ := strings.Cut(tag, ",")
	if f.Anonymous && name == "" {
		return "", false, false, fmt.Errorf("embedded field %s: only named fields are supported", f.Name)
	}
	if name == "" {
		name = f.Name
	}
	for opt := range strings.SplitSeq(rest, ",") {
		switch opt {
		case "":
		case "omitempty":
			omitEmpty = true
		default:
			return "", false, false, fmt.Errorf("field %s: the json option %q is not supported", f.Name, opt)
		}
	}
	return name, omitEmpty, true, nil
}

// isEmpty is omitempty's notion of an empty value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}
