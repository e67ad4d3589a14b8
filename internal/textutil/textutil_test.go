package textutil

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"grpo/internal/untrusted"
)

// odd draws strings of bytes and of runes, with the critical ones among them.
func odd() *rapid.Generator[string] {
	special := rapid.SampledFrom([]string{"\x1b[31m", "\x1b]0;title\a", "\n", "\r", "\t", "\b", "\x00", "\x7f", "\u0085", "\u009b2J",
		"\u202e", "\u2066", "\u2069", "\u2028", "\u2029", "\u200b", "\ufeff", "\u00a0", "\xff", "\xc3", "\xed\xa0\x80", "'", `\`, `"`, "$(id)", "é", "数", "🙂", "�", "~", "=", " ", ""})
	piece := rapid.OneOf(special, rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
	return rapid.Map(rapid.SliceOfN(piece, 0, 8), func(s []string) string { return strings.Join(s, "") })
}

func oneLine(t *rapid.T, s string) {
	if strings.Contains(s, "\n") {
		t.Fatalf("%q has several lines", s)
	}
}

func TestPrintableProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := odd().Draw(r, "text")
		p := Printable(s, 0)
		untrusted.CheckText(t, p)
		oneLine(r, p)
		if Printable(p, 0) != p {
			r.Fatalf("%q changes again", p)
		}
		limit := rapid.IntRange(1, 30).Draw(r, "limit")
		cut := Printable(s, limit)
		untrusted.CheckText(t, cut)
		if n := utf8.RuneCountInString(cut); n > limit || n < limit && cut != p {
			r.Fatalf("%q has %d characters of %q, limit %d", cut, n, p, limit)
		}
		if text := Text(s); strings.Count(text, "\n") != strings.Count(s, "\n") {
			r.Fatalf("%q has other lines than %q", text, s)
		} else {
			untrusted.CheckText(t, text)
		}
	})
}

func TestScreen(t *testing.T) {
	if got, want := Screen("def f():\n\treturn 1\r\n\n\x1b[2J\xff\n"), "def f():\n\treturn 1\\r\n\n\\x1b[2J\\xff\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrintable(t *testing.T) {
	for _, tt := range []struct {
		s     string
		limit int
		want  string
	}{
		{"plain text, é 数 🙂 \\n", 0, "plain text, é 数 🙂 \\n"},
		{"a\nb\tc\rd", 0, `a\nb\tc\rd`},
		{"\x1b[2J\x7f\u009b", 0, `\x1b[2J\x7f\u009b`},
		{"\u202etxt\u2069\u2028", 0, `\u202etxt\u2069\u2028`},
		{"\xff\xc3(", 0, `\xff\xc3(`},
		{"�", 0, "�"},
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefghi", 8, "abcde..."},
		{"\n\n\n\n\n", 8, `\n\n\...`},
		{strings.Repeat("é", 1<<20), 5, "éé..."},
	} {
		if got := Printable(tt.s, tt.limit); got != tt.want {
			t.Errorf("%.40q, limit %d: got %q, want %q", tt.s, tt.limit, got, tt.want)
		}
	}
}

type level string

func TestFprintf(t *testing.T) {
	for _, tt := range []struct {
		format string
		args   []any
		want   string
	}{
		{"a %s\n%d %.1f\n", []any{"x\ny", 3, 1.25}, "a x\\ny\n3 1.2\n"},
		{"%v", []any{&fs.PathError{Op: "open", Path: "a\x1bb", Err: fs.ErrNotExist}}, `open a\x1bb: file does not exist`},
		{"%v", []any{errors.New("a\nto continue: rm")}, `a\nto continue: rm`},
		{"%s|%q", []any{level("a\tb"), "c\n"}, `a\tb|"c\\n"`},
		{"%s", []any{1500 * time.Millisecond}, "1.5s"},
		{"grpo: %s\n", []any{Lines("two\nlines\x1b\n   and more\n")}, "grpo: two\n  lines\\x1b\n   and more\n"},
	} {
		var b strings.Builder
		if _, err := Fprintf(&b, tt.format, tt.args...); err != nil || b.String() != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.format, b.String(), err, tt.want)
		}
	}
}

// Only the first of Lines starts at the margin.
func TestLinesProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := odd().Draw(r, "text")
		for i, line := range strings.Split(Lines(s).printable(), "\n") {
			if i > 0 && line != "" && !strings.HasPrefix(line, "  ") {
				r.Fatalf("%q starts at the margin", line)
			}
		}
		untrusted.CheckText(t, Lines(s).printable())
	})
}

