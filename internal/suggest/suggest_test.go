package suggest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"grup", "group", 1}, {"kitten", "sitting", 3},
		{"ab", "ba", 1}, {"abcd", "acbd", 1}, {"ca", "abc", 3}, {"größe", "große", 1},
	}
	for _, test := range tests {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// A change of one letter is at distance 1, in both directions, and no distance exceeds the longer
// string's length.
func TestDistanceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringN(0, 12, -1).Draw(t, "a"), rapid.StringN(0, 12, -1).Draw(t, "b")
		d := Distance(a, b)
		if d != Distance(b, a) || (d == 0) != (string([]rune(a)) == string([]rune(b))) || d > max(len([]rune(a)), len([]rune(b))) {
			t.Fatalf("Distance(%q, %q) = %d, back %d", a, b, d, Distance(b, a))
		}
		if got := Distance(a, a+"x"); got != 1 {
			t.Fatalf("Distance(%q, %q) = %d", a, a+"x", got)
		}
	})
}

func TestDidYouMean(t *testing.T) {
	known := []string{"baseline", "clip", "lr"}
	for _, tt := range []struct{ word, want string }{
		{"baselin", "baseline"}, {"BASELINE", "baseline"}, {"clpi", "clip"}, {"rl", "lr"}, {"lengthnorm", ""}, {"", ""}, {strings.Repeat("baseline", 20), ""},
	} {
		got := DidYouMean(tt.word, known)
		if want := ` (did you mean "` + tt.want + `"?)`; tt.want == "" && got != "" || tt.want != "" && got != want {
			t.Errorf("%q: %q, want %q", tt.word, got, tt.want)
		}
	}
}
