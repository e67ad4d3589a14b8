package grader

import (
	"strings"
	"testing"

	"grpo/internal/untrusted"
)

// fuzzLimit is the maximum cost of one comparison. The budget allows products of numbers
// of up to 1024 bits, most of which are garbage at once.
var fuzzLimit = untrusted.Limit{Base: 256 << 20, PerByte: 32 << 10, Time: untrusted.Reader.Time}

// costly are expressions near the limits: they blow up, cancel, nest or factor.
var costly = []string{
	"9**9**9", "2^999", "((((x^9)^9)^9)^9)", "(x+y)^16", "(1+x)^255(1-x)", strings.Repeat("(", 64) + "x" + strings.Repeat(")", 64),
	strings.Repeat("sqrt(", 30) + "2" + strings.Repeat(")", 30), "sqrt(18446744073709551557)sqrt(18446744073709551533)", "64!/63!", "x!!",
	strings.Repeat("-", 500) + "1", "1" + strings.Repeat("/x", 400), "(" + strings.Repeat("ln(4294967291),", 60) + "1)",
	"2^x^y^x^y", "1e99*1e-99", "0.1" + strings.Repeat("0", 900) + "1", "(x+1)/(x-x)", "sqrt(x^2-2x+1)", strings.Repeat("sqrt(x)+", 100) + "y",
	growing + "((1-x)(1-x^3)(1+2y+3y^2))", growing + "((1-x)(1-(x^4)^4)(1-y)(1+2y))",
}

// growing has 128 terms, most of which cancel against the factor that follows: the
// number of terms during the multiplication depends on their order.
const growing = "(1+x)(1+x^2)(1+x^4)(1+x^8)(1+(x^4)^4)(1+(x^8)^4)(1+(x^8)^8)"

// An answer near a limit gets the same verdict every time. It did not when products
// iterated over a map.
func TestVerdictIsFixed(t *testing.T) {
	for _, tt := range []struct{ answer, gold string }{
		{growing + "((1-x)(1-(x^4)^4)(1-y)(1+2y))", "(1-((x^8)^8)^2)(1-(x^4)^4)(1-y)(1+2y)"},
		{growing + "((1-x)(1-(x^4)^4)(1-(x^8)^4)(1+3y))", "(1-((x^8)^8)^2)(1-(x^4)^4)(1-(x^8)^4)(1+3y)"},
		{growing + "((1-x)(1-x^3)(1+2y+3y^2))", "(1-((x^8)^8)^2)(1-x^3)(1+2y+3y^2)"},
	} {
		first := Equal(tt.answer, tt.gold)
		for range 20 {
			if Equal(tt.answer, tt.gold) != first || Equal(tt.gold, tt.answer) != first {
				t.Fatalf("%s is sometimes %s and sometimes not", tt.answer, tt.gold)
			}
		}
	}
}

func TestCostly(t *testing.T) {
	for _, a := range costly {
		for _, b := range costly {
			fuzzLimit.Check(t, len(a)+len(b), func() { Equal(a, b) })
		}
	}
}

