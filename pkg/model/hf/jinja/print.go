package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// str is how a value prints.
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case undefined:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v)
	return b.String()
}

// plain is how a value prints, for a filter of texts.
func (r *run) plain(v any) string {
	if _, ok := v.(markup); ok {
		fail("text of the filter safe can only be printed and joined")
	}
	return r.str(v)
}

func (r *run) join(sep string, items []any) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			r.put(&b, sep)
		}
		r.put(&b, r.str(item))
	}
	return b.String()
}

// put adds to a text.
func (r *run) put(b *strings.Builder, s string) {
	r.spend(1, len(s)+8)
	must(b.Len()+len(s) <= maxValue, "a text has more than %d bytes", maxValue)
	b.WriteString(s)
}

// repr is Python's.
func (r *run) repr(b *strings.Builder, v any) {
	r.enter()
	defer r.leave()
	switch v := v.(type) {
	case nil:
		r.put(b, "None")
	case bool:
		r.put(b, map[bool]string{true: "True", false: "False"}[v])
	case int:
		r.put(b, strconv.Itoa(v))
	case float64:
		r.put(b, floatText(v))
	case string:
		r.reprText(b, v)
	case undefined:
		r.put(b, "Undefined")
	case *dict:
		r.items(b, "{", "}", len(v.keys), inLine, "", func(i int, _ string) {
			r.repr(b, v.keys[i])
			r.put(b, ": ")
			r.repr(b, v.values[i])
		})
	case *sequence:
		open, end := "[", "]"
		switch {
		case v.kind == "tuple":
			open, end = "(", map[bool]string{true: ",)", false: ")"}[len(v.items) == 1]
		case strings.HasPrefix(v.kind, "dict_"):
			open, end = v.kind+"([", "])"
		case v.kind != "list":
			fail("printing a %s is not supported", v.kind)
		}
		r.items(b, open, end, len(v.items), inLine, "", func(i int, _ string) { r.repr(b, v.items[i]) })
	default:
		fail("printing this %s is not supported", typeName(v))
	}
}

func floatText(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, e, _ := strings.Cut(s, "e")
	if exponent, _ := strconv.Atoi(e); exponent < -4 || exponent >= 16 {
		return mantissa + "e" + e
	}
	if s = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (r *run) reprText(b *strings.Builder, s string) {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	r.put(b, quote)
	for _, c := range s {
		switch i := strings.IndexRune("\n\r\t\\", c); {
		case i >= 0:
			r.put(b, []string{`\n`, `\r`, `\t`, `\\`}[i])
		case string(c) == quote:
			r.put(b, `\`+quote)
		case unicode.IsPrint(c):
			r.put(b, string(c))
		case c < 0x100:
			r.put(b, fmt.Sprintf(`\x%02x`, c))
		case c < 0x10000:
			r.put(b, fmt.Sprintf(`\u%04x`, c))
		default:
			r.put(b, fmt.Sprintf(`\U%08x`, c))
		}
	}
	r.put(b, quote)
}

// jsonStyle is how json.dumps writes: lines is false for a text of one line.
type jsonStyle struct {
	ascii, lines, sorted bool
	indent, comma, colon string
}

// inLine is how values print.
var inLine = jsonStyle{comma: ", ", colon: ": "}

// tojson is json.dumps, as transformers' own filter calls it.
func tojson(r *run, v any, a []any) any {
	j := inLine
	j.ascii, j.lines, j.sorted = truth(a[0]), a[1] != nil, truth(a[3])
	if j.lines {
		j.comma = ","
		if j.indent, _ = a[1].(string); typeName(a[1]) != "str" {
			j.indent = r.operate("*", " ", a[1]).(string)
		}
	}
	if a[2] != nil {
		pair := r.iterate(a[2])
		must(len(pair) == 2, "tojson: separators are two texts")
		j.comma, j.colon = text(pair[0]), text(pair[1])
	}
	var b strings.Builder
	r.json(&b, v, j, "\n")
	return b.String()
}

// json writes a value; line begins a line at its level.
func (r *run) json(b *strings.Builder, v any, j jsonStyle, line string) {
	r.enter()
	defer r.leave()
	switch v := v.(type) {
	case nil:
		r.put(b, "null")
	case bool:
		r.put(b, strconv.FormatBool(v))
	case int:
		r.put(b, strconv.Itoa(v))
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			fail("%v has no JSON", v)
		}
		r.put(b, floatText(v))
	case string:
		r.jsonText(b, v, j.ascii)
	case *dict:
		keys := slices.Clone(v.keys)
		if j.sorted {
			slices.SortStableFunc(keys, r.compare)
		}
		r.items(b, "{", "}", len(keys), j, line, func(i int, line string) {
			key := keys[i]
			if _, isText := key.(string); !isText {
				var k strings.Builder
				r.json(&k, key, j, line)
				key = k.String()
			}
			r.jsonText(b, key.(string), j.ascii)
			r.put(b, j.colon)
			value, _ := v.get(keys[i])
			r.json(b, value, j, line)
		})
	case *sequence:
		must(isPlain(v), "%s has no JSON", v.kind)
		r.items(b, "[", "]", len(v.items), j, line, func(i int, line string) {
			r.json(b, v.items[i], j, line)
		})
	default:
		fail("%s has no JSON", typeName(v))
	}
}

// items writes n items between two brackets.
func (r *run) items(
	b *strings.Builder, open, end string, n int, j jsonStyle, line string, item func(i int, line string),
) {
	r.put(b, open)
	inner := line
	if j.lines {
		r.spend(1, len(line)+len(j.indent))
		inner += j.indent
	}
	for i := range n {
		if i > 0 {
			r.put(b, j.comma)
		}
		if j.lines {
			r.put(b, inner)
		}
		item(i, inner)
	}
	if j.lines && n > 0 {
		r.put(b, line)
	}
	r.put(b, end)
}

func (r *run) jsonText(b *strings.Builder, s string, ascii bool) {
	r.put(b, `"`)
	for _, c := range s {
		switch i := strings.IndexRune("\"\\\n\r\t\f\b", c); {
		case i >= 0:
			r.put(b, `\`+`"\nrtfb`[i:i+1])
		case c > 0xffff && ascii:
			high, low := utf16.EncodeRune(c)
			r.put(b, fmt.Sprintf(`\u%04x\u%04x`, high, low))
		case c < 0x20 || ascii && c > 0x7e:
			r.put(b, fmt.Sprintf(`\u%04x`, c))
		default:
			r.put(b, string(c))
		}
	}
	r.put(b, `"`)
}
