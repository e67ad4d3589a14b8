package grader

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/pattern"
)

// sameExpression reports whether the difference of two expressions is zero. Text that
// is not an expression, or that exceeds a limit, equals nothing.
func sameExpression(a, b string) (same bool) {
	// The sides share a budget, so the verdict could depend on which is read first: they are read
	// in alphabetical order.
	accepted(func() {
		var r ring
		a, b = min(a, b), max(a, b)
		same = r.equal(r.parse(a), r.parse(b))
	})
	return same
}

// refusal is the panic value for text that is too costly or can't be parsed.
type refusal struct{}

// accepted runs f and reports whether it ended without a refusal.
func accepted(f func()) (ok bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
			ok = true
		case refusal:
		default:
			panic(p)
		}
	}()
	f()
	return
}

// parse evaluates an expression with sympy's grammar:
//
//	sum     = product (("+" | "-") product)*
//	product = signed (["*" | "/"] signed)*       "*" may be omitted
//	signed  = ("+" | "-")* power
//	power   = postfix [("^" | "**") signed]
//	postfix = primary ["!"]
//	primary = number | "(" sum ")" | ("sqrt" | "ln") "(" sum ")" | letter
//
// An omitted "*" has the same precedence: 1/2x is x/2. Words are products of their
// letters, "xy" being x*y, except pi and the Greek letters of two letters.
func (r *ring) parse(s string) quotient {
	p := parser{ring: r, s: s}
	q := p.sum()
	if p.peek() != 0 {
		panic(refusal{})
	}
	return q
}

type parser struct {
	*ring
	s     string
	i     int
	word  []string // remaining letters and numbers of a word
	depth int
}

// peek returns the next byte that is not white space: 0 at the end, 'a' inside a
// word.
func (p *parser) peek() byte {
	if len(p.word) > 0 {
		return 'a'
	}
	for p.i < len(p.s) && strings.IndexByte(" \t\n\r\f", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

// accept skips the operator op if it is next.
func (p *parser) accept(op string) bool {
	if c := p.peek(); c == 'a' || c == 0 || !strings.HasPrefix(p.s[p.i:], op) {
		return false
	}
	p.i += len(op)
	return true
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		panic(refusal{})
	}
}

func (p *parser) sum() quotient {
	p.enter()
	defer func() { p.depth-- }()
	q := p.product()
	for {
		switch {
		case p.accept("+"):
			q = p.ring.sum(q, p.product())
		case p.accept("-"):
			q = p.ring.sum(q, p.negative(p.product()))
		default:
			return q
		}
	}
}

func (p *parser) product() quotient {
	q := p.signed()
	for {
		switch c := p.peek(); {
		case p.accept("//"):
			panic(refusal{})
		case p.accept("*"):
			q = p.ring.product(q, p.signed())
		case p.accept("/"):
			q = p.ratio(q, p.signed())
		case '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' ||
			strings.IndexByte("(._", c) >= 0 || c >= utf8.RuneSelf:
			q = p.ring.product(q, p.signed())
		default:
			return q
		}
	}
}

func (p *parser) signed() quotient {
	negative := false
	for {
		if p.accept("-") {
			negative = !negative
		} else if !p.accept("+") {
			break
		}
	}
	q := p.power()
	if negative {
		q = p.negative(q)
	}
	return q
}

func (p *parser) power() quotient {
	p.enter()
	defer func() { p.depth-- }()
	q := p.postfix()
	if p.accept("**") || p.accept("^") {
		q = p.raise(q, p.signed())
	}
	return q
}

func (p *parser) postfix() quotient {
	q := p.primary()
	if !p.accept("!") {
		return q
	}
	if p.accept("!") {
		panic(refusal{}) // a double factorial
	}
	return p.factorial(q)
}

func (p *parser) primary() quotient {
	switch c := p.peek(); {
	case len(p.word) > 0:
		w := p.word[0]
		p.word = p.word[1:]
		if w[0] >= '0' && w[0] <= '9' {
			return p.literal(w)
		}
		return p.letter(w)
	case p.accept("("):
		return p.inBrackets()
	case c == '.' || '0' <= c && c <= '9':
		n := decimal().FindStringIndex(p.s[p.i:])[1]
		p.i += n
		return p.literal(p.s[p.i-n : p.i])
	case c != 0:
		return p.name()
	}
	panic(refusal{})
}

func (p *parser) inBrackets() quotient {
	q := p.sum()
	if !p.accept(")") {
		panic(refusal{})
	}
	return q
}

// decimal matches a number: digits, a point, an exponent ("2e" is 2 times e).
var decimal = pattern.Of(`^[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?`)

// literal is the exact value of a decimal number. As in Python, an integer cannot have
// leading zeros. Exponents of more than two digits are refused.
func (p *parser) literal(s string) quotient {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	integer := !scientific && !strings.Contains(mantissa, ".")
	if mantissa == "." || integer && mantissa[0] == '0' && strings.Trim(mantissa, "0") != "" ||
		len(strings.TrimLeft(exponent, "+-")) > 2 {
		panic(refusal{})
	}
	x, ok := new(big.Rat).SetString(s)
	if !ok || x.Num().BitLen() > maxBits || x.Denom().BitLen() > maxBits {
		panic(refusal{})
	}
	return p.number(x)
}

// foreign are words with a meaning in sympy or Python, so not products of letters; names of three
// different letters never reach the parser ([mayCompare]).
var foreign = set("as if in is or all csc eye ff fft frac fu gff id im jn li nan ntt oo re rf yn zoo")

// name parses a word: a function with its argument, or letters and numbers.
func (p *parser) name() quotient {
	w := p.s[p.i:]
	if n := strings.IndexFunc(w, func(r rune) bool { return !isWord(r) }); n >= 0 {
		w = w[:n]
	}
	p.i += len(w)
	switch {
	case w == "" || foreign[w]:
		panic(refusal{})
	case w == "sqrt" || w == "ln":
		if !p.accept("(") {
			panic(refusal{})
		}
		if w == "ln" {
			return p.logarithm(p.inBrackets())
		}
		return p.root(p.inBrackets())
	case w == "pi" || w == "mu" || w == "nu" || w == "xi" || strings.Contains(w, "_"):
		return p.letter(w)
	}
	p.word = splitWord(w)
	return p.primary()
}

var wordPart = pattern.Of(`[0-9]+|.`)

// splitWord splits a word into its letters and its runs of digits.
func splitWord(w string) []string {
	parts := wordPart().FindAllString(w, -1)
	for _, part := range parts {
		if r, _ := utf8.DecodeRuneInString(part); !unicode.IsLetter(r) && (r < '0' || r > '9') {
			panic(refusal{})
		}
	}
	return parts
}
