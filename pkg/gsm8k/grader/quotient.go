package grader

import "math/big"

// quotient is a polynomial over a polynomial other than zero. It is not reduced
// to lowest terms: equality is decided by cross-multiplication.
type quotient struct{ num, den polynomial }

var one = big.NewRat(1, 1)

func (r *ring) number(x *big.Rat) quotient { return quotient{constant(x), constant(one)} }

func (r *ring) letter(name string) quotient { return quotient{r.atom(name, nil), constant(one)} }

func (r *ring) sum(a, b quotient) quotient {
	return r.quotient(r.add(r.mul(a.num, b.den), r.mul(b.num, a.den)), r.mul(a.den, b.den))
}

func (r *ring) negative(a quotient) quotient {
	return quotient{r.scale(a.num, big.NewRat(-1, 1)), a.den}
}

func (r *ring) product(a, b quotient) quotient {
	return r.quotient(r.mul(a.num, b.num), r.mul(a.den, b.den))
}

// ratio divides; division by zero is refused.
func (r *ring) ratio(a, b quotient) quotient {
	return r.quotient(r.mul(a.num, b.den), r.mul(a.den, b.num))
}

// quotient scales both so that the first coefficient of the denominator is 1.
func (r *ring) quotient(num, den polynomial) quotient {
	if len(den) == 0 {
		panic(refusal{})
	}
	if c := den[den.monomials()[0]]; c.Cmp(one) != 0 {
		inverse := new(big.Rat).Inv(c)
		num, den = r.scale(num, inverse), r.scale(den, inverse)
	}
	return quotient{num, den}
}

func (r *ring) equal(a, b quotient) bool {
	return len(r.sum(a, r.negative(b)).num) == 0
}

// constant returns the value of a quotient without atoms.
func (q quotient) constant() (*big.Rat, bool) {
	n, ok := q.num.value()
	d, ok2 := q.den.value()
	if !ok || !ok2 {
		return nil, false
	}
	return new(big.Rat).Quo(n, d), true
}

// text identifies a quotient as written; equal quotients may have different texts.
func (q quotient) text() string { return "(" + q.num.text() + "/" + q.den.text() + ")" }

// raise returns base to the exponent: by multiplication for integers, by the square
// root for halves of integers, and otherwise as an opaque atom.
func (r *ring) raise(base, exponent quotient) quotient {
	e, ok := exponent.constant()
	if ok && e.Denom().IsInt64() && e.Denom().Int64() == 2 {
		base, e = r.root(base), new(big.Rat).SetInt(e.Num())
	}
	if !ok || !e.IsInt() {
		return r.letter("power " + base.text() + exponent.text())
	}
	const limit = 1000
	if !e.Num().IsInt64() || e.Num().Int64() > limit || e.Num().Int64() < -limit {
		panic(refusal{})
	}
	n := int(e.Num().Int64())
	if n < 0 {
		base, n = r.ratio(r.number(one), base), -n
	}
	return r.quotient(r.power(base.num, n), r.power(base.den, n))
}

// factorial of an integer 0..64; of anything else it is opaque.
func (r *ring) factorial(a quotient) quotient {
	x, ok := a.constant()
	if !ok {
		return r.letter("factorial " + a.text())
	}
	if !x.IsInt() || x.Sign() < 0 || x.Cmp(big.NewRat(64, 1)) > 0 {
		panic(refusal{})
	}
	return r.number(new(big.Rat).SetInt(new(big.Int).MulRange(1, x.Num().Int64())))
}

// root returns the square root of a. The root of a rational is a product of the roots
// of primes: sqrt(8/9) is 2/3 sqrt(2), sqrt(-4) is 2 sqrt(-1). The rational content of
// a polynomial is factored out, sqrt(4x) = 2 sqrt(x), and the rest becomes a new atom
// with a known square. Other radicands are opaque.
func (r *ring) root(a quotient) quotient {
	if x, ok := a.constant(); ok {
		return quotient{r.rationalRoot(x), constant(one)}
	}
	if _, ok := a.den.value(); !ok {
		return r.letter("root " + a.text())
	}
	content := contentOf(a.num)
	rest := r.scale(a.num, new(big.Rat).Inv(content))
	atom := r.atom("root "+rest.text(), rest)
	return quotient{r.mul(r.rationalRoot(content), atom), constant(one)}
}

