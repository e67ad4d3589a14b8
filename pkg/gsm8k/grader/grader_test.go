package grader

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// More cases of the assignment's grader are in the reference data: see pkg/gsm8k.
func TestEqual(t *testing.T) {
	for _, c := range []struct {
		name, answer, gold string
		want               bool
	}{
		{"integer", "72", "72", true},
		{"other integer", "71", "72", false},
		{"white space", " 72\n", "72", true},
		{"both empty", "", "", true},
		{"empty answer", " ", "0", false},
		{"empty gold", "0", "", false},
		{"leading zeros", "072", "72", true},
		{"decimal zeros", "72.00", "72", true},
		{"near an integer", "72.00000001", "72", true},
		{"not near enough", "72.000001", "72", false},
		{"negative zero", "-0.0", "0", true},
		{"underscores as in Python", "7_2", "72", true},
		{"digits of another script", "\uff17\uff12", "72", true},
		{"infinity is a word", "inf", "\\infty", true},
		{"huge exponent", "1e999999999", "1", false},

		{"thousands", "1,234", "1234", true},
		{"two commas", "1,234,567", "1234567", true},
		{"three commas, a quirk", "1,234,567,890", "1234567890", false},
		{"bad grouping", "12,34", "1234", false},
		{"LaTeX comma", "1{,}234", "1234", true},
		{"thin space after comma", `1,\!234`, "1234", true},

		{"unreduced fraction of a fraction", "2/4", "1/2", false},
		{"half without zero", ".5", `\frac{1}{2}`, true},
		{"mixed number", `1\frac{1}{2}`, "1.5", true},
		{"mixed number in plain", "2 3/4", "2.75", true},
		{"negative mixed number, a quirk", `-1\frac{1}{2}`, "-1.5", false},
		{"rounded third", "0.3333", "1/3", false},
		{"many threes", "0." + strings.Repeat("3", 200), "1/3", false},

		{"percent", "50%", "50", true},
		{"percent is not a division", `50\%`, "0.5", false},
		{"escaped dollar", `\$18`, "18", true},
		{"math mode", "$18$", "18", true},
		{"unit of the value route", "72centimeters^2", "72", true},
		{"unit in text", `72\text{ clips}`, "72", true},
		{"unit in mbox", `72\mbox{ clips}`, "72", true},
		{"two units in text", `72 \text{ a} \text{ b}`, "72", true},
		{"unit alone is kept", "m", "km", false},
		{"unit inside a word is kept", "72kgx", "72x", false},
		{"full stop of a listed unit is any character", "18 b x", "18", true},
		{"degrees", `30^\circ`, "30", true},
		{"degrees in braces", `30^{\circ}`, "30", true},
		{"long equation", "total = 72", "72", false},
		{"million", "5 million", "5*10^6", true},
		{"text", `\text{Tuesday}`, "tuesday", true},

		{"tuple", "(1, 0.5)", `(1,\frac12)`, true},
		{"tuple with other brackets", "[1,0.5]", `(1,\frac12)`, false},
		{"tuple with another length", "(1,2,3)", "(1,2)", false},
		{"one member wrong", "(1,3)", "(1,2)", false},
		{"members without brackets", "1,0.5", "1,1/2", false},
		{"left and right", `\left(1,2\right)`, "(1, 2)", true},
		{"and", "72 and 73", "72 , 73", true},

		{"expanded", "(x+1)(x-1)", "x^2-1", true},
		{"cancelled", "(x^2-1)/(x-1)", "x+1", true},
		{"implicit product", "2x(y+1)", "2xy+2x", true},
		{"implicit product binds as written", "1/2x", "x/2", true},
		{"power of a sign", "-x^2", "x^2", false},
		{"power binds to the right", "2^3^x", "(2^3)^x", false},
		{"negative power", "x^-1", "1/x", true},
		{"roots", `\frac{1}{\sqrt{2}}`, `\frac{\sqrt 2}{2}`, true},
		{"root of a fraction", `\sqrt{\frac{8}{9}}`, `2\sqrt{2}/3`, true},
		{"roots of products", `\sqrt{6}`, `\sqrt{2}\sqrt{3}`, true},
		{"different roots", `\sqrt{2}`, `\sqrt{3}`, false},
		{"imaginary roots", `\sqrt{-4}`, `2\sqrt{-1}`, true},
		{"root of a variable", `\sqrt{4x}`, `2\sqrt{x}`, true},
		{"square of a root of a sum", `\sqrt{x+1}\sqrt{x+1}`, "x+1", true},
		{"root of a square is not the identity", `\sqrt{x^2}`, "x", false},
		{"index of a root, a quirk", `\sqrt[3]{2}`, `\sqrt{2}`, true},
		{"half as an exponent", "2**0.5", `\sqrt{2}`, true},
		{"pi", `0.5\pi`, `\frac{\pi}{2}`, true},
		{"pi is not its digits", "3.14159", `\pi`, false},
		{"logarithm", "ln(8)", "3ln(2)", true},
		{"logarithm of a fraction", "ln(1/2)", "-ln(2)", true},
		{"variable exponent", "x*2^y", "2^y*x", true},
		{"opaque power", "2*2^x", "2^x*2", true},
		{"factorial", "3!/4", "1.5", true},
		{"fraction of a sum, a quirk", `\frac{1+x}{2}`, "1+x/2", true},
		{"decimals are exact", "0.1+0.2", "0.3", true},
		{"division by zero", "1/0", "2/0.0", false},
		{"three letters", "abc/2", "abc*0.5", false},
		{"exponent of two digits", "x^12*2", "2x^12", false},
		{"relation", "x>1.0*1", "x>1", false},

		{"no expression by itself", `2)(\pi`, `2\pi`, false},
		{"closing and reopening", "0)*0+(0.5", "0.5", false},
		{"python or", "0)or(0", "0.5", false},
		{"python call", "__import__('os')", "0.5", false},
		{"leading zero in an expression", "(01)", "(0)", false},
		{"unbalanced", "((0.5)", "1/2", false},
		{"accent", `\hat{x}`, "x", false},
		{"alphabet", `\mathbb{R}`, "R", false},
		{"matrix spelled alike", `\begin{bmatrix}1\\2\end{bmatrix}`, `\begin{pmatrix}1\\2\end{pmatrix}`, true},
		{"other matrix", `\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{pmatrix}1\\3\end{pmatrix}`, false},

		{"boxed gold", "72", `so \boxed{72}.`, true},
		{"unclosed box in gold", `\boxed{72`, `\boxed{72`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Equal(c.answer, c.gold); got != c.want {
				t.Errorf("Equal(%q, %q) = %v, want %v; spelled %q and %q, plain %q and %q", c.answer, c.gold, got, c.want,
					spelling(c.answer), spelling(c.gold), plain(c.answer), plain(c.gold))
			}
		})
	}
}

