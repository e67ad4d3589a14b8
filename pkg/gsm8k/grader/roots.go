package grader

import "math/big"

// root returns the square root of a. Rational radicands fall into the roots of
// primes: sqrt(8/9) is 2/3 sqrt(2), sqrt(-4) is 2 sqrt(-1). A polynomial gives up
// its rational content, sqrt(4x) = 2 sqrt(x), and its rest becomes a new atom
// whose square is known. Other radicands are opaque.
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
	add := func(n *big.Int, sign int64) {
		for _, f := range r.factor(n) {
			ln := r.atom("ln "+f.base.String(), nil)
			sum = r.add(sum, r.scale(ln, big.NewRat(sign*int64(f.exponent), 1)))
		}
	}
	add(x.Num(), 1)
	add(x.Denom(), -1)
	return quotient{sum, constant(one)}
}

type factorPower struct {
	base     *big.Int
	exponent int
}

// factor splits a positive integer into primes: fully below 2^32, and beyond that
// as far as trial division up to 2^16 (2^10 while the rest has more than 64 bits)
// and the test for a square reach. What is left is one factor: taking it for a
// prime may miss an equality, and never makes one up.
func (r *ring) factor(n *big.Int) []factorPower {
	r.spend(100) // the divisions cost about as much
	var fs []factorPower
	rest := new(big.Int).Set(n)
	for p := int64(2); p < 1<<10 && !rest.IsUint64(); p++ {
		d, quo, rem := big.NewInt(p), new(big.Int), new(big.Int)
		k := 0
		for quo.QuoRem(rest, d, rem); rem.Sign() == 0; quo.QuoRem(rest, d, rem) {
			rest.Set(quo)
			k++
		}
		if k > 0 {
			fs = append(fs, factorPower{d, k})
		}
	}
	if rest.IsUint64() {
		u := rest.Uint64()
		for p := uint64(2); p < 1<<16 && p*p <= u; p++ {
			k := 0
			for ; u%p == 0; u /= p {
				k++
			}
			if k > 0 {
				fs = append(fs, factorPower{new(big.Int).SetUint64(p), k})
			}
		}
		rest.SetUint64(u)
	}
	if rest.IsUint64() && rest.Uint64() == 1 {
		return fs
	}
	if s := new(big.Int).Sqrt(rest); new(big.Int).Mul(s, s).Cmp(rest) == 0 {
		return append(fs, factorPower{s, 2})
	}
	return append(fs, factorPower{rest, 1})
}
