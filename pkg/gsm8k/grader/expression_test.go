package grader

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// formula is an expression as a string and as a function of x and y; the function is nil where the
// value is undefined.
type formula struct {
	text  string
	value func(x, y *big.Rat) *big.Rat
}

// formulas draws expressions over x, y and small numbers, with every bracket that
// their structure needs.
func formulas(depth int) *rapid.Generator[formula] {
	return rapid.Custom(func(t *rapid.T) formula {
		if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return formula{"x", func(x, _ *big.Rat) *big.Rat { return x }}
			case 1:
				return formula{"y", func(_, y *big.Rat) *big.Rat { return y }}
			}
			n := rapid.SampledFrom([]string{"0", "1", "2", "3", "0.5", ".25", "1e1"}).Draw(t, "number")
			v, _ := new(big.Rat).SetString(n)
			return formula{n, func(_, _ *big.Rat) *big.Rat { return v }}
		}
		a, b := formulas(depth-1).Draw(t, "a"), formulas(depth-1).Draw(t, "b")
		apply := func(op func(u, v *big.Rat) *big.Rat) func(x, y *big.Rat) *big.Rat {
			return func(x, y *big.Rat) *big.Rat {
				u, v := a.value(x, y), b.value(x, y)
				if u == nil || v == nil {
					return nil
				}
				return op(u, v)
			}
		}
		switch rapid.IntRange(0, 5).Draw(t, "operator") {
		case 0:
			return formula{"(" + a.text + "+" + b.text + ")", apply(func(u, v *big.Rat) *big.Rat { return new(big.Rat).Add(u, v) })}
		case 1:
			return formula{"(" + a.text + "-" + b.text + ")", apply(func(u, v *big.Rat) *big.Rat { return new(big.Rat).Sub(u, v) })}
		case 2:
			return formula{a.text + "*" + b.text, apply(func(u, v *big.Rat) *big.Rat { return new(big.Rat).Mul(u, v) })}
		case 3:
			return formula{"(" + a.text + ")(" + b.text + ")", apply(func(u, v *big.Rat) *big.Rat { return new(big.Rat).Mul(u, v) })}
		case 4:
			return formula{"(" + a.text + "/(" + b.text + "))", apply(func(u, v *big.Rat) *big.Rat {
				if v.Sign() == 0 {
					return nil
				}
				return new(big.Rat).Quo(u, v)
			})}
		}
		return formula{"(" + a.text + ")^2", func(x, y *big.Rat) *big.Rat {
			u := a.value(x, y)
			if u == nil {
				return nil
			}
			return new(big.Rat).Mul(u, u)
		}}
	})
}

// agreeAtPoints compares two formulas at many points. Formulas of this size that
// agree at all of them are equal.
func agreeAtPoints(a, b formula) (agree, defined bool) {
	for i := int64(1); i <= 12; i++ {
		x, y := big.NewRat(7*i+1, 13), big.NewRat(11-5*i*i, 17)
		u, v := a.value(x, y), b.value(x, y)
		if u == nil || v == nil {
			continue
		}
		if defined = true; u.Cmp(v) != 0 {
			return false, true
		}
	}
	return true, defined
}

func TestSameExpressionAgreesWithEvaluation(t *testing.T) {
	checked, equal := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := formulas(3).Draw(t, "a"), formulas(3).Draw(t, "b")
		if rapid.Bool().Draw(t, "rewrite") {
			// b becomes a in another form.
			c := b
			b = formula{"(" + a.text + "+" + c.text + ")-" + c.text + "*1", func(x, y *big.Rat) *big.Rat {
				if c.value(x, y) == nil {
					return nil
				}
				return a.value(x, y)
			}}
		}
		want, defined := agreeAtPoints(a, b)
		if !defined {
			if sameExpression(a.text, b.text) {
				t.Fatalf("%s and %s are equal but defined nowhere", a.text, b.text)
			}
			return
		}
		checked++
		if want {
			equal++
		}
		if got := sameExpression(a.text, b.text); got != want {
			t.Fatalf("sameExpression(%q, %q) = %v, but by their values %v", a.text, b.text, got, want)
		}
	})
	if checked < 20 || equal < 5 {
		t.Errorf("only %d pairs were defined and %d equal", checked, equal)
	}
}

// sqrt(n) sqrt(m) is sqrt(nm), ln(n) + ln(m) is ln(nm), and neither equals the
// value at another argument.
func TestRootsAndLogarithmsOfRationals(t *testing.T) {
	rational := rapid.Custom(func(t *rapid.T) *big.Rat {
		return big.NewRat(int64(rapid.IntRange(1, 5000).Draw(t, "p")), int64(rapid.IntRange(1, 50).Draw(t, "q")))
	})
	rapid.Check(t, func(t *rapid.T) {
		n, m := rational.Draw(t, "n"), rational.Draw(t, "m")
		nm := new(big.Rat).Mul(n, m)
		other := new(big.Rat).Add(nm, big.NewRat(1, 7))
		for _, f := range []struct{ fn, op string }{{"sqrt", "*"}, {"ln", "+"}} {
			left := fmt.Sprintf("%s(%s)%s%s(%s)", f.fn, n, f.op, f.fn, m)
			if right := fmt.Sprintf("%s(%s)", f.fn, nm); !sameExpression(left, right) {
				t.Fatalf("%s is not %s", left, right)
			}
			if wrong := fmt.Sprintf("%s(%s)", f.fn, other); sameExpression(left, wrong) {
				t.Fatalf("%s is %s", left, wrong)
			}
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "()", "1+", "*2", "2**", "(1", "1)", "1,2", "x=2", "a[1]", "sqrt", "sqrt2+sqrt", "ln", "5!!",
		"(-1)!", "0.5!", "7//2", "1e100", "2^1001", "x^999", "0/0", "1/(x-x)", "is", "re(2)", "\u221a2", "01", "2.5.", "x\u00b2", "\xff", "'"} {
		if sameExpression(s, s) {
			t.Errorf("%q is an expression", s)
		}
	}
}
