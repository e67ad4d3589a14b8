package gsm8k

import (
	"regexp"
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
		{"decimals", "about 3.50 dollars", "3.50", true},
		{"no zero before the point", "x = .5", "0.5", true},
		{"thousands", "$1,234,567.25!", "1234567.25", true},
		{"list", "12, 34", "34", true},
		{"list without spaces", "1,2,3", "", false},
		{"commas that do not group", "12,34", "", false},
		{"a group before the comma is too long", "1234,567", "", false},
		{"a short group before the number", "5,1,234", "", false},
		{"comma at the start", ",123", "123", true},
		{"minus", "so -7", "-7", true},
		{"minus after the dollar", "$-7", "-7", true},
		{"difference with brackets", "(1+2)-7", "", false},
		{"difference of a word", "x-7", "", false},
		{"double minus", "--7", "", false},
		{"exponent", "1e3", "1000", true},
		{"bold with a word", "**Answer:** 72", "72", true},
		{"Chinese", "答案是72元", "72", true},
		{"compound", "a 72-hour trip", "72", true},
		{"ordinal", "on the 20th day", "20", true},
		{"unit in another one", "5 hours and 30 minutes", "", false},
		{"cents after a currency sign", "he pays $5 and 30 cents", "", false},
		{"an absolute value", "|-7|", "", false},
		{"a logarithm", "log 5", "", false},
		{"a fraction after a word", "two and 1/2", "", false},
		{"underlined", `so \underline{18}`, "18", true},
		{"mathematics without a space", "the total is$18$.", "18", true},
		{"points", "He has 18 points.", "18", true},
		{"a decimal in words", "It is 18 point five.", "", false},
		{"a word that begins with a magnitude's letter", "18 T-shirts", "18", true},
		{"a name with an ampersand", "18 M&Ms", "18", true},
		{"a variable less another", "18 x-y", "", false},
		{"people of an ordinal", "18 third graders", "18", true},
		{"people of an ordinal, joined", "18 fifth-graders", "18", true},
		{"things of a fraction", "18 half-gallon jugs", "18", true},
		{"things of a fraction, a dozen", "18 half-dozen boxes", "", false},
		{"halves of a unit", "5 half-hours", "", false},
		{"halves of a unit of something", "5 half-hours of work", "", false},
		{"a half of a unit", "1 half-pound of meat", "", false},
		{"a half of a unit that is something", "1 half-pound was left", "", false},
		{"parts of a unit", "3 tenth-miles", "", false},
		{"parts of a unit, apart", "3 half liters", "", false},
		{"things of an amount", "18 hundred-dollar bills", "18", true},
		{"a joined amount", "18 hundred-thousand dollars", "1800000", true},
		{"a fraction of an amount", "18 half-million", "", false},
		{"a fraction of a dozen", "18 half-dozen eggs", "", false},
		{"a part of a thing", "1 third of it", "", false},
		{"a number after a word", "two 5", "5", true},
		{"two amounts", "5 pens and 30 cups", "30", true},
		{"hedge", "12 or 13", "13", true},
		{"long line", strings.Repeat("a ", 4000) + "72" + strings.Repeat(" a", 4000), "72", true},
		{"long number", "1" + strings.Repeat("0", 200), "1" + strings.Repeat("0", 200), true},
		{"number beyond the limit", "1" + strings.Repeat("0", 4000), "", false},
		{"leading zeros as written", "007", "007", true},
		{"none", "no number here.", "", false},
		{"empty", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := LastNumber(c.in)
			if want := strings.ReplaceAll(c.want, ",", ""); got != want || ok != c.ok {
				t.Errorf("LastNumber(%q) = %q, %v; want %q, %v", c.in, got, ok, want, c.ok)
			}
		})
	}
}

