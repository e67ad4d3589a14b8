package gsm8k

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestParseFinalAnswer(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		ok             bool
	}{
		{"generated form", "7+5=<<7+5=12>>12\n#### 12", "12", true},
		{"commas", "#### 1,234", "1234", true},
		{"full stop", "#### 72.", "72", true},
		{"minus", "#### -7", "-7", true},
		{"dollar", "#### $1,000", "1000", true},
		{"decimals as written", "#### 72.0", "72.0", true},
		{"no space", "####12", "12", true},
		{"many spaces and carriage return", "####   12 \t\r\nbye", "12", true},
		{"marker inside a line", "so the answer is #### 12", "12", true},
		{"last of two", "#### 12\n#### 13", "13", true},
		{"text on later lines", "#### 12\nThat is all.", "12", true},
		{"no marker", "The answer is 12.", "", false},
		{"empty", "", "", false},
		{"marker alone", "12 ####", "", false},
		{"marker then new line", "####\n12", "", false},
		{"alternatives", "#### 12 or 13", "", false},
		{"unit", "#### 12 pens", "", false},
		{"word", "#### twelve", "", false},
		{"last malformed though first is fine", "#### 12\n#### many", "", false},
		{"three signs", "### 12", "", false},
		{"eight signs", "######## 12", "", false},
		{"annotation", "#### <<7+5=12>>12", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ParseFinalAnswer(c.in)
			if got != c.want || ok != c.ok {
				t.Errorf("ParseFinalAnswer(%q) = %q, %v; want %q, %v", c.in, got, ok, c.want, c.ok)
			}
		})
	}
}

func TestGrade(t *testing.T) {
	for _, c := range []struct {
		name, completion string
		ended            bool
		gold             string
		want             string // of the verdict
	}{
		{"right", "7+5=12\n#### 12", true, "12", "right"},
		{"right in another spelling", "#### 1,200.0", true, "1200", "right"},
		{"wrong", "#### 13", true, "12", "wrong"},
		{"right number without marker", "The answer is 12.", true, "12", "unformatted"},
		{"right but cut at the limit", "7+5=12\n#### 12", false, "12", "unformatted"},
		{"wrong and cut", "#### 13", false, "12", "unformatted"},
		{"alternatives", "#### 12 or 13", true, "12", "unformatted"},
		{"revised away from the gold", "#### 12\n#### 13", true, "12", "wrong"},
		{"gold that is not a number", "#### 12", true, "", "wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Answers{}.Grade(c.completion, c.ended, Problem{Gold: c.gold})
			if v.Right != (c.want == "right") || v.Formatted != (c.want != "unformatted") {
				t.Errorf("Right %v, Formatted %v; want %s", v.Right, v.Formatted, c.want)
			}
		})
	}
}

var annotationModes = []AnnotationMode{KeepAnnotations, StripAnnotations, EquationAnnotations}

func TestAnnotations(t *testing.T) {
	const natalia = "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\n" +
		"Natalia sold 48+24 = <<48+24=72>>72 clips altogether.\n#### 72"
	for _, c := range []struct {
		name string
		mode AnnotationMode
		in   string
		want string
	}{
		{"keep", KeepAnnotations, natalia, natalia},
		{"zero mode keeps", "", natalia, natalia},
		{"strip", StripAnnotations, natalia, "Natalia sold 48/2 = 24 clips in May.\nNatalia sold 48+24 = 72 clips altogether.\n#### 72"},
		{"equation", EquationAnnotations, natalia, "48/2=24\n48+24=72\n#### 72"},
		{"strip without any", StripAnnotations, "12 clips\n#### 12", "12 clips\n#### 12"},
		{"equation without any", EquationAnnotations, "12 clips\n#### 1,200", "#### 1,200"},
		{"strip unclosed", StripAnnotations, "a << b\n#### 1", "a << b\n#### 1"},
		{"equation unclosed", EquationAnnotations, "<<1=1>>1 << b\n#### 1", "1=1\n#### 1"},
		{"equation empty", EquationAnnotations, "<<>>1\n#### 1", "#### 1"},
		{"strip closing alone", StripAnnotations, "a >> b <<1=1>>1\n#### 1", "a >> b 1\n#### 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.mode.Apply(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnknownAnnotationMode(t *testing.T) {
	opt := ReadOptions{Annotations: "stripped"}
	const line = `{"question":"q","answer":"#### 1"}`
	_, _, err := ReadJSONL(strings.NewReader(line), "x.jsonl", opt)
	expect.Error(t, err, `did you mean "strip"?`)
	if _, _, err := ReadSVAMP(strings.NewReader("[]"), "x.json", opt); err == nil || !strings.Contains(err.Error(), "annotation mode") {
		t.Errorf("ReadSVAMP: %v", err)
	}
}

func TestSameNumber(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"thousands commas", "1,234,567", "1234567", true},
		{"decimal zeros and full stop", "72.00.", "72", true},
		{"dollar", "$72", "72", true},
		{"minus before dollar", "-$72", "$-72", true},
		{"spaces", "  72 ", "72", true},
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
	long := strings.Repeat("9", 1<<19)
	if !SameNumber(long, "+"+long+".0") || SameNumber(long, long[1:]+"8") {
		t.Error("a number of half a million digits is not compared exactly")
	}
}
