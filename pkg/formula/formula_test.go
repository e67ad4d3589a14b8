package formula

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

const clipped = "-min(ratio*A, clip(ratio, 1-eps, 1+eps_high)*A)"

// TestErrors: an error names the column and what is wrong there.
func TestErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"-min(rato*A, A)":             {`column 6, at "rato*A, A)"`, `unknown name "rato" (did you mean "ratio"?)`, "A, entropy, eps, eps_high, logp, old, ratio, ref", "abs, clip, exp"},
		"-ratio*A*":                   {"column 10, at its end", "something is missing"},
		"":                            {"column 1, at its end"},
		"ratio*(A":                    {"column 9, at its end"},
		"ratio * clip(A, 1)":          {"column 9", "clip can't take 2 arguments: write clip(x, low, high)"},
		"min(ratio)":                  {"column 1", "min can't take 1 argument"},
		"mean(ratio)":                 {`unknown name "mean"`},
		"clip*ratio":                  {"clip is a function: write clip(x, low, high)"},
		"ratio(1)":                    {"ratio is a number, not a function"},
		"A ? ratio : 0":               {"column 1", "a condition is needed (compare it, as in x > 0)"},
		"!ratio":                      {"column 2", "a condition is needed"},
		"ratio > 1 && A":              {"column 14", "a condition is needed"},
		`ratio + "a"`:                 {"column 9", "numbers, conditions, operators and functions only"},
		"ratio.x":                     {"numbers, conditions, operators and functions only"},
		"[ratio][0]":                  {"numbers, conditions, operators and functions only"},
		"ratio % 2":                   {"column 7", "the operator % is not for numbers"},
		"1..3":                        {"the operator .. is not for numbers"},
		"sum([ratio], # + 1)":         {`unknown name "sum"`},
		"let A = 1; A*ratio":          {"column 5", `the name "A" is taken`},
		"let u = ratio; v":            {`unknown name "v"`, "ref, u"},
		"A":                           {"no gradient"},
		"sg(ratio)*A":                 {"no gradient"},
		"ratio > 1 ? A : 0":           {"no gradient"},
		"ratio > 1":                   {"no gradient"},
		"now()":                       {`unknown name "now"`},
		"ratio;":                      nil,
		"ratio; logp":                 {"numbers, conditions, operators and functions only"},
		strings.Repeat("-", 2001):     {"2001 characters; the limit is 2000"},
		strings.Repeat("-", 1200):     {"column"},
		strings.Repeat("(", 1999):     {"column"},
		strings.Repeat("1+", 999):     {"maximum allowed nodes"},
		"ratio\n+ é + zz":             {"column 9", `unknown name "é"`},
		"1_0*ratio + 0x1F + 1e3":      nil,
		"let u = ratio; let v = u; v": nil,
	} {
		_, err := ParseLoss(text, 0.2, 0.2)
		if want == nil {
			expect.OK(t, err)
			continue
		}
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%.60s: %v, want %q", text, err, part)
			}
		}
	}
	for text, want := range map[string]string{
		"ratio": `unknown name "ratio"`, "sg(r)": `unknown name "sg"`, "sum(r, 1)": "sum can't take 2 arguments", "std * 2 +": "column 10",
	} {
		if _, err := ParseAdvantage(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLoss: values and derivatives at ratio 1.5, logp -1, old -1.2, ref -0.7, A 2, entropy 0.5.
func TestLoss(t *testing.T) {
	e := math.Exp
	s := 1 / (1 + e(-0.5))
	for text, want := range map[string][4]float64{
		"-A*logp":                               {2, -2, 0, 0},
		"-ratio*A":                              {-3, 0, -3, 0},
		clipped:                                 {-2.56, 0, 0, 0},
		"-min(clip(ratio, 0, 2)*A, ratio*A)":    {-3, 0, -3, 0},
		"-sg(ratio)*A*logp":                     {3, -3, 0, 0},
		"-stop_gradient(ratio)*A*logp":          {3, -3, 0, 0},
		"sigmoid(ratio - 1)*A":                  {2 * s, 0, 2 * s * (1 - s) * 1.5, 0},
		"tanh(ratio)":                           {math.Tanh(1.5), 0, 1.5 * (1 - math.Tanh(1.5)*math.Tanh(1.5)), 0},
		"exp(ref-logp) - (ref-logp) - 1":        {e(0.3) - 1.3, 1 - e(0.3), 0, 0},
		"(logp - old)**2 / 2":                   {0.02, 0.2, 0, 0},
		"ratio**logp":                           {1 / 1.5, math.Log(1.5) / 1.5, -1 / 1.5, 0},
		"2^ratio":                               {math.Pow(2, 1.5), 0, math.Pow(2, 1.5) * math.Ln2 * 1.5, 0},
		"sqrt(ratio) + log(ratio)":              {math.Sqrt(1.5) + math.Log(1.5), 0, math.Sqrt(1.5)/2 + 1, 0},
		"-ratio*A - 0.1*entropy":                {-3.05, 0, -3, -0.1},
		"abs(logp)":                             {1, -1, 0, 0},
		"abs(logp + 1)":                         {0, 0, 0, 0},
		"A > 0 ? -ratio : logp":                 {-1.5, 0, -1.5, 0},
		"A > 0 && !(ratio < 1) ? logp : ratio":  {-1, 1, 0, 0},
		"0.5 < ratio < 1 || A == 3 ? 0 : logp":  {-1, 1, 0, 0},
		"(A > 0) * ratio":                       {1.5, 0, 1.5, 0},
		"A / ratio":                             {2 / 1.5, 0, -2 / 1.5, 0},
		"max(1, ratio, 2) + min(ratio, 3, 1)":   {3, 0, 0, 0},
		"let u = ratio*A; let v = u*u; v - u":   {6, 0, 15, 0},
		"if A > 0 { ratio } else { logp }":      {1.5, 0, 1.5, 0},
		"ratio | min(1) + logp":                 {0, 1, 0, 0},
		"-2**2*logp":                            {4, -4, 0, 0},
		"sqrt(A - 2) * logp":                    {0, 0, 0, 0},
		"min(logp, sg(logp)) + max(logp, -1.0)": {-2, 2, 0, 0},
		"true ? +logp : ratio":                  {-1, 1, 0, 0},
	} {
		l, err := ParseLoss(text, 0.2, 0.28)
		expect.OK(t, err)
		v, lp, lr, h := l.At(1.5, -1, -1.2, -0.7, 2, 0.5)
		for i, got := range []float64{v, lp, lr, h} {
			if !(math.Abs(got-want[i]) < 1e-13) {
				t.Errorf("%s: number %d is %v, want %v", text, i, got, want[i])
			}
		}
		expect.OK(t, l.CheckGradient())
	}
}

func TestVanishes(t *testing.T) {
	for text, want := range map[string]bool{
		clipped: true, "-A*logp": true, "logp*A/2 + ratio*A": true, "A > 0 ? ratio*A : tanh(A*ratio)": true, "-abs(A)*ratio": true, "A**2*logp": true, "(A*logp)**2": true,
		"-ratio*A + 0.1*logp": false, "ratio": false, "A > 0 ? ratio*A : logp": false, "exp(A)*logp": false, "(A*logp)**-1": false, "A + logp": false,
		"max(A*ratio, 0)": true, "max(A*ratio, 1)": false, "logp - logp": false,
	} {
		l, err := ParseLoss(text, 0.2, 0.2)
		expect.OK(t, err)
		if l.Vanishes() != want {
			t.Errorf("%s: %v", text, l.Vanishes())
		}
	}
}

func TestNames(t *testing.T) {
	l, err := ParseLoss("let u = 1 + eps; u*ratio", 0.2, 0.2)
	expect.OK(t, err)
	if !l.Names("eps") || !l.Names("ratio") || l.Names("eps_high") || l.Names("ref") {
		t.Error(l.named)
	}
}

// TestCheckGradient: a wrong derivative is found, in each direction; kinks and jumps are not taken for one.
func TestCheckGradient(t *testing.T) {
	for i, name := range []string{"log-probability", "log of the ratio", "entropy"} {
		l, err := ParseLoss("-min(ratio*A, clip(ratio, 1-eps, 1+eps)*A) + exp(logp - ref) + entropy**2", 0.2, 0.2)
		expect.OK(t, err)
		err = l.checkGradient(func(ratio, logp, old, ref, adv, entropy float64) (v, lp, lr, h float64) {
			v, lp, lr, h = l.At(ratio, logp, old, ref, adv, entropy)
			*[]*float64{&lp, &lr, &h}[i] += 0.01
			return v, lp, lr, h
		})
		if err == nil || !strings.Contains(err.Error(), "its derivative by the "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{
		"abs(ratio - 1.3) + max(logp, sg(logp)) + abs(logp - sg(logp))", "ratio > 1.2 ? 100 : ratio", "exp(900*ratio)", "sigmoid(1e7*(ratio-1))",
		"ratio + 1e17 - 1e17", "sqrt(A)*ratio", "(ratio - 1)**0.5", "1/(1 + exp(1000*ratio))", "clip(ratio, 2, 1)*A + logp",
	} {
		l, err := ParseLoss(text, 0.2, 0.2)
		expect.OK(t, err)
		expect.OK(t, l.CheckGradient())
	}
}

// TestNeverFinite: a loss that is never a number is refused before a run diverges by it.
func TestNeverFinite(t *testing.T) {
	for _, text := range []string{"log(logp)*ratio", "1/(ratio - ratio)"} {
		l, err := ParseLoss(text, 0.2, 0.2)
		expect.OK(t, err)
		if err := l.CheckGradient(); !neverFinite(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func neverFinite(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not a finite number")
}

// drawFormula draws a number, or a condition.
func drawFormula(rt *rapid.T, depth int, condition bool) string {
	sub := func(c bool) string { return drawFormula(rt, depth-1, c) }
	if condition {
		if depth <= 1 || rapid.Bool().Draw(rt, "compare") {
			return fmt.Sprintf("(%s %s %s)", sub(false), rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(rt, "op"), sub(false))
		}
		return rapid.SampledFrom([]string{"!" + sub(true), "(" + sub(true) + " && " + sub(true) + ")", "(" + sub(true) + " || " + sub(true) + ")"}).Draw(rt, "logic")
	}
	if depth <= 0 {
		return rapid.SampledFrom([]string{"ratio", "logp", "old", "ref", "A", "entropy", "eps", "eps_high", "0", "1", "2.5", "-0.3"}).Draw(rt, "leaf")
	}
	switch rapid.IntRange(0, 5).Draw(rt, "form") {
	case 0:
		return "-" + sub(false)
	case 1:
		return fmt.Sprintf("(%s %s %s)", sub(false), rapid.SampledFrom([]string{"+", "-", "*", "/", "**"}).Draw(rt, "op"), sub(false))
	case 2:
		return fmt.Sprintf("%s(%s)", rapid.SampledFrom([]string{"abs", "exp", "log", "sqrt", "sigmoid", "tanh", "sg"}).Draw(rt, "f"), sub(false))
	case 3:
		return fmt.Sprintf("%s(%s, %s)", rapid.SampledFrom([]string{"min", "max"}).Draw(rt, "f"), sub(false), sub(false))
	case 4:
		return fmt.Sprintf("clip(%s, %s, %s)", sub(false), sub(false), sub(false))
	}
	return fmt.Sprintf("(%s ? %s : %s)", sub(true), sub(false), sub(false))
}

// TestGradients: the derivatives of any formula agree with differences, and a formula that is known to vanish without
// an advantage does.
func TestGradients(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawFormula(rt, rapid.IntRange(0, 4).Draw(rt, "depth"), false)
		l, err := ParseLoss(text, 0.2, 0.28)
		if err != nil {
			if strings.Contains(err.Error(), "column") {
				rt.Fatalf("%s: %v", text, err)
			}
			return
		}
		if err := l.CheckGradient(); err != nil && !neverFinite(err) {
			rt.Fatalf("%s: %v", text, err)
		}
		v, lp, lr, h := l.At(1.1, -0.7, -0.8, -0.9, 0, 1)
		for _, x := range []float64{v, lp, lr, h} {
			if l.Vanishes() && x != 0 && !math.IsNaN(x) && !math.IsInf(x, 0) {
				rt.Fatalf("%s: %v, %v, %v, %v without an advantage", text, v, lp, lr, h)
			}
		}
	})
}

func TestAdvantage(t *testing.T) {
	nan := math.NaN()
	mixed := Group{Rewards: []float64{1, 0, 0.5}, Right: []bool{true, false, false}, Lengths: []int{4, 8, 6}}
	flat := Group{Rewards: []float64{0.1, 0.1, 0.1}, Right: []bool{true, true, true}, Lengths: []int{1, 2, 3}}
	null := Group{Rewards: []float64{1, nan, 0}, Right: []bool{true, true, false}, Lengths: []int{1, 100, 3}}
	for _, c := range []struct {
		text string
		g    Group
		want []float64
	}{
		{"r", mixed, []float64{1, 0, 0.5}},
		{"right", mixed, []float64{1, 0, 0}},
		{"r - mean", mixed, []float64{0.5, -0.5, 0}},
		{"(r - mean) / std", mixed, []float64{1, -1, 0}},
		{"(r - mean) / (std + 1e-6)", flat, []float64{0, 0, 0}},
		{"n/(n-1) * (r - mean)", mixed, []float64{0.75, -0.75, 0}},
		{"r == max(r) ? r - mean : 0", mixed, []float64{0.5, 0, 0}},
		{"right ? 1 - length/max(length) : -1", mixed, []float64{0.5, -1, -1}},
		{"index", mixed, []float64{0, 1, 2}},
		{"mean(right)", mixed, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"sum(1) + min(r) + std(r) - std", mixed, []float64{3, 3, 3}},
		{"min(r, 0.2) + max(length, 5)", mixed, []float64{5.2, 8, 6.2}},
		{"let w = exp(r) / sum(exp(r)); sum(w)", mixed, []float64{1, 1, 1}},
		{"r - sum(length*r)/sum(length)", mixed, []float64{1 - 7./18, -7. / 18, 0.5 - 7./18}},
		{"r - mean", null, []float64{0.5, 0, -0.5}},
		{"n + index + 0*length", null, []float64{2, 0, 4}},
		{"max(length)", null, []float64{3, 0, 3}},
		{"std", Group{[]float64{nan, 3}, []bool{false, true}, []int{1, 1}}, []float64{0, 0}},
		{"1/std", Group{[]float64{nan, nan}, []bool{false, true}, []int{1, 1}}, []float64{0, 0}},
	} {
		a, err := ParseAdvantage(c.text)
		expect.OK(t, err)
		out := slices.Repeat([]float64{7}, len(c.want))
		expect.OK(t, a.Of(c.g, out))
		for i := range out {
			if !(math.Abs(out[i]-c.want[i]) < 1e-12) {
				t.Errorf("%s of %v: %v, want %v", c.text, c.g.Rewards, out, c.want)
				break
			}
		}
	}
	a, err := ParseAdvantage("(r - mean) / std")
	expect.OK(t, err)
	err = a.Of(flat, make([]float64, 3))
	for _, want := range []string{"(r - mean) / std is NaN for completion 1", "[0.1 0.1 0.1]", "std + 1e-6"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzParse: any text is compiled or refused, and what is compiled can be evaluated.
func FuzzParse(f *testing.F) {
	for _, text := range []string{clipped, "let u = ratio; u", "(r - mean) / (std + 1e-6)", "max(r) ? 1 : 2", "if A > 0 { ratio } else { 1 }", "a.b?.c[1:2]", "#", "sum(r, {# > 1})", "-1..2", "\x00é"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := ParseLoss(text, 0.2, 0.28); err == nil {
			l.At(1, -1, -1, -1, 1, 1)
			if err := l.CheckGradient(); err != nil && !neverFinite(err) {
				t.Error(err)
			}
		}
		if a, err := ParseAdvantage(text); err == nil {
			_ = a.Of(Group{[]float64{1, 0}, []bool{true, false}, []int{1, 2}}, make([]float64, 2))
		}
	})
}
