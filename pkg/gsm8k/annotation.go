package gsm8k

import (
	"fmt"
	"strings"
)

// AnnotationMode says what becomes of the calculator annotations in worked
// answers, as in "She sold 48/2 = <<48/2=24>>24 clips.".
type AnnotationMode string

const (
	// KeepAnnotations leaves worked answers as they are. The empty mode means
	// the same.
	KeepAnnotations AnnotationMode = "keep"
	// StripAnnotations removes them: "She sold 48/2 = 24 clips.".
	StripAnnotations AnnotationMode = "strip"
	// EquationAnnotations keeps nothing else: one equation a line ("48/2=24"),
	// then the line "#### N". An answer without annotations keeps only the latter.
	EquationAnnotations AnnotationMode = "equation"
)

// AnnotationModes lists the names of the modes.
func AnnotationModes() []string {
	return []string{string(KeepAnnotations), string(StripAnnotations), string(EquationAnnotations)}
}

func (m AnnotationMode) check() error {
	switch m {
	case "", KeepAnnotations, StripAnnotations, EquationAnnotations:
		return nil
	}
	return fmt.Errorf("annotation mode: %w", unknownName(string(m), AnnotationModes()))
}

// apply rewrites a worked answer that ends in a line "#### N".
func (m AnnotationMode) apply(answer string) string {
	switch m {
	case StripAnnotations:
		text, _ := splitAnnotations(answer)
		return text
	case EquationAnnotations:
		_, equations := splitAnnotations(answer)
		final := answer[strings.LastIndex(answer, marker):]
		return strings.Join(append(equations, final), "\n")
	}
	return answer
}

// splitAnnotations returns the text without annotations, and their contents in
// order. An unclosed "<<" is text.
func splitAnnotations(s string) (text string, equations []string) {
	var b strings.Builder
	for {
		before, tail, open := strings.Cut(s, "<<")
		inside, after, closed := strings.Cut(tail, ">>")
		if !open || !closed {
			b.WriteString(s)
			return b.String(), equations
		}
		b.WriteString(before)
		if eq := strings.TrimSpace(inside); eq != "" {
			equations = append(equations, eq)
		}
		s = after
	}
}
