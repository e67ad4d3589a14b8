package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/cmd"
	"grpo/internal/manpage"
)

var someDate = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// TestPack: both kinds of archive hold the same files, of one owner and time, and equal bytes in
// another time zone.
func TestPack(t *testing.T) {
	files := []file{{"grpo", 0o755, []byte("program")}, {"man/man1/grpo.1", 0o644, bytes.Repeat([]byte("x"), 1000)}}
	want := "v1/grpo -rwxr-xr-x program\nv1/man/man1/grpo.1 -rw-r--r-- " + strings.Repeat("x", 1000) + "\n"
	elsewhere := someDate.In(time.FixedZone("east", 3600))
	list := map[string]func([]byte) (string, error){"tar": listTar, "zip": listZip}
	for name, pack := range map[string]func(string, []file, time.Time) ([]byte, error){"tar": packTar, "zip": packZip} {
		a, err := pack("v1", files, someDate)
		if err != nil {
			t.Fatal(err)
		}
		b, err := pack("v1", files, elsewhere)
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: another time zone gives other bytes (%v)", name, err)
		}
		if got, err := list[name](a); err != nil || got != want {
			t.Errorf("%s holds %q (%v)", name, got, err)
		}
	}
}

func listTar(data []byte) (out string, err error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	if !z.ModTime.IsZero() || z.Name != "" {
		return "", fmt.Errorf("the compressed file has the name %q and the time %v", z.Name, z.ModTime)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return out, ended(err)
		}
		if !h.ModTime.Equal(someDate) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			return out, fmt.Errorf("%s is of %v and belongs to %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return out, err
		}
		out += fmt.Sprintln(h.Name, h.FileInfo().Mode(), string(text))
	}
}

func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func listZip(data []byte) (out string, err error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	for _, f := range z.File {
		if !f.Modified.Equal(someDate) {
			return out, fmt.Errorf("%s is of %v", f.Name, f.Modified)
		}
		r, err := f.Open()
		if err != nil {
			return out, err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return out, err
		}
		out += fmt.Sprintln(f.Name, f.Mode(), string(text))
	}
	return out, nil
}

// TestManPages: every command has a page with its description, an example, and every flag of its
// help; no line of it is lost as a request of roff.
func TestManPages(t *testing.T) {
	root := cmd.Root()
	pages := map[string]string{}
	roff := strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace
	for _, f := range manPages(root, origin{version: "v1", date: someDate}) {
		pages[f.name] = string(f.data)
	}
	for _, c := range manpage.Commands(root) {
		page := pages["man/man1/"+manpage.Name(c)+".1"]
		if c.Short == "" || !strings.Contains(page, ".SH NAME\n"+roff(manpage.Name(c))+` \- `+roff(c.Short)+"\n") {
			t.Errorf("%s: the page does not name it: %.200q", c.CommandPath(), page)
		}
		ofCobra := c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion"
		if !ofCobra && (c.Example == "" || !strings.Contains(page, ".SH EXAMPLES\n.nf\n"+roff(c.Example))) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") &&
				!slices.Contains([]string{".TH", ".SH", ".B", ".BR", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("%s: roff would take the line %q for a request", c.CommandPath(), line)
			}
		}
	}
	for name, want := range map[string]string{
		"grpo":             `.BR grpo\-task (1)`,
		"grpo-config-list": `\-\-json`,
		"grpo-bench-step":  `.BR grpo\-bench (1)` + "\n",
	} {
		if !strings.Contains(pages["man/man1/"+name+".1"], want) {
			t.Errorf("%s.1 has no %q", name, want)
		}
	}
}

func TestCompletions(t *testing.T) {
	files, err := completions(cmd.Root())
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if !bytes.Contains(f.data, []byte("__complete")) || !strings.Contains(f.name, "grpo") {
			t.Errorf("%s is no completion: %.100q", f.name, f.data)
		}
	}
}

// TestSourceFiles: an archive has the documentation, the figures that the README shows, the examples
// and the licenses of everything in the program.
func TestSourceFiles(t *testing.T) {
	t.Chdir("../..")
	files, err := sourceFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"README.md", "LICENSE", "docs/output.md", "docs/performance/scaling.png",
		"results/first-light/validation_reward.png", "examples/rewards/brevity.py"} {
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == want && len(f.data) > 0 }) {
			t.Errorf("%s is not among the files", want)
		}
	}
	others, err := licenses(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nThe Go standard library, go1", "\ngorgonia.org/gorgonia v0.9.18\n", "\ngithub.com/spf13/cobra v",
		"Copyright", "Apache License"} {
		if !strings.Contains(string(others.data), want) {
			t.Errorf("the licenses have no %q", want)
		}
	}
}

// TestRefused: wrong platforms, versions and dates are refused before anything is built.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ version, platform, epoch, want string }{
		{"v1", "plan9/386", "", `"plan9/386" is not one of linux/amd64`},
		{"v 1", "linux/amd64", "", `the version "v 1"`},
		{"../v1", "linux/amd64", "", `the version "../v1"`},
		{"v1", "linux/amd64", "yesterday", "SOURCE_DATE_EPOCH=yesterday: want seconds"},
		{"v1", "linux/amd64", "0", "from 1980"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", tt.epoch)
		err := release(context.Background(), t.TempDir(), tt.version, []string{tt.platform})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
