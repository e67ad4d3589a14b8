package grader

import (
	"strings"
	"testing"
)

func FuzzEqual(f *testing.F) {
	for _, p := range [][2]string{
		{"72 miles", "72"}, {`\frac12`, "0.5"}, {"(x+1)(x-1)", "x^2-1"}, {`\sqrt{8}`, `2\sqrt2`}, {"(1,0.5)", `(1,\frac12)`},
		{"1,234,567", "1234567"}, {`72\text{ m}`, "72"}, {"9**9**9", "0.5"}, {`\boxed{1`, "1"}, {"\xff", "\u0660"},
		{"2 1/3", `\dfrac73`}, {"x!/2", "0.5x!"}, {"ln(4)", "2ln(2)"}, {"x_1y2", "y2x_1"},
	} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Contains(a, boxedMacro) || strings.Contains(b, boxedMacro) {
			Equal(a, b) // the laws below are not for a box in gold
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
	for _, s := range []string{`\frac{1}{2}`, `\sqrt[3]{\pi}`, `\text{a} \mathrm b`, `\`, `\frac`, `{{}`, `}}`, `\mbox{a}b`, `\ \,`, "\\\u00e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, err := latexText(s)
		if err != nil {
			return
		}
		// The longest replacement of a macro's name is \ln's, "arcsin" and
		// the like being their own; a root adds "sqrt()".
		if len(out) > 8*len(s)+8 {
			t.Fatalf("%d bytes of LaTeX become %d", len(s), len(out))
		}
		if !strings.Contains(s, `\backslash`) && strings.Contains(out, `\`) {
			t.Fatalf("a macro is left in %q", out)
		}
	})
}
