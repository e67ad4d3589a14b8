package gsm8k

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCountdownExpressions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"1 + 2*3", "7"}, {"(1+2)*3", "9"}, {"7-2-1", "4"}, {"8/4/2", "1"}, {"1/3*3", "1"}, {"2/6", "1/3"},
		{"-(2)--3", "1"}, {"+4*-2", "-8"}, {"2 × 3 ÷ 4 − 1", "1/2"}, {" ( ( 5 ) ) ", "5"}, {"0", "0"},
		{"1/(2-2)", "none"}, {"1/0+1", "none"}, {"(1/0)*0", "none"},
		{"", ""}, {"1+", ""}, {"(1", ""}, {"1)", ""}, {"1 2", ""}, {"2(3)", ""}, {"1.5", ""}, {"01", ""}, {"2**3", ""},
		{"8//3", ""}, {"1e3", ""}, {"x+1", ""}, {"1=1", ""}, {"1234567890", ""}, {"2^3", ""},
		{strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200), ""}, {strings.Repeat("-", 200) + "1", ""},
		{strings.Repeat("1+", 40) + "1", ""}, {strings.Repeat(" ", 600) + "1", ""},
	} {
		got := ""
		if e, ok := parseCountdown(c.in); ok && e.value == nil {
			got = "none"
		} else if ok {
			got = e.value.RatString()
		}
		if got != c.want {
			t.Errorf("%q = %q, want %q", c.in, got, c.want)
		}
	}
}

// An expression that is built together with its value has that value, and is right for it and its numbers alone.
func TestCountdownAgreesWithConstruction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 6).Draw(t, "numbers")
		texts, values := make([]string, len(numbers)), make([]*big.Rat, len(numbers))
		for i, n := range numbers {
			texts[i], values[i] = fmt.Sprint(n), big.NewRat(int64(n), 1)
		}
		for len(texts) > 1 {
			i := rapid.IntRange(0, len(texts)-2).Draw(t, "i")
			op := rapid.SampledFrom([]string{"+", "-", "*", "/"}).Draw(t, "op")
			x, y := values[i], values[i+1]
			if op == "/" && y.Sign() == 0 {
				op = "*"
			}
			z := new(big.Rat)
			switch op {
			case "+":
				z.Add(x, y)
			case "-":
				z.Sub(x, y)
			case "*":
				z.Mul(x, y)
			case "/":
				z.Quo(x, y)
			}
			texts[i], values[i] = "("+texts[i]+" "+op+" "+texts[i+1]+")", z
			texts, values = append(texts[:i+1], texts[i+2:]...), append(values[:i+1], values[i+2:]...)
		}
		e, ok := parseCountdown(texts[0])
		if !ok || e.value.Cmp(values[0]) != 0 {
			t.Fatalf("%s = %v, want %v", texts[0], e.value, values[0])
		}
		if !values[0].IsInt() || !values[0].Num().IsInt64() || values[0].Num().Int64() > 1e8 || values[0].Num().Int64() < -1e8 {
			return
		}
		c := Countdown{Numbers: rapid.Permutation(numbers).Draw(t, "order"), Target: int(values[0].Num().Int64())}
		if again, ok := ParseCountdown(c.Gold()); !ok || fmt.Sprint(again) != fmt.Sprint(c) {
			t.Fatalf("%q is read as %v", c.Gold(), again)
		}
		more := Countdown{Numbers: append([]int{3}, c.Numbers...), Target: c.Target}
		some, other := more, c
		some.Some, other.Target = true, c.Target+1
		for _, x := range []struct {
			c     Countdown
			right bool
		}{{c, true}, {more, false}, {some, true}, {other, false}} {
			if v := gradeCountdown(texts[0], x.c.Gold()); v.Right != x.right || !v.Formatted {
				t.Fatalf("%s for %s: %+v", texts[0], x.c.Gold(), v)
			}
		}
	})
}

func TestBadCountdowns(t *testing.T) {
	for _, gold := range []string{"", "98", "98 from", "98 from ", "x from 1", "98 from 1 x", "98 from -1", "98 from 1 9999999999", "98 from some of"} {
		if c, ok := ParseCountdown(gold); ok {
			t.Errorf("%q is read as %v", gold, c)
		}
	}
}
