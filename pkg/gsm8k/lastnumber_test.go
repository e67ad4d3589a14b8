package gsm8k

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLastNumber(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		ok             bool
	}{
		{"sentence", "That makes 48/2+48 = 72 clips altogether.", "72", true},
		{"full stop", "It is 72.", "72", true},
		{"decimals", "about 3.50 dollars", "3.50", true},
		{"no zero before the point", "x = .5", "0.5", true},
		{"thousands", "$1,234,567.25!", "1234567.25", true},
		{"list", "12, 34", "34", true},
		{"list without spaces", "1,2,3", "3", true},
		{"commas that do not group", "12,34", "34", true},
		{"a long group is a separate number", "1234,567", "567", true},
		{"a short group starts the number", "5,1,234", "1,234", true},
		{"comma at the start", ",123", "123", true},
		{"minus", "so -7", "-7", true},
		{"minus at the start", "-7", "-7", true},
		{"minus before the dollar", "-$7", "-7", true},
		{"minus after the dollar", "$-7", "-7", true},
		{"difference", "10-7", "7", true},
		{"difference with brackets", "(1+2)-7", "7", true},
		{"difference of a word", "x-7", "7", true},
		{"spaced minus", "10 - 7", "7", true},
		{"double minus", "--7", "-7", true},
		{"plus", "+7", "7", true},
		{"fraction", "1/2", "2", true},
		{"exponent", "1e3", "3", true},
		{"version", "1.2.3", "2.3", true},
		{"percent", "50%", "50", true},
		{"marker", "#### 12", "12", true},
		{"box", `\boxed{72}`, "72", true},
		{"leading zeros as written", "007", "007", true},
		{"none", "no number here.", "", false},
		{"empty", "", "", false},
		{"other digits", "\u0661", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := LastNumber(c.in)
			if want := strings.ReplaceAll(c.want, ",", ""); got != want || ok != c.ok {
				t.Errorf("LastNumber(%q) = %q, %v; want %q, %v", c.in, got, ok, want, c.ok)
			}
		})
	}
}

func TestLastNumberReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		before := rapid.StringMatching(`([a-z 0-9.,$-]* )?`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z .!)-]*`).Draw(t, "after")
		text := strconv.FormatInt(n, 10)
		if rapid.Bool().Draw(t, "grouped") {
			text = group(text)
		}
		if got, ok := LastNumber(before + text + after); !ok || !SameNumber(got, text) {
			t.Fatalf("LastNumber(%q) = %q, %v", before+text+after, got, ok)
		}
	})
}

// group puts thousands commas into an integer.
func group(s string) string {
	digits := strings.TrimPrefix(s, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return s[:len(s)-len(strings.TrimPrefix(s, "-"))] + digits
}
