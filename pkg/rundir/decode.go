package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
)

// Unmarshal decodes one JSON value into v (a pointer), strictly: an unknown
// key, a key that appears twice, a wrong type, a bare null or anything after the
// value is an error, and so is a byte that is not UTF-8, which the standard decoder would replace. A plain
// float whose key is null or missing becomes NaN (see [Marshal]).
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
		return shortened(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	if err := jsonkeys.Check(data); err != nil {
		return err
	}
	// The standard decoder leaves a float alone when it meets null; a second,
	// untyped reading finds the floats that were missing.
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

// shortened keeps an error from being as long as the key or the number that it
// is about.
func shortened(err error) error {
	const limit = 300
	if text := err.Error(); len(text) > limit {
		return errors.New(strings.ToValidUTF8(text[:limit], "") + "...")
	}
	return err
}

// ReadJSON decodes the file at path into v like [Unmarshal]. A missing file is
// an error for which errors.Is(err, fs.ErrNotExist) holds.
func ReadJSON(path string, v any) error {
	data, err := regular.Read(path, regular.MaxDocument)
	if err != nil {
		return fmt.Errorf("read %w", err)
	}
	if err := Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// fillNaN sets every float in v that is null or missing in raw to NaN.
// raw is the untyped decoding of the same JSON.
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
	case reflect.Struct:
		object, _ := raw.(map[string]any)
		for i := range v.NumField() {
			name, omitEmpty, ok, err := jsonField(v.Type().Field(i))
			if !ok || err != nil {
				continue
			}
			value, present := object[name]
			if omitEmpty && !present {
				continue
			}
			fillNaN(v.Field(i), value)
		}
	case reflect.Map:
		object, _ := raw.(map[string]any)
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		for _, k := range v.MapKeys() {
			// The elements of a map can't be set in place.
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(k))
			fillNaN(elem, object[k.String()])
			v.SetMapIndex(k, elem)
		}
	case reflect.Slice, reflect.Array:
		list, _ := raw.([]any)
		for i := range v.Len() {
			if i < len(list) {
				fillNaN(v.Index(i), list[i])
			}
		}
	}
}