// The three quoted forms read back to the original bytes (scripts of the command line test real
// shells).
func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"grpo", "sweep", "lr", "--values", "1e-3,3e-3", "--out", "runs/lr=0.1"}, "grpo sweep lr --values 1e-3,3e-3 --out runs/lr=0.1"},
		{nil, ""},
		{[]string{"./grpo", "ablate", "a.yaml", "--out", "/tmp/x_y+"}, "./grpo ablate a.yaml --out /tmp/x_y+"},
		{[]string{"grpo", "--set", "functions=[answer]", ""}, "grpo --set 'functions=[answer]' ''"},
		{[]string{"a=b", "a=b", "=x", "~", "", "it's"}, `'a=b' a=b '=x' '~' '' 'it'\''s'`},
		{[]string{"x; rm -rf ~", "a^b", "été"}, "'x; rm -rf ~' 'a^b' 'été'"},
		{[]string{"new\nline", "\x1b[1m'\\7", "\xff"}, `$'new\012line' $'\033[1m\047\1347' $'\377'`},
	} {
		if got := CommandLine(tt.argv); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.argv, got, tt.want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		s := odd().Draw(r, "argument")
		line := CommandLine([]string{"p", s})
		untrusted.CheckText(t, line)
		oneLine(r, line)
		if got := unquote(r, strings.TrimPrefix(line, "p ")); got != s {
			r.Fatalf("%q as %s is %q", s, line, got)
		}
	})
}

// unquote reads one word as a shell does.
func unquote(t *rapid.T, word string) string {
	var out []byte
	for word != "" {
		switch {
		case strings.HasPrefix(word, "$'"):
			for word = word[2:]; word[0] != '\''; {
				if word[0] == '\\' {
					out = append(out, (word[1]-'0')<<6|(word[2]-'0')<<3|(word[3]-'0'))
					word = word[4:]
				} else {
					out, word = append(out, word[0]), word[1:]
				}
			}
			word = word[1:]
		case word[0] == '\'':
			in, rest, _ := strings.Cut(word[1:], "'")
			out, word = append(out, in...), rest
		case word[0] == '\\':
			out, word = append(out, word[1]), word[2:]
		case strings.ContainsAny(word[:1], " \t\n\"$`&|;<>()*?[]#~{}!^"):
			t.Fatalf("%q is not quoted", word)
		default:
			out, word = append(out, word[0]), word[1:]
		}
	}
	return string(out)
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs"} {
		if got := Count(n, "run"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestAlign(t *testing.T) {
	rows := [][]string{{"é", "b", "", "d"}, {"aaa", "bb", "c", ""}, {"x"}}
	for columns, want := range map[string]string{
		"l":  "é    b      d\naaa  bb  c\nx",
		"lr": "é     b     d\naaa  bb  c\nx",
		"r":  "  é   b     d\naaa  bb  c\n  x",
	} {
		if got := strings.Join(Align(columns, rows), "\n"); got != want {
			t.Errorf("%s:\n%q, want\n%q", columns, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a": `"a"`, "\x1b[31m": `"\x1b[31m"`, strings.Repeat("ä", 60): `"` + strings.Repeat("ä", 60) + `"`, strings.Repeat("ä", 61): `"` + strings.Repeat("ä", 57) + `..."`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		1e-5: "1e-5", 3e-5: "3e-5", 1e-4: "0.0001", 0.001: "0.001", 1e-10: "1e-10", 1e6: "1e6", 1.5e21: "1.5e21", 0: "0", -2e-7: "-2e-7", 1e300: "1e300",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if Number(math.NaN()) != "NaN" || Number(math.Inf(1)) != "+Inf" {
		t.Error(Number(math.NaN()), Number(math.Inf(1)))
	}
}

func TestAlike(t *testing.T) {
	for _, tt := range []struct{ values, want []string }{
		{[]string{"1e-5", "3e-5", "0.0001"}, []string{"1e-5", "3e-5", "1e-4"}},
		{[]string{"1e-05", "0.00025", "1", "0", "20"}, []string{"1e-5", "2.5e-4", "1", "0", "2e1"}},
		{[]string{"1000", "2000000"}, []string{"1000", "2000000"}},
		{[]string{"0.00001", "0.01"}, []string{"1e-5", "1e-2"}},
		{[]string{"0.0001", "0.001"}, []string{"0.0001", "0.001"}},
		{[]string{"1e-5", "linear", "[1e-5]", "inf"}, []string{"1e-5", "linear", "[1e-5]", "inf"}},
		{nil, nil},
	} {
		if got := Alike(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNumberReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if got, err := strconv.ParseFloat(Number(v), 64); err != nil || got != v {
			t.Errorf("%v: %s reads back as %v, %v", v, Number(v), got, err)
		}
	})
}
