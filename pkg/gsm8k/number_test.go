package gsm8k

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSameNumber(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"equal", "72", "72", true},
		{"different", "72", "73", false},
		{"thousands commas", "1,234,567", "1234567", true},
		{"leading plus", "+72", "72", true},
		{"decimal zeros and full stop", "72.00.", "72", true},
		{"leading zeros", "0072", "72", true},
		{"dollar", "$72", "72", true},
		{"minus before dollar", "-$72", "$-72", true},
		{"spaces", "  72 ", "72", true},
		{"negative", "-3", "-3.0", true},
		{"sign matters", "-3", "3", false},
		{"negative zero", "-0.0", "0", true},
		{"no digit before the point", ".50", "0.5", true},
		{"no float rounding", "9007199254740993", "9007199254740992", false},
		{"no float rounding of decimals", "0.10000000000000000001", "0.1", false},
		{"zeros inside are kept", "10203.0405", "123.45", false},
		{"exponent is not a number", "1e3", "1000", false},
		{"huge exponent", "1e999999999", "1e999999999", false},
		{"fraction is not a number", "1/2", "0.5", false},
		{"bad grouping", "12,34", "1234", false},
		{"comma at the end", "12,", "12", false},
		{"comma at the start", ",123", "123", false},
		{"comma after the point", "1.234,567", "1.234567", false},
		{"two signs", "+-3", "-3", false},
		{"empty", "", "", false},
		{"point alone", ".", ".", false},
		{"inner space", "1 2", "12", false},
		{"other digits", "\u0661", "1", false},
		{"infinity", "Inf", "Inf", false},
		{"hexadecimal", "0x10", "16", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := SameNumber(c.a, c.b); got != c.want {
				t.Errorf("SameNumber(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
			}
			if got := SameNumber(c.b, c.a); got != c.want {
				t.Errorf("SameNumber(%q, %q) = %v, want %v", c.b, c.a, got, c.want)
			}
		})
	}
}

// Exact rational arithmetic is the oracle: two decimals are the same number iff
// their difference is zero.
func TestSameNumberAgreesWithRationals(t *testing.T) {
	decimal := rapid.StringMatching(`[+-]?[0-9]{1,6}(\.[0-9]{1,4})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := decimal.Draw(t, "a"), decimal.Draw(t, "b")
		if rapid.Bool().Draw(t, "respell") {
			b = respell(t, a)
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if want := x.Cmp(y) == 0; SameNumber(a, b) != want {
			t.Fatalf("SameNumber(%q, %q) = %v, want %v", a, b, !want, want)
		}
	})
}

// respell writes the same number with more zeros.
func respell(t *rapid.T, s string) string {
	digits := strings.TrimLeft(s, "+-")
	out := strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros before")) + digits
	if !strings.Contains(out, ".") {
		out += "."
		out += "0"
	}
	out += strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros after"))
	if s[0] == '-' {
		out = "-" + out
	}
	return out
}

func TestSameNumberIsLinear(t *testing.T) {
	long := strings.Repeat("9", 4<<20)
	if !SameNumber(long, "+"+long+".0") || SameNumber(long, long[1:]+"8") {
		t.Error("a number of four million digits is not compared exactly")
	}
}
