package yamldoc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/untrusted"
)

var note = File{What: "one file is one note", Folder: "this is a folder, not a note", Max: 2048, Larger: "not a note", Empty: "it says nothing"}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		want       string
	}{
		{"empty", "", 0, "the file is empty: it says nothing"},
		{"comments only", "# a\n", 0, "the file is empty"},
		{"null", "null\n", 0, "the file is empty"},
		{"no keys", "{}\n", 0, "the file is empty"},
		{"second document", "a: 1\n---\nb: 2\n", 3, "one file is one note (remove the --- before it)"},
		{"second and empty", "a: 1\n---\n", 2, "a second YAML document"},
		{"tab", "a:\n\tb: 1\n", 2, "a tab in the indentation"},
		{"control character", "a: 1\nb: \x1b[31m\n", 2, "not a text file: it holds the character U+001B"},
		{"not UTF-8", "a: 1\n\nb: \xff\n", 3, "it is not in UTF-8"},
		{"bracket left open", "a: [1\n", 1, "not valid YAML: did not find expected ',' or ']'"},
		{"unknown alias", "a: 1\nb: *x\n", 2, "not valid YAML: unknown anchor 'x' referenced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, p := note.Parse([]byte(tt.text))
			if n != nil || p == nil || p.Line != tt.line || !strings.Contains(p.Text, tt.want) {
				t.Errorf("node %v, problem %+v, want line %d: %s", n, p, tt.line, tt.want)
			}
		})
	}
	n, p := note.Parse([]byte("a: [1, 2]\nb: text\nc:\n"))
	if p != nil || Kind(n) != "a section with keys" || Kind(n.Content[1]) != "a list" || Kind(n.Content[3]) != "the value text" || Kind(n.Content[5]) != "nothing" {
		t.Errorf("%+v, %+v", n, p)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Repeat("x", n)), 0o644); err != nil {
			t.Fatal(err)
		}
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

// FuzzParse: a node or a problem, never both, and the line of a problem is one
// that the text has.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1\n", "a: [1\n", "---\n---\n", "\t", "a: *x", "? ", "%YAML 3\n", "a: &a [*a]", "\xff", "- - - -", "!!binary a", "{a: {b: {c: "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		untrusted.Reader.Check(t, len(text), func() {
			n, p := note.Parse(text)
			switch {
			case (n == nil) == (p == nil):
				t.Fatalf("node %v and problem %v", n, p)
			case p != nil && (p.Text == "" || p.Line < 0 || p.Line > 1+strings.Count(string(text), "\n")):
				t.Fatalf("%+v", p)
			case p != nil:
				untrusted.CheckText(t, p.Text)
			}
		})
	})
}
