package yamldoc

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/pattern"
	"grpo/internal/textutil"
)

// Values have one notation, in a file, the environment, --set or a flag. It is narrower than
// YAML's, so that no value is converted silently:
//
//   - an integer is decimal digits with an optional sign: not 8.0, 1e2, 0x10,
//     010 or 1_000;
//   - a number is a decimal fraction with an optional exponent, and finite;
//   - a boolean is true or false: not yes, on, True or 1;
//   - a string is one line of printable UTF-8, a [Text] may have several.
var (
	integerForm = pattern.Of(`^[-+]?(0|[1-9][0-9]*)$`)
	numberForm  = pattern.Of(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// Text is a string that may have line feeds and tabs, written in double quotes: "\n\n".
type Text string

var textType = reflect.TypeFor[Text]()

// mustBe is the error for a value of the wrong type: the type wanted, the value, and perhaps a fix.
// It completes a sentence that starts with the key.
func mustBe(t reflect.Type, got, hint string) error {
	msg := fmt.Sprintf("must be %s, not %s", TypeName(t), got)
	if hint != "" {
		msg += " (" + hint + ")"
	}
	return errors.New(msg)
}

// setScalar parses text into v.
func setScalar(v reflect.Value, text string) error {
	t, shown := v.Type(), textutil.Show(text)
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return Check(v)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return mustBe(t, shown, booleanHint(text))
		}
		v.SetBool(text == "true")
	case reflect.Int:
		if !integerForm().MatchString(text) {
			return mustBe(t, shown, integerHint(text))
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return outOfRange(shown, "beyond the largest integer, %d", math.MaxInt)
		}
		v.SetInt(int64(n))
	case reflect.Uint64:
		if !integerForm().MatchString(text) {
			return mustBe(t, shown, integerHint(text))
		}
		if text != "-0" && strings.HasPrefix(text, "-") {
			return mustBe(t, shown, "")
		}
		n, err := strconv.ParseUint(strings.TrimLeft(text, "+-"), 10, 64)
		if err != nil {
			return outOfRange(shown, "beyond the largest integer, %d", uint64(math.MaxUint64))
		}
		v.SetUint(n)
	default:
		return setFloat(v, text)
	}
	return nil
}

func outOfRange(shown, why string, args ...any) error {
	return fmt.Errorf("is out of range: %s is %s", shown, fmt.Sprintf(why, args...))
}

func setFloat(v reflect.Value, text string) error {
	shown := textutil.Show(text)
	if !numberForm().MatchString(text) {
		switch strings.TrimLeft(strings.ToLower(text), "+-.") {
		case "nan", "inf", "infinity":
			return fmt.Errorf("must be a finite number, not %s", text)
		}
		return mustBe(v.Type(), shown, "")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return outOfRange(shown, "too large for a 64-bit number")
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return outOfRange(shown, "too small for a 64-bit number (write 0)")
	}
	v.SetFloat(f + 0) // -0 becomes 0: two spellings of one value must not differ
	return nil
}

// setList reads n elements into v, a slice or an array; set reads one of them.
func setList(v reflect.Value, n int, set func(i int, e reflect.Value) error) error {
	list := reflect.MakeSlice(reflect.SliceOf(v.Type().Elem()), n, n)
	for i := range n {
		if err := set(i, list.Index(i)); err != nil {
			return fmt.Errorf("element %d %w", i+1, err)
		}
	}
	switch {
	case v.Kind() == reflect.Slice:
		v.Set(list)
	case n != v.Len():
		return fmt.Errorf("must be %s, not of %d", TypeName(v.Type()), n)
	default:
		reflect.Copy(v, list)
	}
	return nil
}

// SetText reads a value of the environment, --set or a flag into v. Lists are
// written a,b or [a, b].
func SetText(v reflect.Value, text string) error {
	if !IsList(v.Type()) {
		return setScalar(v, text)
	}
	inner := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(inner, "["); ok {
		if inner, ok = strings.CutSuffix(rest, "]"); !ok {
			return mustBe(v.Type(), textutil.Show(text), "the bracket is not closed")
		}
		if strings.TrimSpace(inner) == "" {
			return setList(v, 0, nil)
		}
	}
	parts := splitList(inner)
	for i, part := range parts {
		if parts[i] = strings.TrimSpace(part); parts[i] == "" {
			return mustBe(v.Type(), textutil.Show(text), fmt.Sprintf("element %d is empty; write a,b or [a, b]", i+1))
		}
		if s, err := strconv.Unquote(parts[i]); err == nil && parts[i][0] == '"' {
			parts[i] = s
		}
	}
	return setList(v, len(parts), func(i int, e reflect.Value) error { return setScalar(e, parts[i]) })
}

// splitList splits at commas, except in elements in double quotes.
func splitList(s string) (parts []string) {
	for {
		rest, from := strings.TrimLeft(s, " "), 0
		if quoted, err := strconv.QuotedPrefix(rest); err == nil && quoted[0] == '"' {
			from = len(s) - len(rest) + len(quoted)
		}
		comma := strings.IndexByte(s[from:], ',')
		if comma < 0 {
			return append(parts, s)
		}
		parts, s = append(parts, s[:from+comma]), s[from+comma+1:]
	}
}

// Check accepts every value that can be written and read back: finite numbers and printable
// strings.
func Check(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return errors.New("must be finite")
		}
	case reflect.String:
		s := v.String()
		if v.Type() == textType {
			s = strings.NewReplacer("\n", "", "\t", "").Replace(s)
		}
		return checkString(s)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := Check(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkString(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("must be UTF-8 text, not %q", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("must be one line of printable text: it contains the character %U", r)
		}
	}
	return nil
}

func booleanHint(text string) string {
	switch strings.ToLower(text) {
	case "yes", "on", "1", "y", "true", "t":
		return "write true"
	case "no", "off", "0", "n", "false", "f":
		return "write false"
	}
	return ""
}

// integerHint suggests the integer that was probably meant.
func integerHint(text string) string {
	if plain := strings.ReplaceAll(text, "_", ""); integerForm().MatchString(plain) {
		return "write " + plain
	}
	if numberForm().MatchString(text) {
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 {
			return "write " + strconv.FormatFloat(f, 'f', -1, 64)
		}
		return ""
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return fmt.Sprintf("write %d", n)
	}
	return ""
}

// Format writes a value as YAML that reads back to the same bits.
func Format(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return formatString(v.String())
	case reflect.Float64:
		return FormatFloat(v.Float())
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = Format(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// FormatFloat returns a decimal that reads back to f, as people write it: 1e-6 and not 1e-06,
// 1048576 and not 1.048576e+06.
func FormatFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f+0, 'f', 0, 64)
	}
	return textutil.Number(f)
}

// specialWords matches words and numbers that some YAML readers take for a boolean, null or a number.
var specialWords = pattern.Of(`^(?i:y|n|yes|no|on|off|true|false|null|[.]+|[.](inf|nan)|[.][0-9].*)$`)

func formatString(s string) string {
	if isPlain(s) && !specialWords().MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// isPlain reports whether YAML reads a string as itself without quotes, except for specialWords: letters, digits, _, .,
// / and -, of which digits and - are not its beginning.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '.', c == '/':
		case i > 0 && ('0' <= c && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}
