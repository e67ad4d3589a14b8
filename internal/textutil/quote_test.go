package textutil

import (
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a": `"a"`, "\x1b[31m": `"\x1b[31m"`, strings.Repeat("ä", 60): `"` + strings.Repeat("ä", 60) + `"`, strings.Repeat("ä", 61): `"` + strings.Repeat("ä", 57) + `..."`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
