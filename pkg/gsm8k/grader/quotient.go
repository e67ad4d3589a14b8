package grader

import "math/big"

// quotient is a polynomial over a polynomial other than zero. It is not reduced
// to lowest terms: equality is decided by cross-multiplication.
type quotient struct{ num, den polynomial }

var one = big.NewRat(1, 1)

func (r *ring) number(x *big.Rat) quotient { return quotient{constant(x), constant(one)} }

func (r *ring) letter(name string) quotient {
	return quotient{r.atom(name, nil), constant(one)}
}

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

// quotient makes the first coefficient of the denominator 1; a constant
// denominator is 1 thereby.
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
	if !ok {
		return nil, false
	}
	d, ok := q.den.value()
	if !ok {
		return nil, false
	}
	return new(big.Rat).Quo(n, d), true
}

// text is the same for quotients that are written alike; equal quotients may
// have different texts.
func (q quotient) text() string { return "(" + q.num.text() + "/" + q.den.text() + ")" }

// raise returns base to the exponent: by multiplication for integers, by way of
// the square root for halves of integers, and else as an opaque atom.
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
