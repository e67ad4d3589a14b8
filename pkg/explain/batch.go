package explain

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"grpo/internal/regular"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/rl"
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

// File is a batch file: the name that errors have, and its JSON.
type File struct {
	Name string
	Data []byte
}

// ReadFile reads a batch file of at most 32 MiB, or stdin if the path is "-".
func ReadFile(path string, stdin io.Reader) (File, error) {
	f := File{Name: "standard input"}
	if path != "-" {
		opened, err := regular.Named(path)
		if err != nil {
			return f, fmt.Errorf("read batch: %w", err)
		}
		defer opened.Close()
		f.Name, stdin = path, opened
	}
	var err error
	if f.Data, err = io.ReadAll(io.LimitReader(stdin, maxFile+1)); err != nil {
		return f, fmt.Errorf("read batch: %w", err)
	}
	if len(f.Data) > maxFile {
		return f, fmt.Errorf("read batch: %s: more than %d MiB (split the cases)", f.Name, maxFile>>20)
	}
	return f, nil
}

// decode reads the whole file into a struct. The package json rejects invalid UTF-8, names that appear
// twice or have another case, and unknown fields. A null counts as missing, and keeps a default.
func (f File) decode(to any, defaults ...*json.Unmarshalers) error {
	if len(bytes.TrimSpace(f.Data)) == 0 {
		return errors.New("the file is empty")
	}
	var raw jsontext.Value
	if err := json.Unmarshal(f.Data, &raw); err != nil {
		return err
	}
	cleaned, err := withoutComments(raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(cleaned, to, json.RejectUnknownMembers(true), jsonv1.MergeWithLegacySemantics(true),
		json.WithUnmarshalers(json.JoinUnmarshalers(append(defaults, json.UnmarshalFromFunc(readCount))...)))
}

// withoutComments removes fields whose names start with "_". It bounds the lists of cases, whose elements
// are objects.
func withoutComments(raw jsontext.Value) ([]byte, error) {
	var out bytes.Buffer
	dec, enc := jsontext.NewDecoder(bytes.NewReader(raw)), jsontext.NewEncoder(&out)
	for {
		t, err := dec.ReadToken()
		if err == io.EOF {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		depth := dec.StackDepth()
		in, n := dec.StackIndex(depth)
		switch {
		case in == '{' && n%2 == 1 && strings.HasPrefix(t.String(), "_"):
			err = dec.SkipValue()
		case in == '[' && depth == 2 && t.Kind() == 'n':
			err = refuse(dec, "null; it must be an object")
		case in == '[' && depth == 2 && n > maxCases:
			err = path(dec.StackPointer().Parent()).errorf("more than %d cases (split the file)", maxCases)
		default:
			err = enc.WriteToken(t)
		}
		if err != nil {
			return nil, err
		}
	}
}

// defaulted are the values that an object has before it is read.
func defaulted[T any](values T) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(_ *jsontext.Decoder, to *T) error {
		*to = values
		return errors.ErrUnsupported // and reads it as usual
	})
}

// wrap adds the subject, the file, the line and the field to the error of its function:
// "explain loss: cases.json: line 7: cases[1].config.epsilon: a string; it must be a number".
func (f File) wrap(subject string, to *error) {
	err := *to
	if err == nil {
		return
	}
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	var field *fieldError
	switch {
	case errors.As(err, &field):
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		field = &fieldError{path(syntax.JSONPointer), errors.New("the field appears twice")}
	case errors.As(err, &syntax):
		at, hint := min(int(syntax.ByteOffset), len(f.Data)), ""
		if at < len(f.Data) && strings.IndexByte("NI", f.Data[at]) >= 0 {
			hint = " (JSON has no NaN and no Infinity; write null for a missing number)"
		}
		err = fmt.Errorf("line %d: %w%s", f.line(at), syntax.Err, hint)
	case errors.As(err, &semantic):
		field = &fieldError{path(semantic.JSONPointer), wrongKind(semantic)}
	}
	if field != nil {
		if err = field.err; field.at != "" {
			err = fmt.Errorf("line %d: %w", f.line(f.offset(field.at)), field)
		}
	}
	*to = fmt.Errorf("explain %s: %s: %w", subject, f.Name, err)
}

