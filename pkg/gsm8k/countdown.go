package gsm8k

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Countdown is a problem whose answer is an expression: it has the value Target and uses each of Numbers once, as in
// TinyZero and in Stanford CS224R's assignment. It has + - * / and parentheses, and signs before numbers and
// parentheses. Values are exact rationals, so 1/3*3 is 1. Division by zero has no value.
type Countdown struct {
	Numbers []int
	Target  int
	Some    bool // at most once instead of once
}

// Bounds of a problem and of an expression: what a policy writes is untrusted.
const (
	maxCountdownNumbers = 32
	maxCountdownDigits  = 9
	maxCountdownText    = 512 // bytes
	maxCountdownDepth   = 64
)

// Gold is the gold answer of the problem: "98 from 44 19 35", or "98 from some of 44 19 35".
func (c Countdown) Gold() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d from", c.Target)
	if c.Some {
		b.WriteString(" some of")
	}
	for _, n := range c.Numbers {
		fmt.Fprintf(&b, " %d", n)
	}
	return b.String()
}

// Check returns an error for numbers that are out of range.
func (c Countdown) Check() error {
	const most = 1e9
	if n := len(c.Numbers); n < 1 || n > maxCountdownNumbers {
		return fmt.Errorf("%d numbers, want 1 to %d", n, maxCountdownNumbers)
	}
	for _, n := range c.Numbers {
		if n < 0 || n >= most {
			return fmt.Errorf("the number %d is not from 0 to %d", n, int(most)-1)
		}
	}
	if c.Target <= -most || c.Target >= most {
		return fmt.Errorf("the target %d has more than %d digits", c.Target, maxCountdownDigits)
	}
	return nil
}

// ParseCountdown reads what [Countdown.Gold] writes.
func ParseCountdown(gold string) (c Countdown, ok bool) {
	target, numbers, ok := strings.Cut(gold, " from ")
	if !ok {
		return c, false
	}
	numbers, c.Some = strings.CutPrefix(numbers, "some of ")
	var err error
	if c.Target, err = strconv.Atoi(target); err != nil {
		return c, false
	}
	for s := range strings.FieldsSeq(numbers) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return c, false
		}
		c.Numbers = append(c.Numbers, n)
	}
	return c, c.Check() == nil
}

// Question is a question in words, for files without one.
func (c Countdown) Question() string {
	list := make([]string, len(c.Numbers))
	for i, n := range c.Numbers {
		list[i] = strconv.Itoa(n)
	}
	text := list[len(list)-1]
	if len(list) > 1 {
		text = strings.Join(list[:len(list)-1], ", ") + " and " + text
	}
	often := "exactly"
	if c.Some {
		often = "at most"
	}
	return fmt.Sprintf("Using the numbers %s, write an expression that equals %d. "+
		"Use + - * / and parentheses, and each number %s once.", text, c.Target, often)
}

