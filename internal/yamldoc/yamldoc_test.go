package yamldoc

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
)

var note = Form{What: "one file is one note", Folder: "this is a folder, not a note", Max: 2048, Larger: "not a note", Empty: "it has no note",
	Example: "a: 1", MaxProblems: 3, MaxSections: 2,
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		want       string
	}{
		{"empty", "", 0, "the file is empty: it has no note"},
		{"comments only", "# a\n", 0, "the file is empty"},
		{"null", "null\n", 0, "the file is empty"},
		{"no keys", "{}\n", 0, "the file is empty"},
		{"second document", "a: 1\n---\nb: 2\n", 3, "one file is one note (remove the --- before it)"},
		{"second and empty", "a: 1\n---\n", 2, "a second YAML document"},
		{"tab", "a:\n\tb: 1\n", 2, "a tab in the indentation"},
		{"control character", "a: 1\nb: \x1b[31m\n", 2, "not a text file: it contains the character U+001B"},
		{"not UTF-8", "a: 1\n\nb: \xff\n", 3, "it is not in UTF-8"},
		{"bracket left open", "a: [1\n", 1, "not valid YAML: did not find expected ',' or ']'"},
		{"unknown alias", "a: 1\nb: *x\n", 2, "not valid YAML: unknown anchor 'x' referenced"},
	}
	for _, tt := range tests {
		n, p := note.parse([]byte(tt.text))
		if n != nil || p == nil || p.line != tt.line || !strings.Contains(p.text, tt.want) {
			t.Errorf("%s: node %v, problem %+v, want line %d: %s", tt.name, n, p, tt.line, tt.want)
		}
	}
	n, p := note.parse([]byte("a: [1, 2]\nb: text\nc:\n"))
	if p != nil || Kind(n) != "a section with keys" || Kind(n.Content[1]) != "a list" || Kind(n.Content[3]) != "the value text" || Kind(n.Content[5]) != "nothing" {
		t.Errorf("%+v, %+v", n, p)
	}
}

type page struct {
	Title  Line       `yaml:"title,omitempty"`
	Count  int        `yaml:"count"`
	Pair   [2]float64 `yaml:"pair"`
	Tags   []Line     `yaml:"tags"`
	Parts  []part     `yaml:"parts"`
	Rest   *yaml.Node `yaml:"rest"`
	Nested struct {
		Draft bool `yaml:"draft"`
	} `yaml:"nested"`
}

type part struct {
	Name string  `yaml:"name"`
	Size float64 `yaml:"size"`
}

func (p *part) SetDefaults() { p.Size = 7 }

// TestDecode: values in the file replace existing ones, and each key has its line.
func TestDecode(t *testing.T) {
	p := page{Count: 5, Pair: [2]float64{1, 2}}
	d := note.Decode("x.yaml", []byte(`title: >
  folded
  text
tags: [2024, b]
parts:
  - {name: one}
  - name: two
    size: 1e-3
rest: &a [1, [2]]
nested: {draft: true}
`), &p)
	want := page{Title: "folded text", Count: 5, Pair: [2]float64{1, 2}, Tags: []Line{"2024", "b"},
		Parts: []part{{"one", 7}, {"two", 1e-3}}, Rest: p.Rest}
	want.Nested.Draft = true
	if !reflect.DeepEqual(p, want) || len(d.Problems) > 0 || len(p.Rest.Content) != 2 {
		t.Errorf("got %+v, %v\nwant %+v", p, d.Problems, want)
	}
	for path, line := range map[string]int{"title": 1, "tags.1": 4, "parts": 5, "parts.1": 7, "parts.1.size": 8, "nested.draft": 10, "count": 0} {
		if d.Lines[path] != line {
			t.Errorf("%s is in line %d, want %d", path, d.Lines[path], line)
		}
	}
}

func TestDecodeProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", "cuont: 1\n", `x.yaml: line 1: unknown key "cuont" (did you mean "count"?)`},
		{"unknown and far", "zzz: 1\n", `unknown key "zzz" (the keys here are title, count, pair`},
		{"unknown in a section", "parts:\n  - nam: a\n", `line 2: unknown key "nam" (did you mean "name"?)`},
		{"duplicate", "count: 1\ncount: 2\n", `line 2: duplicate key "count": it is already in line 1`},
		{"other name", "count: 1\nnumber: 2\n", `line 2: duplicate key "number": it is already in line 1, as "count"`},
		{"tagged key", "!!str count: 1\n", `the key "count" has the tag !!str`},
		{"merge", "<<: {count: 1}\n", "merge keys (<<) are not supported"},
		{"alias", "count: &a 1\npair: *a\n", "line 2: pair is the alias *a"},
		{"tag", "count: !!int 1\n", "count has the tag !!int"},
		{"section", "nested: 1\n", "nested must be a section with keys, not the value 1"},
		{"empty section", "nested: {}\n", "nested must be a section with keys, not an empty section"},
		{"list of sections", "parts: {name: a}\n", "parts must be a list of sections, not a section"},
		{"too many", "parts: [{name: a}, {name: b}, {name: c}]\n", "parts has 3 sections, more than 2"},
		{"empty line", "title: \"\"\n", "title must not be empty"},
		{"empty in a list", "tags: [a, \"\"]\n", "tags element 2 must not be empty"},
		{"two lines", "title: \"a\\nb\"\n", "title must be one line of printable text"},
		{"list too long", "pair: [1, 2, 3]\n", "pair must be a list of 2 numbers, not of 3"},
		{"many", "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n", "x.yaml: further problems are not listed"},
	} {
		form := note
		form.OtherNames = map[string]string{"number": "count"}
		var p page
		d := form.Decode("x.yaml", []byte(tt.text), &p)
		if !strings.Contains(strings.Join(d.Problems, "\n"), tt.want) || len(d.Problems) > form.MaxProblems+1 {
			t.Errorf("%s: got %q, want %s", tt.name, d.Problems, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int) string {
		file := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(file, []byte(strings.Repeat("x", n)), 0o644))
		return file
	}
	if text, err := note.Read(write("full", note.Max)); err != nil || len(text) != note.Max {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := note.Read(write("larger", note.Max+1)); err == nil || err.Error() != "the file is larger than 2 KiB: not a note" {
		t.Errorf("error %v", err)
	}
	if _, err := note.Read(dir); err == nil || err.Error() != note.Folder {
		t.Errorf("error %v", err)
	}
}

func TestFormatFloat(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", -1: "-1", 0.1: "0.1", 1e-6: "1e-6", 1e-10: "1e-10", 1.5e-7: "1.5e-7", 1e20: "1e20", 1e21: "1e21", 3e-5: "3e-5",
		1234567: "1234567", 0.5e15: "500000000000000", 65536.5: "65536.5", math.MaxFloat64: "1.7976931348623157e308", 5e-324: "5e-324", math.Copysign(0, -1): "0",
	} {
		if got := FormatFloat(x); got != want {
			t.Errorf("%g: got %s, want %s", x, got, want)
		}
	}
}

// lineBreak is a line break in YAML.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// FuzzParse: a node or a problem, never both, and the line of a problem exists.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1\n", "a: [1\n", "---\n---\n", "\t", "a: *x", "? ", "%YAML 3\n", "a: &a [*a]", "\xff", "- - - -", "!!binary a", "{a: {b: {c: ", "\r0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		untrusted.Reader.Check(t, len(text), func() {
			n, p := note.parse(text)
			switch {
			case (n == nil) == (p == nil):
				t.Fatalf("node %v and problem %v", n, p)
			case p != nil && (p.text == "" || p.line < 0 || p.line > 1+len(lineBreak.FindAll(text, -1))):
				t.Fatalf("%+v", p)
			case p != nil:
				untrusted.CheckText(t, p.text)
			}
		})
	})
}