// spellings write a positive integer that is no multiple of ten; "" if the form does not exist for it.
// read is false for a spelling that stands for another value, or for none: no part of it is a number.
var spellings = []struct {
	name  string
	spell func(n string) string
	read  bool
}{
	{"plain", func(n string) string { return n }, true},
	{"commas", group, true},
	{"LaTeX commas", grouping("{,}"), true},
	{"LaTeX thin spaces", grouping(`\,`), true},
	{"comma and negative space", grouping(`,\!`), true},
	{"no-break spaces", grouping("\u00a0"), true},
	{"narrow no-break spaces", grouping("\u202f"), true},
	{"thin spaces", grouping("\u2009"), true},
	{"apostrophes", grouping("\u2019"), true},
	{"underscores", grouping("_"), true},
	{"full-width digits", fullWidth, true},
	{"full-width commas", func(n string) string { return fullWidth(group(n)) }, true},
	{"dollar", prefix("$"), true},
	{"escaped dollar", prefix(`\$`), true},
	{"euro before", prefix("€ "), true},
	{"euro after", suffix(" €"), true},
	{"code before", prefix("USD "), true},
	{"rupees", prefix("Rs."), true},
	{"percent", suffix("%"), true},
	{"LaTeX percent", suffix(`\%`), true},
	{"degrees", suffix(`^{\circ}`), true},
	{"unit", suffix("km"), true},
	{"unit in text", suffix(`\text{ dollars}`), true},
	{"square unit", suffix(" cm^2"), true},
	{"square unit as a character", suffix(" m²"), true},
	{"box", func(n string) string { return `\boxed{` + n + "}" }, true},
	{"box with a unit", func(n string) string { return `$\boxed{\$` + n + `\text{ per day}}$` }, true},
	{"decimals", suffix(".00"), true},
	{"exponent", func(n string) string { return n[:1] + "." + n[1:] + "0e" + strconv.Itoa(len(n)-1) }, true},

	{"spaces", grouping(" "), false},
	{"points", func(n string) string { return "1." + group(n)[:1] + "." + n }, false},
	{"decimal comma", suffix(",5"), false},
	{"two points", suffix(".5.7"), false},
	{"tens of thousands", func(n string) string { return n + ",0000" }, false},
	{"fraction", suffix("/7"), false},
	{"fraction with spaces", suffix(" / 7"), false},
	{"division", func(n string) string { return "7/" + n + "1" }, false},
	{"fraction slash", suffix("\u20447"), false},
	{"LaTeX fraction", func(n string) string { return `\frac{1}{` + n + "1}" }, false},
	{"LaTeX fraction without braces", suffix(`\frac17`), false},
	{"unfinished fraction", func(n string) string { return `\frac{` + n + "}{x}" }, false},
	{"third", suffix("⅓"), false},
	{"mixed number", suffix(" 1/7"), false},
	{"mixed number in words", suffix(" and 1/7"), false},
	{"and a half", suffix(" and a half"), false},
	{"thirds", suffix(" thirds"), false},
	{"power", suffix("^3"), false},
	{"exponent in braces", prefix("10^{"), false},
	{"power of ten", prefix("1.5 \u00d7 10^"), false},
	{"superscript", suffix("\u00b3"), false},
	{"subscript", prefix("x_"), false},
	{"long exponent", suffix("e123"), false},
	{"product", prefix("3*"), false},
	{"product with spaces", prefix("3 * "), false},
	{"LaTeX product", prefix(`3 \times `), false},
	{"sum", prefix("7+"), false},
	{"sum with spaces", prefix("7 + "), false},
	{"difference", prefix("17-"), false},
	{"difference with a sign", prefix("17 \u2212"), false},
	{"minus and space", prefix("- "), false},
	{"em dash", prefix("\u2014"), false},
	{"plus or minus", prefix("±"), false},
	{"root", func(n string) string { return `\sqrt{` + n + "}" }, false},
	{"root sign", prefix("√"), false},
	{"root of brackets", func(n string) string { return "√(" + n + ")" }, false},
	{"minus brackets", func(n string) string { return "-(" + n + ")" }, false},
	{"sum with brackets", func(n string) string { return "7 + (" + n + ")" }, false},
	{"product with brackets", func(n string) string { return "3*(" + n + ")" }, false},
	{"LaTeX product with braces", func(n string) string { return `3 \times {` + n + "}" }, false},
	{"bold brackets", func(n string) string { return "**(" + n + ")**" }, true},
	{"function", func(n string) string { return "sqrt(" + n + ")" }, false},
	{"variable", suffix("x"), false},
	{"pi", suffix(`\pi`), false},
	{"identifier", prefix("B"), false},
	{"hexadecimal", prefix("0x"), false},
	{"time", prefix("7:"), false},
	{"recurring", suffix(".333..."), false},
	{"recurring in LaTeX", func(n string) string { return n + `.\overline{3}` }, false},
	{"dozen", suffix(" dozen"), false},
	{"K", suffix("K"), false},
	{"circled digit", suffix("①"), false},
	{"other digits", prefix("٣"), false},
	{"million and more", prefix("2 million "), false},
}