// Uses reports whether an expression uses the numbers as it must.
func (c Countdown) uses(numbers []int) bool {
	left := slices.Clone(c.Numbers)
	for _, n := range numbers {
		i := slices.Index(left, n)
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return c.Some || len(left) == 0
}

// gradeCountdown grades an expression. The answer is its value if it uses the right numbers, and else its text.
func gradeCountdown(text, gold string) Verdict {
	e, ok := parseCountdown(text)
	if !ok {
		return Verdict{}
	}
	v := Verdict{Formatted: true, Answer: e.text}
	if c, ok := ParseCountdown(gold); ok && e.value != nil && c.uses(e.numbers) {
		v.Answer = e.value.RatString()
		v.Right = e.value.Cmp(new(big.Rat).SetInt64(int64(c.Target))) == 0
	}
	return v
}

// countdownReward is the score of CS224R's and TinyZero's Countdown: 1 for a right expression, 0.1 for another text
// where the answer must be, whatever it is, and 0 without one. Like theirs it does not ask how the completion ended.
// It is NaN for a problem that is no Countdown.
func countdownReward(in RewardInput) float64 {
	if _, ok := ParseCountdown(in.Problem.Gold); !ok {
		return math.NaN()
	}
	text, ok := in.Answers.Find(in.Completion)
	switch {
	case !ok:
		return 0
	case gradeCountdown(text, in.Problem.Gold).Right:
		return 1
	}
	return 0.1
}

// countdownExpression is a parsed expression.
type countdownExpression struct {
	text    string   // without white space
	value   *big.Rat // nil after a division by zero
	numbers []int    // as used, in order
}

// parseCountdown parses and evaluates an expression:
//
//	sum     = product (("+" | "-") product)*
//	product = factor (("*" | "/") factor)*
//	factor  = ("+" | "-") factor | number | "(" sum ")"
//
// A number is a whole number without leading zeros. The signs × · ÷ − are those of ASCII.
func parseCountdown(text string) (countdownExpression, bool) {
	if len(text) > maxCountdownText {
		return countdownExpression{}, false
	}
	p := countdownParser{rest: countdownSigns.Replace(strings.TrimSpace(text))}
	p.rest = strings.TrimLeft(p.rest, countdownSpace)
	value, ok := p.sum(0)
	if !ok || p.rest != "" {
		return countdownExpression{}, false
	}
	return countdownExpression{p.read.String(), value, p.numbers}, true
}

const countdownSpace = " \t\r\n"

var countdownSigns = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-")

type countdownParser struct {
	rest    string
	read    strings.Builder
	numbers []int
}

// take reads one of these characters, and the white space after it; 0 if another one is next.
func (p *countdownParser) take(characters string) byte {
	if p.rest == "" || !strings.Contains(characters, p.rest[:1]) {
		return 0
	}
	c := p.rest[0]
	p.read.WriteByte(c)
	p.rest = strings.TrimLeft(p.rest[1:], countdownSpace)
	return c
}

func (p *countdownParser) sum(depth int) (*big.Rat, bool)     { return p.chain("+-", p.product, depth) }
func (p *countdownParser) product(depth int) (*big.Rat, bool) { return p.chain("*/", p.factor, depth) }

// chain reads parts with operators between them. The value is nil if a part has none.
func (p *countdownParser) chain(
	operators string, part func(depth int) (*big.Rat, bool), depth int,
) (*big.Rat, bool) {
	x, ok := part(depth)
	for ok {
		op := p.take(operators)
		if op == 0 {
			break
		}
		var y *big.Rat
		y, ok = part(depth)
		switch {
		case x == nil || y == nil || op == '/' && y.Sign() == 0:
			x = nil
		case op == '+':
			x.Add(x, y)
		case op == '-':
			x.Sub(x, y)
		case op == '*':
			x.Mul(x, y)
		default:
			x.Quo(x, y)
		}
	}
	return x, ok
}

func (p *countdownParser) factor(depth int) (x *big.Rat, ok bool) {
	if depth > maxCountdownDepth {
		return nil, false
	}
	switch sign := p.take("+-("); sign {
	case '(':
		if x, ok = p.sum(depth + 1); !ok || p.take(")") == 0 {
			return nil, false
		}
		return x, true
	case '+', '-':
		if x, ok = p.factor(depth + 1); ok && x != nil && sign == '-' {
			x.Neg(x)
		}
		return x, ok
	}
	n := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
	digits := p.rest[:n]
	if n == 0 || n > maxCountdownDigits || n > 1 && digits[0] == '0' || len(p.numbers) == maxCountdownNumbers {
		return nil, false
	}
	value, _ := strconv.Atoi(digits) // it has few digits
	p.numbers = append(p.numbers, value)
	p.read.WriteString(digits)
	p.rest = strings.TrimLeft(p.rest[n:], countdownSpace)
	return new(big.Rat).SetInt64(int64(value)), true
}

// countdownOf makes the problem of a record: its fields "numbers" or "nums", a list or the text of one, and
// "target". The field "use_all" may be false: then each number is used at most once.
func countdownOf(values map[string]any) (c Countdown, err error) {
	key := "numbers"
	if _, ok := values[key]; !ok {
		key = "nums"
	}
	var list []any
	switch x := values[key].(type) {
	case []any:
		list = x
	case string:
		separators := func(r rune) bool { return strings.ContainsRune(", []\t", r) }
		for _, s := range strings.FieldsFunc(x, separators) {
			list = append(list, s)
		}
	case nil:
		return c, fmt.Errorf(`no "numbers" or "nums"`)
	default:
		return c, fmt.Errorf("%q is no list of whole numbers", key)
	}
	for i, x := range list {
		n, ok := wholeNumber(x)
		if !ok {
			return c, fmt.Errorf("element %d of %q is %s, want a whole number", i+1, key, clip(fmt.Sprint(x)))
		}
		c.Numbers = append(c.Numbers, n)
	}
	var ok bool
	if c.Target, ok = wholeNumber(values["target"]); !ok {
		return c, fmt.Errorf(`"target" is %s, want a whole number`, clip(fmt.Sprint(values["target"])))
	}
	switch all := values["use_all"].(type) {
	case bool:
		c.Some = !all
	case string:
		c.Some = strings.EqualFold(strings.TrimSpace(all), "false")
	}
	return c, c.Check()
}

// wholeNumber reads a number, or the text of one. Parquet has 44.0 for 44 where a column has floats.
func wholeNumber(x any) (int, bool) {
	var text string
	switch x := x.(type) {
	case json.Number:
		text = x.String()
	case string:
		text = x
	default:
		return 0, false
	}
	n, ok := normaliseNumber(text)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(canonicalNumber(n))
	return i, err == nil
}
