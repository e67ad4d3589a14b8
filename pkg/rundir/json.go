package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
)

// JSON has no NaN and no infinity, and a diverged run must still be recorded. So a float that is
// not finite is written as null, and null (or a missing key) is read into a plain float as NaN: the
// distinction between NaN and the infinities is lost. A *float64 reads null as nil.

// Marshal encodes v in compact JSON like [json.Marshal], with two differences:
// floats that are not finite become null, and <, > and & are not escaped, so
// that worked answers (<<7+5=12>>) stay readable.
func Marshal(v any) ([]byte, error) {
	data, err := marshalFinite(v)
	var unsupported *json.UnsupportedValueError
	if !errors.As(err, &unsupported) || !unsupported.Value.CanFloat() {
		return data, err
	}
	var b bytes.Buffer
	err = encode(&b, reflect.ValueOf(v))
	return b.Bytes(), err
}

// marshalFinite is json.Marshal without escapes for HTML.
func marshalFinite(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// WriteJSON replaces the file at path by v in indented JSON; see [Marshal] and
// [WriteFileAtomic].
func WriteJSON(path string, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	b.WriteByte('\n')
	return WriteFileAtomic(path, b.Bytes())
}

// ReadJSON decodes the file at path into v like [Unmarshal]. For a missing file, errors.Is(err,
// fs.ErrNotExist) is true.
func ReadJSON(path string, v any) error {
	data, err := regular.Read(path, regular.MaxDocument)
	if err != nil {
		return err
	}
	if err := Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Unmarshal decodes one JSON value into v (a pointer), strictly. Errors: unknown or duplicate keys,
// wrong types, a bare null, data after the value, and bytes that are not UTF-8. A plain float whose
// key is null or missing becomes NaN.
func Unmarshal(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON ends too early")
		}
		const limit = 300 // for keys and numbers quoted in errors
		if text := err.Error(); len(text) > limit {
			return errors.New(strings.ToValidUTF8(text[:limit], "") + "...")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	if err := jsonkeys.Check(data); err != nil {
		return err
	}
	// The decoder ignores null for a float; an untyped decode finds the missing floats.
	var raw any
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw == nil {
		return errors.New("it is null")
	}
	fillNaN(reflect.ValueOf(v).Elem(), raw)
	return nil
}

// member is a field of a struct or an element of a map with its JSON key.
type member struct {
	key       string
	value     reflect.Value
	omitEmpty bool
}

// members lists the members of a struct or of a map with string keys in the order of encoding/json.
func members(v reflect.Value) ([]member, error) {
	var list []member
	if v.Kind() == reflect.Map {
		if v.Type().Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s: the keys of a map with NaN must be strings", v.Type())
		}
		for _, k := range v.MapKeys() {
			list = append(list, member{k.String(), v.MapIndex(k), false})
		}
		slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.key, b.key) })
		return list, nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous || option != "" && option != "omitempty":
			return nil, fmt.Errorf("field %s of %s: embedded fields and the JSON option %q are not supported",
				f.Name, v.Type(), option)
		case !f.IsExported() || key == "-":
			continue
		case key == "":
			key = f.Name
		}
		list = append(list, member{key, v.Field(i), option == "omitempty"})
	}
	return list, nil
}

// isEmpty reports whether omitempty leaves the value out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return v.Kind() != reflect.Struct && v.IsZero()
}

// encode writes v as [marshalFinite] does, with null for floats that are not
// finite.
func encode(b *bytes.Buffer, v reflect.Value) error {
	_, marshaler := v.Interface().(json.Marshaler)
	switch kind := v.Kind(); {
	case marshaler:
	case v.CanFloat() && !finite(v.Float()):
		b.WriteString("null")
		return nil
	case (kind == reflect.Pointer || kind == reflect.Interface) && !v.IsNil():
		return encode(b, v.Elem())
	case kind == reflect.Struct || kind == reflect.Map && !v.IsNil():
		return encodeObject(b, v)
	case kind == reflect.Array || kind == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := encode(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	data, err := marshalFinite(v.Interface())
	b.Write(data)
	return err
}

func encodeObject(b *bytes.Buffer, v reflect.Value) error {
	list, err := members(v)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(m member) bool { return m.omitEmpty && isEmpty(m.value) })
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encode(b, reflect.ValueOf(m.key)); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := encode(b, m.value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// fillNaN sets the floats in v that are null or missing in raw, the same JSON
// decoded without types, to NaN. A type with its own UnmarshalJSON calls
// [Unmarshal] itself.
func fillNaN(v reflect.Value, raw any) {
	if v.CanAddr() && v.Addr().Type().Implements(unmarshalerType) {
		return
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if raw == nil {
			v.SetFloat(math.NaN())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillNaN(v.Elem(), raw)
		}
	case reflect.Slice, reflect.Array:
		list, _ := raw.([]any)
		for i := range min(v.Len(), len(list)) {
			fillNaN(v.Index(i), list[i])
		}
	case reflect.Struct, reflect.Map:
		object, _ := raw.(map[string]any)
		list, _ := members(v) // unsupported types have no NaN
		for _, m := range list {
			value, there := object[m.key]
			switch {
			case m.omitEmpty && !there:
			case v.Kind() == reflect.Struct:
				fillNaN(m.value, value)
			default: // the elements of a map can't be set in place
				elem := reflect.New(v.Type().Elem()).Elem()
				elem.Set(m.value)
				fillNaN(elem, value)
				v.SetMapIndex(reflect.ValueOf(m.key).Convert(v.Type().Key()), elem)
			}
		}
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
