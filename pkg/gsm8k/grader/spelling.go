package grader

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/pattern"
)

// sameSpelling is the first route: both sides become the same string by the rules of
// the MATH data set (Hendrycks et al., "Measuring mathematical problem solving with
// the MATH dataset", 2021).
func sameSpelling(a, b string) bool { return spelling(a) == spelling(b) }

// spelling rewrites an answer. If a rule does not apply (a \frac without an
// argument, two \text{ units), it only trims white space and an enclosing \text.
func spelling(s string) string {
	s = trim(s)
	if inner, ok := insideText(s); ok {
		s = trim(inner)
	}
	accepted(func() { s = rewrite(s) })
	return s
}

// insideText returns the content of a \text{...} that encloses all of s except one last line break.
func insideText(s string) (string, bool) {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(s, "\n"), `\text{`)
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, "}")
	return inner, ok && inner != "" && !strings.Contains(inner, "\n")
}

var (
	arrayBegin = pattern.Of(`\\begin\{array\}\{.*?\}`)
	backslash  = strings.NewReplacer(`\\`, `\`)
	relations  = strings.NewReplacer(`\neq`, `\ne`, `\leq`, `\le`, `\geq`, `\ge`)
)

// remove deletes substrings one after the other: a deletion can join parts that the
// next one deletes.
func remove(s string, substrings ...string) string {
	for _, t := range substrings {
		s = strings.ReplaceAll(s, t, "")
	}
	return s
}

func rewrite(s string) string {
	s = remove(s, "\n", `\!`)
	s = backslash.Replace(s)
	s = arrayBegin().ReplaceAllLiteralString(s, `\begin{pmatrix}`)
	s = strings.ReplaceAll(s, `\end{array}`, `\end{pmatrix}`)
	s = strings.ReplaceAll(s, "bmatrix", "pmatrix")
	s = strings.ReplaceAll(s, "tfrac", "frac")
	s = strings.ReplaceAll(s, "dfrac", "frac")
	s = relations.Replace(s)
	s = remove(s, `\left`, `\right`)
	s = removeTextAtEnd(s)
	s = removeUnits(s)
	s = remove(s, `^{\circ}`, `^\circ`, `\$`)
	// A unit in \text{ ...}, with a space, follows the number.
	if left, rest, found := strings.Cut(s, `\text{ `); found {
		if strings.Contains(rest, `\text{ `) {
			panic(refusal{})
		}
		s = left
	}
	s = remove(s, `\%`)
	s = strings.ReplaceAll(s, " .", " 0.")
	s = strings.ReplaceAll(s, "{.", "{0.")
	if s == "" {
		return ""
	}
	if s[0] == '.' {
		s = "0" + s
	}
	left, right, _ := strings.Cut(s, "=")
	if strings.Count(s, "=") == 1 && utf8.RuneCountInString(left) <= 2 {
		s = right
	}
	s = braceArguments(s, `\sqrt`, 1)
	s = strings.ReplaceAll(s, " ", "")
	s = braceArguments(s, `\frac`, 2)
	if s == "0.5" {
		return `\frac{1}{2}`
	}
	return slashToFraction(s)
}

// removeTextAtEnd truncates s at its first \text{ if it ends in a brace: that is a
// unit. If nothing would be left, s is unchanged.
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

// braceArguments braces up to n arguments of a macro: \sqrt3 becomes \sqrt{3}, and
// \frac12 becomes \frac{1}{2}. A \frac with one argument only leaves s as it is.
func braceArguments(s, macro string, n int) string {
	parts := strings.Split(s, macro)
	for i, p := range parts[1:] {
		if p == "" {
			panic(refusal{})
		}
		braced := ""
		for range n {
			if p == "" {
				return s
			}
			if p[0] == '{' {
				break
			}
			_, size := utf8.DecodeRuneInString(p)
			braced, p = braced+"{"+p[:size]+"}", p[size:]
		}
		parts[i+1] = braced + p
	}
	return strings.Join(parts, macro)
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
	return s == "0" || digits != "" && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// unitWords are the words that the spelling route removes from an answer: units of
// MathQA's answers and fragments of its spelling. The assignment's grader fixes the
// list and its order (words are removed one after the other); two entries of broken
// encoding are omitted. A full stop means any character, as in the regular
// expressions for which the list was written.
var unitWords = func() []string {
	words := strings.Split("east,degree,mph,kmph,ft,m sqaure, m east,sq m,deg,mile,q .,monkey,prime,ratio,"+
		"profit of rs,rd,o,gm,p . m,lb,tile,per,dm,lt,gain,ab,way,west,a .,b .,c .,d .,e .,f .,g .,h .,"+
		"t,a,h,no change,men,soldier,pie,bc,excess,st,inches,noon,percent,by,gal,kmh,c,acre,rise,a . m,"+
		"th,π r 2,sq,mark,l,toy,coin,sq . m,gallon,° f,profit,minw,yr,women,feet,am,pm,hr,cu cm,square,"+
		"are,rupee,rounds,cubic,cc,mtr,s,ohm,number,kmph,day,hour,minute,min,second,man,woman,sec,cube,"+
		"mt,sq inch,mp,hectare,more,sec,unit,cu . m,cm 2,rs .,rs,kg,g,month,km,m,cm,mm,apple,liter,"+
		"loss,yard,pure,year,increase,decrease,d,less,Surface,litre,pi sq m,s .,metre,meter,inch", ",")
	for _, w := range words[:len(words):len(words)] {
		words = append(words, w+"s")
	}
	return words
}()

// removeUnits removes every unit word from s, in two passes over the list, unless
// nothing would be left. A word counts if no letter, digit or underscore is next to
// it.
func removeUnits(s string) string {
	if strings.IndexFunc(s, unicode.IsLetter) < 0 {
		return s
	}
	for range 2 {
		for _, w := range unitWords {
			if t := removeWord(s, w); t != "" {
				s = t
			}
		}
	}
	return s
}

// removeWord replaces (^|\W)word($|\W) by the two groups, from left to right; a character at the
// end of one match does not start another. (With package regexp, grading is several times slower.)
func removeWord(s, word string) string {
	if stem, _, _ := strings.Cut(word, "."); !strings.Contains(s, stem) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		before := 0 // bytes of the character that precedes the word
		end, ok := 0, false
		if i == 0 {
			end, ok = matchWord(s, 0, word)
		}
		if !ok {
			r, n := utf8.DecodeRuneInString(s[i:])
			if before = n; !isWord(r) {
				end, ok = matchWord(s, i+n, word)
			}
		}
		b.WriteString(s[i : i+before])
		i += before
		if !ok {
			continue
		}
		_, n := utf8.DecodeRuneInString(s[end:])
		b.WriteString(s[end : end+n])
		i = end + n
	}
	return b.String()
}

// matchWord matches word at s[i:], followed by the end or by a character that is not
// a word character, and returns the end of the word.
func matchWord(s string, i int, word string) (end int, ok bool) {
	for j := range len(word) {
		switch {
		case i >= len(s):
			return 0, false
		case word[j] == '.':
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == '\n' {
				return 0, false
			}
			i += n
		case s[i] != word[j]:
			return 0, false
		default:
			i++
		}
	}
	if r, _ := utf8.DecodeRuneInString(s[i:]); i < len(s) && isWord(r) {
		return 0, false
	}
	return i, true
}
