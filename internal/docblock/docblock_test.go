package docblock

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	const doc = "# A\n<!-- x:begin -->\nold\n<!-- x:end -->\nend\n"
	for _, c := range []struct{ name, doc, block, want string }{
		{"between the markers", doc, "x", "# A\n<!-- x:begin -->\nnew\n<!-- x:end -->\nend\n"},
		{"no text yet", "<!-- x:begin -->\n<!-- x:end -->\n", "x", "<!-- x:begin -->\nnew\n<!-- x:end -->\n"},
		{"other marks", doc, "y", ""},
		{"markers in the wrong order", "<!-- x:end -->\n<!-- x:begin -->\n", "x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.md")
			if err := os.WriteFile(path, []byte(c.doc), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Replace(path, c.block, "new\n")
			got, rerr := os.ReadFile(path)
			if rerr != nil {
				t.Fatal(rerr)
			}
			want := c.want
			if want == "" {
				want = c.doc
			}
			if (err == nil) != (c.want != "") || string(got) != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		})
	}
	if err := Replace(filepath.Join(t.TempDir(), "none.md"), "x", ""); err == nil {
		t.Error("no file, no error")
	}
}