// line is the number of the line with this byte.
func (f File) line(at int) int { return 1 + bytes.Count(f.Data[:at], []byte("\n")) }

// offset is the byte at which a value or its name begins; if it is missing, that of the object around it.
func (f File) offset(p path) (at int) {
	dec := jsontext.NewDecoder(bytes.NewReader(f.Data))
	for name := range jsontext.Pointer(p).Tokens() {
		t, err := dec.ReadToken()
		object := t.Kind() == '{'
		for i := 0; ; i++ {
			found := strconv.Itoa(i) == name
			if object && err == nil {
				t, err = dec.ReadToken()
				found = t.String() == name
			}
			if err != nil || t.Kind() == '}' || dec.PeekKind() == ']' {
				return at
			}
			if found {
				break
			}
			err = dec.SkipValue()
		}
		if at = int(dec.InputOffset()); !object {
			at += len(f.Data[at:]) - len(bytes.TrimLeft(f.Data[at:], ", \t\r\n"))
		}
	}
	return at
}

// path is the place of a value in a file, as a JSON pointer.
type path jsontext.Pointer

func (p path) field(name string) path { return path(jsontext.Pointer(p).AppendToken(name)) }
func (p path) index(i int) path       { return p.field(strconv.Itoa(i)) }

// String is the path as cases[3].config.epsilon.
func (p path) String() string {
	var b strings.Builder
	for token := range jsontext.Pointer(p).Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			token = "[" + token + "]"
		case b.Len() > 0:
			token = "." + token
		}
		b.WriteString(textutil.Printable(token, 44))
	}
	return b.String()
}

// fieldError is an error about one value of a file.
type fieldError struct {
	at  path
	err error
}

func (e *fieldError) Error() string { return e.at.String() + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func (p path) errorf(format string, args ...any) error {
	return &fieldError{p, fmt.Errorf(format, args...)}
}

// choice returns an error unless the name at p is one of known.
func (p path) choice(name string, known ...string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return p.errorf("unknown name %q%s", textutil.Cut(name, 43), hint(name, known))
}

// hint ends the error about an unknown name.
func hint(name string, known []string) string {
	return cmp.Or(suggest.DidYouMean(name, known), " (known: "+strings.Join(known, ", ")+")")
}

// kinds names the types of JSON values for errors.
var kinds = map[jsontext.Kind]string{
	'{': "an object", '[': "a list", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null", '0': "a number",
}

// wrongKind describes a value that does not fit its field.
func wrongKind(e *json.SemanticError) error {
	switch {
	case errors.Is(e, json.ErrUnknownName):
		var known []string
		for _, f := range reflect.VisibleFields(e.GoType) {
			if name := f.Tag.Get("json"); name != "" {
				known = append(known, name)
			}
		}
		return fmt.Errorf("unknown field%s", hint(e.JSONPointer.LastToken(), known))
	case errors.Is(e, strconv.ErrRange):
		return errOutOfRange
	}
	want := "an object"
	if e.GoType != nil {
		want = cmp.Or(map[reflect.Kind]string{
			reflect.Float64: "a number", reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list",
		}[e.GoType.Kind()], want)
	}
	return fmt.Errorf("%s; it must be %s", kinds[e.JSONKind], want)
}

var errOutOfRange = errors.New("out of the range of a 64-bit number")

// refuse returns an error about the value that dec has read.
func refuse(dec *jsontext.Decoder, format string, args ...any) error {
	return path(dec.StackPointer()).errorf(format, args...)
}

// number is the number that dec has read; null is NaN.
func number(dec *jsontext.Decoder, t jsontext.Token) (x float64, err error) {
	switch t.Kind() {
	case 'n':
		return math.NaN(), nil
	case '0':
		if x, err = t.Float(); err != nil {
			err = refuse(dec, "%w", errOutOfRange)
		}
		return x, err
	}
	return 0, refuse(dec, "%s; it must be a number", kinds[t.Kind()])
}

// readNumber reads a number; null is NaN.
func readNumber(dec *jsontext.Decoder) (float64, error) {
	t, err := dec.ReadToken()
	if err != nil {
		return 0, err
	}
	return number(dec, t)
}

// readCount reads an integer above 0; a null keeps its value.
func readCount(dec *jsontext.Decoder, to *int) error {
	x, err := readNumber(dec)
	if err != nil || math.IsNaN(x) {
		return err
	}
	if x != math.Trunc(x) || x < 1 || x > maxNumbers {
		return refuse(dec, "%v; it must be a whole number from 1 to %d", x, maxNumbers)
	}
	*to = int(x)
	return nil
}

// positive is a number above 0, or 0 if it is missing.
type positive float64

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (p *positive) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	x, err := readNumber(dec)
	if err != nil || math.IsNaN(x) {
		return err
	}
	if x <= 0 {
		return refuse(dec, "%v; it must be above 0", x)
	}
	*p = positive(x)
	return nil
}

