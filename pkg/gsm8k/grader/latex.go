package grader

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// errLatex stands for all LaTeX that latexText does not resolve.
var errLatex = errors.New("cannot resolve the LaTeX")

// maxNesting limits braces in LaTeX and brackets in expressions.
const maxNesting = 64

// latexText resolves LaTeX to the plain text that pylatexenc's latex2text makes
// of it in the macros of mathematics: symbols become their characters or words,
// \frac{a}{b} becomes a/b and \sqrt{a} sqrt(a), without brackets around a and b
// and without the index of a root; other macros vanish and leave their arguments.
// The cost is linear; nesting is limited.
func latexText(s string) (string, error) {
	// The space keeps a mixed number apart: 1\frac{1}{2} is "1 1/2".
	s = strings.NewReplacer(`\tfrac`, ` \frac`, `\dfrac`, ` \frac`, `\frac`, ` \frac`).Replace(s)
	r := latexReader{s: s}
	if err := r.run(0); err != nil {
		return "", err
	}
	return trim(plainSymbols.Replace(r.out.String())), nil
}

// plainSymbols are the signs that the value route knows as words and operators,
// whether they came from a macro or stood in the text.
var plainSymbols = strings.NewReplacer("√", "sqrt", "π", "pi", "∞", "inf", "∪", "U", "·", "*", "×", "*")

type latexReader struct {
	s   string
	i   int
	out strings.Builder
}

// run resolves text up to the closing brace of its group, or to the end.
func (r *latexReader) run(depth int) error {
	for r.i < len(r.s) {
		c := r.s[r.i]
		if c == '}' {
			if r.i++; depth > 0 {
				return nil
			}
			continue // a brace that closes nothing is dropped
		}
		if err := r.one(depth); err != nil {
			return err
		}
	}
	return nil
}

// one resolves one unit: a macro with its arguments, a group, or a character.
func (r *latexReader) one(depth int) error {
	if depth > maxNesting {
		return errLatex
	}
	switch r.s[r.i] {
	case '\\':
		return r.macro(depth)
	case '{':
		r.i++
		return r.run(depth + 1)
	case '~', '&':
		r.out.WriteByte(' ')
		r.i++
	default:
		_, n := utf8.DecodeRuneInString(r.s[r.i:])
		r.out.WriteString(r.s[r.i : r.i+n])
		r.i += n
	}
	return nil
}

// argument resolves what follows a macro as its argument.
func (r *latexReader) argument(depth int) error {
	r.skipSpace()
	for depth == 0 && strings.HasPrefix(r.s[r.i:], "}") {
		r.i++ // it closes nothing
	}
	if r.i >= len(r.s) || r.s[r.i] == '}' {
		return errLatex
	}
	return r.one(depth + 1)
}

func (r *latexReader) macro(depth int) error {
	name := r.macroName()
	switch name {
	case "":
		return nil // a backslash at the end
	case "frac":
		if err := r.argument(depth); err != nil {
			return err
		}
		r.out.WriteByte('/')
		return r.argument(depth)
	case "sqrt":
		if err := r.skipOption(); err != nil {
			return err
		}
		r.out.WriteString("√(")
		if err := r.argument(depth); err != nil {
			return err
		}
		r.out.WriteByte(')')
		return nil
	}
	switch {
	case refused[name]:
		return errLatex
	case discarding[name]:
		kept := r.out.Len()
		if err := r.argument(depth); err != nil {
			return err
		}
		text := r.out.String()[:kept]
		r.out.Reset()
		r.out.WriteString(text)
		return nil
	}
	r.out.WriteString(symbols[name])
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// macroName reads a macro's name: letters, with the white space after them, or
// one other character.
func (r *latexReader) macroName() string {
	r.i++
	start := r.i
	for r.i < len(r.s) && isLetter(r.s[r.i]) {
		r.i++
	}
	if r.i > start {
		name := r.s[start:r.i]
		r.skipSpace()
		return name
	}
	_, n := utf8.DecodeRuneInString(r.s[r.i:])
	r.i += n
	return r.s[start:r.i]
}

func (r *latexReader) skipSpace() {
	for r.i < len(r.s) && strings.IndexByte(" \t\n\r", r.s[r.i]) >= 0 {
		r.i++
	}
}

// skipOption passes over the [index] of a root.
func (r *latexReader) skipOption() error {
	if !strings.HasPrefix(r.s[r.i:], "[") {
		return nil
	}
	n := strings.IndexByte(r.s[r.i:], ']')
	if n < 0 {
		return errLatex
	}
	r.i += n + 1
	return nil
}