func prefix(p string) func(string) string { return func(n string) string { return p + n } }
func suffix(p string) func(string) string { return func(n string) string { return n + p } }

// grouping writes a separator between groups of three digits.
func grouping(separator string) func(string) string {
	return func(n string) string { return strings.ReplaceAll(group(n), ",", separator) }
}

func fullWidth(s string) string {
	return strings.Map(func(r rune) rune { return r - '!' + 0xff01 }, s)
}

// No reader takes a part of a spelling for the number: each reads the whole, or nothing.
func TestNoNumberIsReadInPart(t *testing.T) {
	forms := []string{"So he has %s.", "#### %s", `$\boxed{%s}$`, "x = %s\n", "**%s**", "</think> <answer>%s</answer>"}
	digits := regexp.MustCompile("[0-9]+")
	for _, s := range spellings {
		t.Run(s.name, func(t *testing.T) {
			for _, n := range []string{"5", "250", "1234567"} {
				spelled := s.spell(n)
				if spelled == n && s.name != "plain" {
					continue // too short for a separator
				}
				plain := strings.TrimRight(n, "0")
				for _, form := range forms {
					text := strings.Replace(form, "%s", spelled, 1)
					got, ok := LastNumber(text)
					if want := s.read; ok != want || ok && !SameNumber(got, n) {
						t.Errorf("LastNumber(%q) = %q, %v; want %q, %v", text, got, ok, n, want)
					}
					parts := digits.FindAllString(strings.ReplaceAll(spelled, ",", ""), -1)
					for _, part := range append(parts, n, plain, n[len(n)-1:]) {
						if SameNumber(part, n) && (s.read || s.name == "spaces") {
							continue // the assignment's graders remove spaces
						}
						in := RewardInput{Completion: text, Ended: true, Problem: Problem{Gold: part}}
						for _, name := range Verifiers() {
							if f, err := NewReward(name, RewardParams{}, ""); err != nil || f(in) != 0 {
								t.Errorf("%s rewards %s for %q (%v)", name, part, text, err)
							}
						}
					}
				}
			}
		})
	}
}

// A sign belongs to the number, however it is written.
func TestLastNumberSigns(t *testing.T) {
	for _, sign := range []string{"-", "\u2212", "\u2013", "\u2010", "\uff0d", "negative ", "minus "} {
		for _, form := range []string{"%s250", "he owes %s250 dollars", "(%s250)", "$%s250$", "%s$250", "%s€250", `\boxed{%s250}`, "x=%s250", "**%s250**",
			"%s250.0", "%s2.5e2", `%s1,234`, "%s1 1/2", `%s1\frac{1}{2}`, "%s½", "%s2 million"} {
			text := strings.Replace(form, "%s", sign, 1)
			if got, ok := LastNumber(text); !ok || got[0] != '-' {
				t.Errorf("LastNumber(%q) = %q, %v", text, got, ok)
			}
		}
	}
}

func TestLastNumberReadsFractionsAndScales(t *testing.T) {
	for text, want := range map[string]string{"1/2": "0.5", "\u00bd": "0.5", "2\u00bd hours": "2.5", `\frac{14}{4}`: "3.5", `\frac12`: "0.5",
		`7\frac{3}{4}`: "7.75", "7 3/4": "7.75", "2 and 3/4": "2.75", "-7 3/4": "-7.75", `$\dfrac{1}{8}$`: "0.125",
		"5 million": "5000000", "$1.5 billion": "1500000000", "5 hundred thousand": "500000", `5\text{ million}`: "5000000",
		"1e-3": "0.001", "2.5E3": "2500",
		`\frac{-1}{2}`: "-0.5", `x = \frac{-1}{2}`: "-0.5", `-\frac{-1}{2}`: "", `3\frac{-1}{2}`: "",
		// A calculation, a fraction without a decimal, and what is too long.
		"48/2": "", "1/3": "", "1/0": "", "1/" + strings.Repeat("2", 99): "", "1" + strings.Repeat(" million", 99): ""} {
		if got, ok := LastNumber(text); got != want || ok != (want != "") {
			t.Errorf("LastNumber(%q) = %q, %v; want %q", text, got, ok, want)
		}
	}
}

func TestLastNumberReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		// Words such as ln, times, dozen and lakh would make the number a part of a term.
		before := rapid.StringMatching(`([a-z 0-9.,$-]* (is|so|then|total) )?`).Draw(t, "before")
		after := rapid.StringMatching(`( (eggs|each|more)|[.!)-])?[.!)]*`).Draw(t, "after")
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