// numbers is a list of numbers, or of lists of numbers of one length, in row-major order; x is nil if it is
// missing. Null is NaN, and a boolean is 0 or 1.
type numbers struct {
	rl.Shape
	x    []float64
	flat bool // a list of numbers, of shape (n, 1)
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (n *numbers) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	for depth := 0; ; {
		t, err := dec.ReadToken()
		kind := t.Kind()
		switch {
		case err != nil:
			return err
		case depth == 0 && kind == 'n':
			return nil
		case depth == 0 && kind == '[':
			n.x, depth = []float64{}, 1
		case depth == 0:
			return refuse(dec, "%s; it must be a list of numbers", kinds[kind])
		case kind == '[' && depth == 1 && !n.flat:
			depth = 2
		case kind == ']' && depth == 1:
			if n.flat {
				n.Shape = rl.Shape{B: len(n.x), T: 1}
			}
			return nil
		case kind == ']':
			depth = 1
			if n.B++; n.B == 1 {
				n.T = len(n.x)
			}
			if width := len(n.x) - (n.B-1)*n.T; width != n.T {
				return refuse(dec, "%d numbers; the rows before it have %d (pad the shorter ones)", width, n.T)
			}
		case depth == 1 && n.B > 0:
			return refuse(dec, "%s; it must be a list of numbers", kinds[kind])
		default:
			n.flat = depth == 1
			if n.x, err = appendNumber(dec, t, n.x); err != nil {
				return err
			}
		}
	}
}

// appendNumber appends the number or boolean that dec has read.
func appendNumber(dec *jsontext.Decoder, t jsontext.Token, x []float64) (_ []float64, err error) {
	v := 0.0
	switch t.Kind() {
	case 't':
		v = 1
	case 'f':
	default:
		if v, err = number(dec, t); err != nil {
			return x, err
		}
	}
	if len(x) == maxNumbers {
		return x, refuse(dec, "more than %d numbers", maxNumbers)
	}
	return append(x, v), nil
}

// noNull returns an error if one of the numbers at p is null.
func (n numbers) noNull(p path) error {
	i := slices.IndexFunc(n.x, math.IsNaN)
	switch {
	case i < 0:
		return nil
	case n.flat:
		return p.index(i).errorf("null; it must be a number")
	}
	return p.index(i / n.T).index(i % n.T).errorf("null; it must be a number")
}

// matrix returns an error unless the numbers at p are a matrix with elements.
func (n numbers) matrix(p path) error {
	switch {
	case n.x == nil:
		return p.errorf("missing")
	case len(n.x) == 0:
		return p.errorf("no tokens: shape %v", n.Shape)
	case n.flat:
		return p.index(0).errorf("a number; it must be a list of numbers")
	}
	return nil
}

// readCases reads each of the cases in the list of this name.
func readCases[T, R any](name string, cases []T, read func(T, path) (R, error)) (out []R, err error) {
	for i, c := range cases {
		r, err := read(c, path("").field(name).index(i))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// inOrder joins the results of two lists in the order of the file.
func inOrder[R any](f File, first string, a []R, second string, b []R) []R {
	if len(a) > 0 && len(b) > 0 && f.offset(path("").field(second)) < f.offset(path("").field(first)) {
		a, b = b, a
	}
	return append(a, b...)
}
