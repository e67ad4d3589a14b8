package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
)

// Limits of a batch file. The reference files have about 50 KB; the limits keep a damaged or
// malicious file from exhausting memory.
const (
	maxFile  = 32 << 20 // bytes
	maxCases = 100_000
	// maxNumbers bounds a matrix, and the cases times the tokens of a file, because
	// each case has a gradient.
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

// Read reads a batch of at most 32 MiB; name identifies it in errors.
func Read(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read batch: %s: more than %d MiB (split the cases)", name, maxFile>>20)
	}
	return data, nil
}

// value is a JSON value and its place in a file, such as cases[3].config.epsilon.
// The raw bytes are valid JSON, nil for a missing value.
type value struct {
	file, path string
	raw        json.RawMessage
	order      int // position in its object
}

func (v value) errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if v.path == "" {
		return fmt.Errorf("%s: %w", v.file, err)
	}
	return fmt.Errorf("%s: %s: %w", v.file, v.path, err)
}

func (v value) field(name string) value {
	name = textutil.Printable(name, 43)
	if v.path != "" {
		name = v.path + "." + name
	}
	return value{file: v.file, path: name}
}

func (v value) index(i int) value {
	return value{file: v.file, path: v.path + "[" + strconv.Itoa(i) + "]"}
}

// kind names the type of a value for an error.
func (v value) kind() string {
	kinds := map[byte]string{
		'{': "an object", '[': "a list", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null",
	}
	return cmp.Or(kinds[v.raw[0]], "a number")
}

// document checks the syntax of a whole file and decodes it, see [value.decode].
func document(name string, data []byte, to any, ignored ...string) (value, error) {
	root := value{file: name}
	if len(bytes.TrimSpace(data)) == 0 {
		return root, root.errorf("the file is empty")
	}
	err := json.Unmarshal(data, &root.raw)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		if err := jsonkeys.Characters(data); err != nil {
			return root, root.errorf("%w", err)
		}
		return root, root.decode(to, ignored...)
	case !errors.As(err, &syntax):
		return root, err
	}
	at, hint := min(int(syntax.Offset), len(data)), ""
	if at > 0 && strings.ContainsAny(string(data[at-1]), "NI") {
		hint = " (JSON has no NaN and no Infinity; write null for a missing number)"
	}
	return root, root.errorf("line %d: %w%s", 1+bytes.Count(data[:at], []byte("\n")), syntax, hint)
}

// decode reads a value into the variable that to points to. It is stricter than encoding/json, and
// its errors name the case. The names of an object's fields must match the json tags of the struct
// exactly; ignored names and those that start with "_" are skipped. A null counts as missing. A tag
// check:"required" rejects a missing field, check:"positive" a number that is not above 0. In lists
// of numbers null is NaN, and booleans are 0 and 1.
func (v value) decode(to any, ignored ...string) error {
	return v.decodeTo(reflect.ValueOf(to).Elem(), ignored)
}

func (v value) decodeTo(to reflect.Value, ignored []string) (err error) {
	switch x := to.Addr().Interface().(type) {
	case *value: // decoded later
		*x = v
		return nil
	case *[]float64:
		*x, err = v.numbers()
		return err
	case *[][]float64:
		*x = [][]float64{}
		return v.elements(func(row value) error {
			y, err := row.numbers()
			*x = append(*x, y)
			return err
		})
	case *map[string]float64:
		*x = map[string]float64{}
		return v.fields(func(name string, f value) error {
			y := math.NaN()
			if f.kind() != "null" {
				err = f.decode(&y)
			}
			(*x)[name] = y
			return err
		})
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return v.decodeTo(to.Elem(), nil)
	case reflect.Struct:
		return v.decodeStruct(to, ignored)
	case reflect.Int:
		var x float64
		err := v.decode(&x)
		if err == nil && (x != math.Trunc(x) || x < 1 || x > maxNumbers) {
			err = v.errorf("%v; it must be a whole number from 1 to %d", x, maxNumbers)
		}
		to.SetInt(int64(x))
		return err
	}
	if json.Unmarshal(v.raw, to.Addr().Interface()) == nil {
		return nil
	}
	want := map[reflect.Kind]string{
		reflect.Float64: "a number", reflect.String: "a string", reflect.Bool: "true or false",
	}
	if v.kind() == want[to.Kind()] {
		return v.errorf("%s is out of the range of a 64-bit number", textutil.Cut(string(v.raw), 43))
	}
	return v.errorf("%s; it must be %s", v.kind(), want[to.Kind()])
}