func FuzzEqual(f *testing.F) {
	for _, p := range [][2]string{
		{"72 miles", "72"}, {`\frac12`, "0.5"}, {"(x+1)(x-1)", "x^2-1"}, {`\sqrt{8}`, `2\sqrt2`}, {"(1,0.5)", `(1,\frac12)`},
		{"1,234,567", "1234567"}, {`72\text{ m}`, "72"}, {"9**9**9", "0.5"}, {`\boxed{1`, "1"}, {"\xff", "\u0660"},
		{"2 1/3", `\dfrac73`}, {"x!/2", "0.5x!"}, {"ln(4)", "2ln(2)"}, {"x_1y2", "y2x_1"},
	} {
		f.Add(p[0], p[1])
	}
	for i, s := range costly {
		f.Add(s, costly[(i+1)%len(costly)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		fuzzLimit.Check(t, len(a)+len(b), func() {
			if strings.Contains(a, boxedMacro) || strings.Contains(b, boxedMacro) {
				Equal(a, b) // the properties below exclude a box in gold
				return
			}
			same := Equal(a, b)
			if same != Equal(b, a) {
				t.Fatalf("%q and %q are equal one way only", a, b)
			}
			if len(a) <= MaxLength && !Equal(a, a) {
				t.Fatalf("%q is not equal to itself", a)
			}
			if same && !sameSpelling(a, b) && plain(a) != plain(b) && len(members(plain(a))) != len(members(plain(b))) {
				t.Fatalf("%q equals %q, a tuple of another length", a, b)
			}
		})
	})
}

func FuzzBoxed(f *testing.F) {
	for _, s := range []string{`\boxed{72}`, `\boxed{\boxed{1}`, `\boxed{}}`, `\boxed`, `{\boxed{a}b}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		content, ok := Boxed(s)
		if !ok {
			if content != "" {
				t.Fatalf("content %q without a box", content)
			}
			return
		}
		if !strings.Contains(s, boxedMacro+"{"+content+"}") || strings.Contains(content, boxedMacro) ||
			strings.Count(content, "{") != strings.Count(content, "}") {
			t.Fatalf("%q is not the content of the last box of %q", content, s)
		}
	})
}

func FuzzLatexText(f *testing.F) {
	for _, s := range []string{`\frac{1}{2}`, `\sqrt[3]{\pi}`, `\text{a} \mathrm b`, `\`, `\frac`, `{{}`, `}}`, `\mbox{a}b`, `\ \,`, "\\\u00e9",
		strings.Repeat(`\frac{`, 80), strings.Repeat(`\mbox\mbox{a}`, 80), strings.Repeat("{", 200) + strings.Repeat("}", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzLimit.Check(t, len(s), func() {
			out, ok := latexText(s)
			if !ok {
				return
			}
			// The longest replacement relative to a macro's name is that of a root, "sqrt()".
			if len(out) > 8*len(s)+8 {
				t.Fatalf("%d bytes of LaTeX become %d", len(s), len(out))
			}
			if !strings.Contains(s, `\backslash`) && strings.Contains(out, `\`) {
				t.Fatalf("a macro is left in %q", out)
			}
		})
	})
}

// The rules of the MATH data set terminate, and never make an answer many times as
// long.
func FuzzSpelling(f *testing.F) {
	for _, s := range []string{`\frac12`, `\sqrt2\sqrt`, `\text{a}`, "x = 5", "12 m sqaure", strings.Repeat(`\frac1`, 100), strings.Repeat("a .", 200), "1/2", "-.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzLimit.Check(t, len(s), func() {
			if out := spelling(s); len(out) > 4*len(s)+16 {
				t.Fatalf("%d bytes become %d", len(s), len(out))
			}
			if out := plain(s); len(out) > 8*len(s)+320 {
				t.Fatalf("%d bytes become %d in plain text", len(s), len(out))
			}
		})
	})
}

func FuzzSameExpression(f *testing.F) {
	for _, p := range [][2]string{{"2x(y+1)", "2xy+2x"}, {"sqrt(8)", "2sqrt(2)"}, {"x^-1", "1/x"}, {"3!", "6"}, {"2^x", "2**x"}, {"1e2x", "100x"}, {"((((", "))"}, {"ln(4/9)", "2ln(2/3)"}} {
		f.Add(p[0], p[1])
	}
	for i, s := range costly {
		f.Add(s, costly[(i+3)%len(costly)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > MaxLength {
			return
		}
		fuzzLimit.Check(t, len(a)+len(b), func() {
			same := sameExpression(a, b)
			if same != sameExpression(b, a) {
				t.Fatalf("%q and %q are equal one way only", a, b)
			}
			if same != sameExpression(a, b) {
				t.Fatalf("%q and %q: the verdict changes", a, b)
			}
			if !sameExpression(a, a) {
				return // no expression
			}
			if sameExpression(a, "("+a+")+1") {
				t.Fatalf("%q is one more than itself", a)
			}
		})
	})
}