// contentOf returns the greatest positive rational c such that p/c has integer
// coefficients.
func contentOf(p polynomial) *big.Rat {
	num, den := new(big.Int), big.NewInt(1)
	for _, m := range p.monomials() {
		c := p[m]
		num.GCD(nil, nil, num, new(big.Int).Abs(c.Num()))
		g := new(big.Int).GCD(nil, nil, den, c.Denom())
		den.Mul(den, new(big.Int).Quo(c.Denom(), g))
		if den.BitLen() > maxBits {
			panic(refusal{})
		}
	}
	return new(big.Rat).SetFrac(num, den)
}

// rationalRoot returns the square root of x as a rational times roots of primes
// and, for a negative x, the imaginary unit: sqrt(p/q) = sqrt(pq)/q.
func (r *ring) rationalRoot(x *big.Rat) polynomial {
	if x.Sign() == 0 {
		return polynomial{}
	}
	out := constant(new(big.Rat).SetFrac(big.NewInt(1), x.Denom()))
	if x.Sign() < 0 {
		out = r.mul(out, r.atom("root -1", constant(big.NewRat(-1, 1))))
	}
	radicand := new(big.Int).Mul(new(big.Int).Abs(x.Num()), x.Denom())
	for _, f := range r.factor(radicand) {
		p := new(big.Rat).SetInt(f.base)
		out = r.mul(out, r.power(constant(p), f.exponent/2))
		if f.exponent%2 == 1 {
			out = r.mul(out, r.atom("root "+f.base.String(), constant(p)))
		}
	}
	return out
}

// logarithm returns the natural logarithm of a: for a positive rational the sum
// over its factors, so that ln(4) is 2 ln(2); for anything else an opaque atom.
func (r *ring) logarithm(a quotient) quotient {
	x, ok := a.constant()
	if !ok || x.Sign() <= 0 {
		return r.letter("ln " + a.text())
	}
	sum := polynomial{}
	for i, n := range []*big.Int{x.Num(), x.Denom()} {
		for _, f := range r.factor(n) {
			ln := r.atom("ln "+f.base.String(), nil)
			sum = r.add(sum, r.scale(ln, big.NewRat(int64(1-2*i)*int64(f.exponent), 1)))
		}
	}
	return quotient{sum, constant(one)}
}

type factorPower struct {
	base     *big.Int
	exponent int
}

// factor splits a positive integer into primes: completely below 2^32, and beyond that by trial
// division up to 2^16 (2^10 while the rest has more than 64 bits) and a test for a square. The rest
// is one factor: treating it as a prime may miss an equality but never gives a false one.
func (r *ring) factor(n *big.Int) []factorPower {
	r.spend(100) // the divisions cost about as much
	var fs []factorPower
	rest, quo, rem := new(big.Int).Set(n), new(big.Int), new(big.Int)
	for p := uint64(2); p < 1<<16; p++ {
		small := rest.IsUint64()
		if small && p*p > rest.Uint64() || !small && p >= 1<<10 {
			break
		}
		if small && rest.Uint64()%p != 0 {
			continue
		}
		f := factorPower{base: new(big.Int).SetUint64(p)}
		for quo.QuoRem(rest, f.base, rem); rem.Sign() == 0; quo.QuoRem(rest, f.base, rem) {
			rest.Set(quo)
			f.exponent++
		}
		if f.exponent > 0 {
			fs = append(fs, f)
		}
	}
	if rest.IsUint64() && rest.Uint64() == 1 {
		return fs
	}
	if s := new(big.Int).Sqrt(rest); new(big.Int).Mul(s, s).Cmp(rest) == 0 {
		return append(fs, factorPower{s, 2})
	}
	return append(fs, factorPower{rest, 1})
}