func (v value) decodeStruct(to reflect.Value, ignored []string) error {
	tags := reflect.VisibleFields(to.Type())
	found := map[string]bool{}
	err := v.fields(func(name string, f value) error {
		i := slices.IndexFunc(tags, func(t reflect.StructField) bool { return t.Tag.Get("json") == name })
		switch {
		case strings.HasPrefix(name, "_") || slices.Contains(ignored, name):
			return nil
		case i < 0:
			var known []string
			for _, t := range tags {
				if tag, ok := t.Tag.Lookup("json"); ok {
					known = append(known, tag)
				}
			}
			return f.errorf("unknown field%s", hint(name, known))
		case f.kind() == "null":
			return nil
		}
		found[name] = true
		field := to.FieldByIndex(tags[i].Index)
		if err := f.decodeTo(field, nil); err != nil {
			return err
		}
		if tags[i].Tag.Get("check") == "positive" && !(reflect.Indirect(field).Float() > 0) {
			return f.errorf("%v; it must be above 0", reflect.Indirect(field).Float())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tags {
		if name := t.Tag.Get("json"); t.Tag.Get("check") == "required" && !found[name] {
			return v.field(name).errorf("missing")
		}
	}
	return nil
}

// fields calls f for each field of an object, in the order of the file.
func (v value) fields(f func(name string, field value) error) error {
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if t, _ := dec.Token(); t != json.Delim('{') {
		return v.errorf("%s; it must be an object", v.kind())
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, _ := t.(string)
		field := v.field(name)
		field.order = len(seen)
		if err == nil {
			err = dec.Decode(&field.raw)
		}
		switch {
		case err != nil:
			return field.errorf("%w", err)
		case seen[name]:
			return field.errorf("the field appears twice")
		}
		seen[name] = true
		if err := f(name, field); err != nil {
			return err
		}
	}
	return nil
}

// elements calls f for each element of a list.
func (v value) elements(f func(value) error) error {
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if t, _ := dec.Token(); t != json.Delim('[') {
		return v.errorf("%s; it must be a list", v.kind())
	}
	for i := 0; dec.More(); i++ {
		e := v.index(i)
		if err := dec.Decode(&e.raw); err != nil {
			return e.errorf("%w", err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads a list of numbers without copying each one.
func (v value) numbers() ([]float64, error) {
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if t, _ := dec.Token(); t != json.Delim('[') {
		return nil, v.errorf("%s; it must be a list of numbers", v.kind())
	}
	x := []float64{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, v.index(len(x)).errorf("out of the range of a 64-bit number")
		}
		switch t := t.(type) {
		case float64:
			x = append(x, t)
		case bool:
			bit := 0.0
			if t {
				bit = 1
			}
			x = append(x, bit)
		case nil:
			x = append(x, math.NaN())
		case string:
			return nil, v.index(len(x)).errorf("a string; it must be a number")
		case json.Delim:
			inner := value{raw: json.RawMessage(t.String())}
			return nil, v.index(len(x)).errorf("%s; it must be a number", inner.kind())
		}
	}
	return x, nil
}

// nested reports whether the value is a list whose first element is a list.
func (v value) nested() bool {
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	first, _ := dec.Token()
	second, _ := dec.Token()
	return first == json.Delim('[') && second == json.Delim('[')
}

// noNull returns an error if a list of numbers at v has a null.
func (v value) noNull(x []float64) error {
	if i := slices.IndexFunc(x, math.IsNaN); i >= 0 {
		return v.index(i).errorf("null; it must be a number")
	}
	return nil
}

// choice returns an error unless the name at v is one of known.
func (v value) choice(name string, known ...string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return v.errorf("unknown name %q%s", textutil.Cut(name, 43), hint(name, known))
}

// hint ends the error about an unknown name.
func hint(name string, known []string) string {
	return cmp.Or(suggest.DidYouMean(name, known), " (known: "+strings.Join(known, ", ")+")")
}

// readCases reads the lists of cases in the order of the file. kinds has a reader for each name of
// a list.
func readCases[T any](kinds map[string]func(value) (T, error), lists ...value) ([]T, error) {
	slices.SortFunc(lists, func(a, b value) int { return cmp.Compare(a.order, b.order) })
	var out []T
	for _, l := range lists {
		if l.raw == nil {
			continue
		}
		err := l.elements(func(e value) error {
			if len(out) == maxCases {
				return l.errorf("more than %d cases (split the file)", maxCases)
			}
			c, err := kinds[l.path](e)
			out = append(out, c)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
