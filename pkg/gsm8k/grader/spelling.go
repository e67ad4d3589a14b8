package grader

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// sameSpelling is the first route: the rules of the MATH data set (Hendrycks et
// al., "Measuring mathematical problem solving with the MATH dataset", 2021) give
// both sides the same text.
func sameSpelling(a, b string) bool { return spelling(a) == spelling(b) }

// spelling rewrites an answer. Where a rule does not apply (a \frac without an
// argument, two \text{ units), the answer stays as it was, but for white space
// and an enclosing \text.
func spelling(s string) string {
	s = trim(s)
	if inner, ok := insideText(s); ok {
		s = trim(inner)
	}
	if t, err := rewrite(s); err == nil {
		return t
	}
	return s
}

// insideText returns the content of a \text{...} that encloses all of s but for
// one last line break.
func insideText(s string) (string, bool) {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(s, "\n"), `\text{`)
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, "}")
	return inner, ok && inner != "" && !strings.Contains(inner, "\n")
}

var errMalformed = errors.New("malformed")

var (
	arrayBegin = regexp.MustCompile(`\\begin\{array\}\{.*?\}`)
	backslash  = strings.NewReplacer(`\\`, `\`)
	relations  = strings.NewReplacer(`\neq`, `\ne`, `\leq`, `\le`, `\geq`, `\ge`)
)

// remove deletes the given texts one after the other: what a deletion brings
// together may be deleted by the next.
func remove(s string, texts ...string) string {
	for _, t := range texts {
		s = strings.ReplaceAll(s, t, "")
	}
	return s
}

func rewrite(s string) (string, error) {
	s = remove(s, "\n", `\!`)
	s = backslash.Replace(s)
	s = arrayBegin.ReplaceAllLiteralString(s, `\begin{pmatrix}`)
	s = strings.ReplaceAll(s, `\end{array}`, `\end{pmatrix}`)
	s = strings.ReplaceAll(s, "bmatrix", "pmatrix")
	s = strings.ReplaceAll(s, "tfrac", "frac")
	s = strings.ReplaceAll(s, "dfrac", "frac")
	s = relations.Replace(s)
	s = remove(s, `\left`, `\right`)
	s = removeTextAtEnd(s)
	s = removeUnits(s)
	s = remove(s, `^{\circ}`, `^\circ`, `\$`)
	// A unit in \text{ ...} with a space is one that stands at the right.
	if left, rest, found := strings.Cut(s, `\text{ `); found {
		if strings.Contains(rest, `\text{ `) {
			return "", errMalformed
		}
		s = left
	}
	s = remove(s, `\%`)
	s = strings.ReplaceAll(s, " .", " 0.")
	s = strings.ReplaceAll(s, "{.", "{0.")
	if s == "" {
		return "", nil
	}
	if s[0] == '.' {
		s = "0" + s
	}
	if left, right, found := strings.Cut(s, "="); found && !strings.Contains(right, "=") && utf8.RuneCountInString(left) <= 2 {
		s = right
	}
	s, err := braceRoots(s)
	if err != nil {
		return "", err
	}
	s = strings.ReplaceAll(s, " ", "")
	if s, err = braceFractions(s); err != nil {
		return "", err
	}
	if s == "0.5" {
		return `\frac{1}{2}`, nil
	}
	return slashToFraction(s), nil
}

// removeTextAtEnd cuts s at its first \text{ if it ends in a brace: that is where
// a unit stands. Where nothing would be left, s stays.
func removeTextAtEnd(s string) string {
	t := s
	if i := strings.Index(s, `\text{`); i >= 0 && strings.HasSuffix(s, "}") {
		t = s[:i]
	}
	if t = trim(t); t == "" {
		return s
	}
	return t
}

// braceRoots writes \sqrt3 as \sqrt{3}.
func braceRoots(s string) (string, error) {
	parts := strings.Split(s, `\sqrt`)
	var b strings.Builder
	b.WriteString(parts[0])
	for _, p := range parts[1:] {
		b.WriteString(`\sqrt`)
		if p == "" {
			return "", errMalformed
		}
		if p[0] != '{' {
			_, n := utf8.DecodeRuneInString(p)
			b.WriteString("{" + p[:n] + "}")
			p = p[n:]
		}
		b.WriteString(p)
	}
	return b.String(), nil
}

// braceFractions writes \frac12 as \frac{1}{2} and \frac1{2} as \frac{1}{2}.
func braceFractions(s string) (string, error) {
	parts := strings.Split(s, `\frac`)
	var b strings.Builder
	b.WriteString(parts[0])
	for _, p := range parts[1:] {
		b.WriteString(`\frac`)
		if p == "" {
			return "", errMalformed
		}
		if p[0] != '{' {
			_, n := utf8.DecodeRuneInString(p)
			if n == len(p) {
				return s, nil // one argument only: leave all as it is
			}
			b.WriteString("{" + p[:n] + "}")
			if p = p[n:]; p[0] != '{' {
				_, n = utf8.DecodeRuneInString(p)
				b.WriteString("{" + p[:n] + "}")
				p = p[n:]
			}
		}
		b.WriteString(p)
	}
	return b.String(), nil
}

// slashToFraction writes a/b as \frac{a}{b} if both are integers in canonical
// form.
func slashToFraction(s string) string {
	a, b, found := strings.Cut(s, "/")
	if !found || !canonicalInteger(a) || !canonicalInteger(b) {
		return s
	}
	return `\frac{` + a + "}{" + b + "}"
}

func canonicalInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "0" {
		return s == "0"
	}
	if digits == "" || digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}
