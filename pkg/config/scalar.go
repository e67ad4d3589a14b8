package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/words"
)

// One notation for values, whether they stand in a file, the environment, --set
// or a flag. It is narrower than YAML's, so that nothing is converted behind
// the reader's back:
//
//   - an integer is decimal digits with an optional sign: not 8.0, 1e2, 0x10,
//     010 or 1_000;
//   - a number is a decimal fraction with an optional exponent, and finite;
//   - a truth value is true or false: not yes, on, True or 1;
//   - a text is one line of printable UTF-8.
var (
	integerForm = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	numberForm  = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// parseScalar reads a text as a value of type t. The error completes the
// sentence "KEY must be ...".
func parseScalar(text string, t reflect.Type) (any, error) {
	switch t.Kind() {
	case reflect.String:
		if err := checkText(text); err != nil {
			return nil, err
		}
		return text, nil
	case reflect.Bool:
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, mustBe(t, words.Show(text), boolHint(text))
	case reflect.Int:
		return parseInt(text, t)
	case reflect.Uint64:
		return parseUint(text, t)
	case reflect.Float64:
		return parseFloat(text, t)
	}
	return nil, mustBe(t, words.Show(text), "")
}

// mustBe says what a key wants, what it got, and perhaps the fix.
func mustBe(t reflect.Type, got, hint string) error {
	msg := fmt.Sprintf("must be %s, not %s", typeName(t), got)
	if hint != "" {
		msg += " (" + hint + ")"
	}
	return errors.New(msg)
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("must be UTF-8 text, not %q", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("must be one line of printable text: it holds the character %U", r)
		}
	}
	return nil
}

func boolHint(text string) string {
	switch strings.ToLower(text) {
	case "yes", "on", "1", "y", "true", "t":
		return "write true"
	case "no", "off", "0", "n", "false", "f":
		return "write false"
	}
	return ""
}

func parseInt(text string, t reflect.Type) (any, error) {
	if !integerForm.MatchString(text) {
		return nil, mustBe(t, words.Show(text), integerHint(text))
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("is out of range: %s is beyond the largest integer, %d", words.Show(text), math.MaxInt)
	}
	return n, nil
}

func parseUint(text string, t reflect.Type) (any, error) {
	if !integerForm.MatchString(text) {
		return nil, mustBe(t, words.Show(text), integerHint(text))
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	switch {
	case text == "-0":
		return uint64(0), nil
	case strings.HasPrefix(text, "-"):
		return nil, mustBe(t, words.Show(text), "")
	case err != nil:
		return nil, fmt.Errorf("is out of range: %s is beyond the largest integer, %d", words.Show(text), uint64(math.MaxUint64))
	}
	return n, nil
}

// integerHint proposes the integer that was probably meant.
func integerHint(text string) string {
	plain := strings.ReplaceAll(text, "_", "")
	if integerForm.MatchString(plain) {
		return "write " + plain
	}
	if numberForm.MatchString(text) {
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

func parseFloat(text string, t reflect.Type) (any, error) {
	if !numberForm.MatchString(text) {
		switch strings.TrimLeft(strings.ToLower(text), "+-.") {
		case "nan", "inf", "infinity":
			return nil, fmt.Errorf("must be a finite number, not %s", text)
		}
		return nil, mustBe(t, words.Show(text), "")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("is out of range: %s is too large for a 64-bit number", words.Show(text))
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return nil, fmt.Errorf("is out of range: %s is too small for a 64-bit number (write 0)", words.Show(text))
	}
	return f + 0, nil // -0 becomes 0: two spellings of one setting must not differ
}

// makeList turns parsed elements into a value of the list type t.
func makeList(elements []any, t reflect.Type) (any, error) {
	if t.Kind() == reflect.Array && len(elements) != t.Len() {
		return nil, fmt.Errorf("must be %s, not of %d", typeName(t), len(elements))
	}
	list := reflect.MakeSlice(reflect.SliceOf(t.Elem()), len(elements), len(elements))
	for i, e := range elements {
		list.Index(i).Set(reflect.ValueOf(e))
	}
	return list.Interface(), nil
}

// parseText reads the value of a key from the environment, --set or a flag.
// Lists are written a,b or [a, b].
func parseText(text string, t reflect.Type) (any, error) {
	if !isList(t) {
		return parseScalar(text, t)
	}
	inner := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(inner, "["); ok {
		if inner, ok = strings.CutSuffix(rest, "]"); !ok {
			return nil, fmt.Errorf("must be %s, not %s (the bracket is not closed)", typeName(t), words.Show(text))
		}
		if strings.TrimSpace(inner) == "" {
			return makeList(nil, t)
		}
	}
	var elements []any
	for i, part := range strings.Split(inner, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, fmt.Errorf("must be %s, not %s (element %d is empty; write a,b or [a, b])", typeName(t), words.Show(text), i+1)
		}
		e, err := parseScalar(part, t.Elem())
		if err != nil {
			return nil, fmt.Errorf("element %d %w", i+1, err)
		}
		elements = append(elements, e)
	}
	return makeList(elements, t)
}

// formatValue writes a value as YAML, such that it reads back to the same bits.
func formatValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return formatText(v.String())
	case reflect.Float64:
		return formatFloat(v.Float())
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = formatValue(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// formatFloat gives a decimal that reads back to f, as people write it: 1e-6
// and not 1e-06, 1048576 and not 1.048576e+06.
func formatFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f+0, 'f', 0, 64)
	}
	return words.Number(f)
}

// plainForm is a text that YAML reads as itself without quotes; the words that
// some YAML reader takes for a truth value or null are excepted.
var (
	plainForm    = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./-]*$`)
	specialWords = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|[.]+|[.](inf|nan)|[.][0-9].*)$`)
)

func formatText(s string) string {
	if plainForm.MatchString(s) && !specialWords.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
