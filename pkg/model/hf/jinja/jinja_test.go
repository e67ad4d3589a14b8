package jinja

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// readCases are templates with the text that jinja2 gives, nil where it has an error. See testdata/cases.py.
func readCases(t testing.TB) (variables string, all [][2]*string) {
	t.Helper()
	f, err := os.Open("testdata/cases.json.gz")
	expect.OK(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	expect.OK(t, err)
	expect.OK(t, json.NewDecoder(z).Decode(&all))
	return *all[0][0], all[1:]
}

func render(source string) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(nil)
}

var uses = regexp.MustCompile("messages|rows|tool|nested|_token|documents")

// styles is how many of the last cases are templates in the styles of published ones.
const styles = 13

// No template prints another text than in jinja2. Some are refused, but none of the styles of published ones.
func TestEqualsJinja2(t *testing.T) {
	variables, all := readCases(t)
	equal, refused := 0, 0
	for i, c := range all {
		source := *c[0]
		if uses.MatchString(source) {
			source = variables + source
		}
		got, err := render(source)
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: the error has several lines: %v", *c[0], err)
		case err == nil && c[1] == nil:
			t.Errorf("%q is an error in jinja2; got %q", *c[0], got)
		case err == nil && got != *c[1]:
			t.Errorf("%q\n got %q\nwant %q", *c[0], got, *c[1])
		case err == nil:
			equal++
		case c[1] != nil:
			if refused++; i >= len(all)-styles {
				t.Errorf("%q: %v", *c[0], err)
			}
		}
	}
	t.Logf("%d of %d equal, %d refused that jinja2 renders, the others are errors in both", equal, len(all), refused)
	if equal < 12_500 {
		t.Errorf("only %d of %d are equal", equal, len(all))
	}
}
