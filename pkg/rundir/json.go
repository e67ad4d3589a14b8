package rundir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/internal/textutil"
)

// JSON has no NaN and no infinity, and a diverged run must still be recorded. So a float that is
// not finite is written as null, and null (or a missing key) is read into a plain float as NaN: the
// distinction between NaN and the infinities is lost. A *float64 reads null as nil.
//
// Package jsonv2 is the next version of encoding/json. Its options give the rules of encoding/json,
// except those that are named here.

// writing writes floats that are not finite as null.
var writing = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false),
	jsonv2.WithMarshalers(jsonv2.JoinMarshalers(
		jsonv2.MarshalToFunc(nullable[float64]), jsonv2.MarshalToFunc(nullable[float32]))))

// reading rejects what encoding/json changes silently, and reads null as NaN.
var reading = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false), jsonv2.RejectUnknownMembers(true),
	jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(startAsNaN)))

func nullable[T float32 | float64](to *jsontext.Encoder, x T) error {
	if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
		return to.WriteToken(jsontext.Null)
	}
	return errors.ErrUnsupported // written as usual
}

// startAsNaN gives floats the value that null and a missing key leave, before a value is read into to.
func startAsNaN(_ *jsontext.Decoder, to any) error {
	setNaN(reflect.ValueOf(to).Elem())
	return errors.ErrUnsupported // read as usual
}

// setNaN sets a float, or the floats of a struct, to NaN. Only a zero is left out by omitempty.
func setNaN(v reflect.Value) {
	if v.CanFloat() {
		v.SetFloat(math.NaN())
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() && !strings.HasSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty") {
			setNaN(f)
		}
	}
}

// Marshal encodes v in compact JSON like [json.Marshal], with two differences:
// floats that are not finite become null, and <, > and & are not escaped, so
// that worked answers (<<7+5=12>>) stay readable.
func Marshal(v any) ([]byte, error) {
	data, err := marshalFinite(v)
	var unsupported *json.UnsupportedValueError
	if !errors.As(err, &unsupported) || !unsupported.Value.CanFloat() {
		return data, err
	}
	return jsonv2.Marshal(v, writing)
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
	var b bytes.Buffer
	if err == nil {
		err = json.Indent(&b, data, "", "  ")
	}
	if err != nil {
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
	err := jsonv2.Unmarshal(data, v, reading)
	switch {
	case err == nil && string(bytes.TrimSpace(data)) == "null":
		return errors.New("it is null")
	case err == nil:
		return nil
	}
	err = cmp.Or(jsonkeys.Check(data), err)                                // which names the key or the byte
	if text := textutil.Printable(err.Error(), 300); text != err.Error() { // it quotes keys and numbers
		return errors.New(text)
	}
	return err
}
