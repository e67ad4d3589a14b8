package gsm8k

import "testing"

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
			v := Grade(c.completion, c.ended, c.gold)
			if v.Right != (c.want == "right") || v.Formatted != (c.want != "unformatted") {
				t.Errorf("Right %v, Formatted %v; want %s", v.Right, v.Formatted, c.want)
			}
		})
	}
}
