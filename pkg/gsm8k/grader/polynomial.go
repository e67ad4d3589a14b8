package grader

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Arithmetic of the value route: polynomials with rational coefficients in atoms.
//
// An atom is a variable, pi, the logarithm or the square root of a prime, or an opaque term (a
// power with a variable exponent, a logarithm of a sum) that is identified by its canonical text.
// Products replace the square of a root. Square roots of different primes, and the imaginary unit,
// are linearly independent over the rationals, so a polynomial in these is zero only if all its
// coefficients are. Opaque atoms and roots of sums may be dependent. So "zero" is always correct,
// but "not zero" may miss an identity between such atoms.
//
// Every cost is bounded: [ring.spend] counts products of terms, and numbers, terms, atoms and
// exponents have limits. Exceeding one panics with refusal, which [sameExpression] recovers. A sum
// grows and shrinks as terms are added, so whether it exceeds a limit depends on their order: it is
// the order of [polynomial.monomials], never a map's, so verdicts are deterministic.

const (
	maxProducts = 5000 // of two terms, for one comparison
	maxTerms    = 256  // of a polynomial
	maxBits     = 1024 // of a numerator or denominator
	maxAtoms    = 24
)

// polynomial maps monomials to coefficients other than zero. A monomial is the
// string of its atoms' exponents, a byte each, without zeros at the end.
type polynomial map[string]*big.Rat

// atom is the meaning of a polynomial's letter.
type atom struct {
	name   string
	square polynomial // of a root; nil for other atoms
}

// ring has the atoms of one comparison, which both sides share, and its budget.
type ring struct {
	atoms    []atom
	products int
}

func (r *ring) spend(n int) {
	if r.products += n; r.products > maxProducts {
		panic(refusal{})
	}
}

// atom returns the polynomial that is the named atom alone.
func (r *ring) atom(name string, square polynomial) polynomial {
	i := slices.IndexFunc(r.atoms, func(a atom) bool { return a.name == name })
	if i < 0 {
		if i = len(r.atoms); i == maxAtoms {
			panic(refusal{})
		}
		r.atoms = append(r.atoms, atom{name, square})
	}
	return polynomial{strings.Repeat("\x00", i) + "\x01": big.NewRat(1, 1)}
}

func constant(x *big.Rat) polynomial {
	p := polynomial{}
	p.addTerm("", x)
	return p
}

// value returns the polynomial's value if it is constant.
func (p polynomial) value() (*big.Rat, bool) {
	switch {
	case len(p) == 0:
		return new(big.Rat), true
	case len(p) == 1 && p[""] != nil:
		return p[""], true
	}
	return nil, false
}

// addTerm adds a term to p, in place.
func (p polynomial) addTerm(monomial string, coef *big.Rat) {
	sum := new(big.Rat).Set(coef)
	if old := p[monomial]; old != nil {
		sum.Add(sum, old)
	}
	switch {
	case sum.Sign() == 0:
		delete(p, monomial)
	case sum.Num().BitLen() > maxBits || sum.Denom().BitLen() > maxBits:
		panic(refusal{})
	default:
		p[monomial] = sum
	}
	if len(p) > maxTerms {
		panic(refusal{})
	}
}

func (r *ring) add(p, q polynomial) polynomial {
	r.spend(len(p) + len(q))
	sum := maps.Clone(p)
	for _, m := range q.monomials() {
		sum.addTerm(m, q[m])
	}
	return sum
}

func (r *ring) scale(p polynomial, c *big.Rat) polynomial { return r.mul(p, constant(c)) }

func (r *ring) mul(p, q polynomial) polynomial {
	r.spend(len(p) * len(q))
	product := polynomial{}
	ns := q.monomials()
	for _, m := range p.monomials() {
		for _, n := range ns {
			part := r.reduce(times(m, n), new(big.Rat).Mul(p[m], q[n]))
			for _, k := range part.monomials() {
				product.addTerm(k, part[k])
			}
		}
	}
	return product
}

// times multiplies monomials.
func times(m, n string) string {
	if len(m) < len(n) {
		m, n = n, m
	}
	out := []byte(m)
	for i := range len(n) {
		if out[i] += n[i]; out[i] < n[i] {
			panic(refusal{}) // an exponent beyond 255
		}
	}
	return string(out)
}

// reduce replaces the square of a root by its radicand. A radicand has only atoms
// older than its root, so this terminates.
func (r *ring) reduce(monomial string, coef *big.Rat) polynomial {
	for i := len(monomial) - 1; i >= 0; i-- {
		if monomial[i] < 2 || r.atoms[i].square == nil {
			continue
		}
		rest := []byte(monomial)
		rest[i] %= 2
		squares := r.power(r.atoms[i].square, int(monomial[i]/2))
		one := polynomial{strings.TrimRight(string(rest), "\x00"): coef}
		return r.mul(one, squares)
	}
	return polynomial{monomial: coef}
}

// power returns p to the n-th, n >= 0.
func (r *ring) power(p polynomial, n int) polynomial {
	out := constant(big.NewRat(1, 1))
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			out = r.mul(out, p)
		}
		if n > 1 {
			p = r.mul(p, p)
		}
	}
	return out
}

// monomials lists p's monomials in a fixed order.
func (p polynomial) monomials() []string {
	return slices.Sorted(maps.Keys(p))
}

// text writes p in its canonical form.
func (p polynomial) text() string {
	var b strings.Builder
	for _, m := range p.monomials() {
		b.WriteString(p[m].RatString())
		for i := range len(m) {
			b.WriteByte(' ')
			b.WriteString(strconv.Itoa(int(m[i])))
		}
		b.WriteByte(';')
	}
	return b.String()
}