func TestBoxed(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		ok             bool
	}{
		{"one", `a \boxed{72}.`, "72", true},
		{"last of two", `\boxed{1} \boxed{2}`, "2", true},
		{"nested", `\boxed{\frac{1}{2}}`, `\frac{1}{2}`, true},
		{"inner box wins", `\boxed{a \boxed{b}}`, "b", true},
		{"empty", `\boxed{}`, "", true},
		{"text after it", `\boxed{1} {`, "1", true},
		{"unclosed", `\boxed{1} \boxed{2`, "", false},
		{"no brace", `\boxed72`, "", false},
		{"space before the brace", `\boxed {72}`, "", false},
		{"fbox", `\fbox{72}`, "", false},
		{"none", "72", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := Boxed(c.in); got != c.want || ok != c.ok {
				t.Errorf("got %q, %v; want %q, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	long := strings.Repeat("1", MaxLength)
	if !Equal(long, long) {
		t.Error("an answer of MaxLength bytes is not graded")
	}
	if Equal(long+"1", long+"1") || Equal("1", long+"1") {
		t.Error("a longer one is")
	}
}

// answers are strings of typical pieces of answers.
var answers = rapid.Custom(func(t *rapid.T) string {
	pieces := rapid.SampledFrom([]string{"0", "1", "2", "5", "72", ".", ",", "/", "+", "-", "*", "^", "(", ")", "[", "]",
		"{", "}", " ", "x", "y", "m", "cm", "$", "%", "=", "!", `\`, `\frac`, `\sqrt`, `\text{`, `\pi`, "sqrt(", "ln(", " and ", "\n"})
	return strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
})

func TestEqualIsReflexiveAndSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := answers.Draw(t, "a"), answers.Draw(t, "b")
		if !Equal(a, a) {
			t.Fatalf("%q is not equal to itself", a)
		}
		if Equal(a, b) != Equal(b, a) {
			t.Fatalf("%q and %q are equal one way only", a, b)
		}
	})
}

// Every answer here costs the original minutes or gigabytes, or once cost this package
// too much; the limits must end the comparison in time.
func TestCostlyAnswersAreBounded(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, MaxLength/len(unit)) }
	for name, answer := range map[string]string{
		"tower of powers":        "9**9**9**9/7",
		"power of a power":       "((2**999)**999)/7",
		"large factorial":        "99999!/7",
		"factorials":             "(((9!)!)!)/7",
		"power of a sum":         "(x+y+1/2)**999",
		"product of sums":        fill("(x+y+.5)"),
		"product of inverses":    fill("/(x+y+.5)"),
		"sum of inverses":        "0" + fill("+1/(x+.1)"),
		"many roots":             "0" + fill("+sqrt(6/7)"),
		"roots of new numbers":   "sqrt(2)*" + fill("sqrt(x+1.7)*"),
		"nested roots":           strings.Repeat("sqrt(x+", 120) + "1" + strings.Repeat(")", 120),
		"square of nested roots": "(" + strings.Repeat("sqrt(x+", 40) + "1" + strings.Repeat(")", 40) + ")**512",
		"brackets":               fill("("),
		"braces":                 `\sqrt` + fill("{"),
		"fractions":              fill(`\frac`),
		"signs":                  fill("-") + "1.5",
		"powers":                 fill("2^x^"),
		"long exponent":          "1e" + fill("9"),
		"long number":            "0." + fill("7"),
		"commas":                 fill("1,"),
		"grouped commas":         "1" + strings.Repeat(",234", 250),
		"units":                  fill("a m s "),
		"unit text":              fill(`\text{ m}`),
		"logarithms":             "0" + fill("+ln(7/9)"),
		"zeros and x":            fill("x+0.5-"),
	} {
		t.Run(name, func(t *testing.T) {
			if len(answer) > MaxLength {
				answer = answer[:MaxLength]
			}
			if Equal(answer, "1/2+x") {
				t.Errorf("%.40q... equals 1/2+x", answer)
			}
			if !Equal(answer, answer) {
				t.Errorf("%.40q... does not equal itself", answer)
			}
		})
	}
}
