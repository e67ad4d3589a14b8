package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// Defaults of countdown.
const (
	DefaultLargest   = 20
	DefaultOperators = "+-*"
)

const (
	operators       = "+-*/"
	targetsOfEach   = 16    // most targets that are asked for of the same numbers
	enoughQuestions = 50000 // above this number of questions there are fewer targets
	largestTarget   = 100   // the smallest is 1
	largestOnTheWay = 999   // largest intermediate result
	tries           = 200   // random expressions that are tried for the targets of the same numbers
)

// CheckOperators reports what is wrong with the operators of expressions.
func CheckOperators(s string) error {
	for i := range len(s) {
		if !strings.Contains(operators, s[i:i+1]) || strings.IndexByte(s, s[i]) < i {
			return fmt.Errorf("operators %q: want some of %s, each once", s, operators)
		}
	}
	return nil
}

// countdowns are the questions "make 22 from: 3 5 7": join all the numbers by operators, each once. Numbers are in rising
// order and may repeat; they are the question's fact. Its target comes from a random expression, so it can be made.
func countdowns(o Options, size int) questions {
	sets := multisets(size, o.Largest)
	each := min(targetsOfEach, 1+enoughQuestions/sets)
	stream := rng.New(o.Seed, rng.Problems)
	known := map[uint64][]expression{} // of a set, for each of its targets
	return questions{sets * each, func(number uint64) (question, bool) {
		set, round := number%sets, int(number/sets)
		numbers := multiset(set, size, o.Largest)
		if known[set] == nil {
			q := stream.Sequence(drawTarget, uint32(size), uint32(set))
			known[set] = targets(q, numbers, o.Operators, int(each))
		}
		if round >= len(known[set]) {
			return question{}, false
		}
		e, given := known[set][round], strings.Trim(fmt.Sprint(numbers), "[]")
		return question{
			text: fmt.Sprintf("make %d from: %s", e.value, given), answer: e.text, fact: given,
			gold:   gsm8k.Countdown{Numbers: numbers, Target: e.value}.Gold(),
			fields: fmt.Sprintf(`{"numbers":[%s],"target":%d}`, strings.ReplaceAll(given, " ", ","), e.value),
		}, true
	}}
}

// targets are random expressions of the numbers with different values, at most n.
func targets(q *rng.Sequence, numbers []int, operators string, n int) (out []expression) {
	for k := 0; k < tries && len(out) < n; k++ {
		e, ok := randomExpression(q, numbers, operators)
		same := func(x expression) bool { return x.value == e.value }
		if ok && !slices.ContainsFunc(out, same) {
			out = append(out, e)
		}
	}
	return out
}

// multisets is the number of ways to choose size numbers from 1 to largest, with repeats: C(largest+size-1, size).
func multisets(size, largest int) uint64 {
	n := uint64(1)
	for i := range size {
		n = n * uint64(largest+i) / uint64(i+1)
	}
	return n
}

// multiset returns one of the multisets by its number, in rising order.
func multiset(number uint64, size, largest int) (out []int) {
	for value := 1; len(out) < size; {
		// Those that go on with this value.
		if n := multisets(size-len(out)-1, largest-value+1); number < n {
			out = append(out, value)
		} else {
			number -= n
			value++
		}
	}
	return out
}

// expression is an arithmetic expression with its value. binding is 1 for a sum or a difference, 2 for a product or
// a quotient and 3 for a number.
type expression struct {
	text           string
	value, binding int
}

// randomExpression joins all numbers by random operators, one after the other from either side. It is false if a result
// on the way is negative, a fraction or too large, or the last one is no target.
func randomExpression(q *rng.Sequence, numbers []int, operators string) (expression, bool) {
	order := slices.Clone(numbers)
	rng.ShuffleSlice(q, order)
	ops := make([]byte, len(order)) // with the high bit set, the number is on the left
	value := order[0]
	for i, n := range order[1:] {
		k := q.Intn(2 * len(operators))
		ops[i] = operators[k/2]
		a, b := value, n
		if k%2 == 1 {
			ops[i] |= onTheLeft
			a, b = n, value
		}
		var ok bool
		if value, ok = apply(a, ops[i]&^onTheLeft, b); !ok {
			return expression{}, false
		}
	}
	if value < 1 || value > largestTarget {
		return expression{}, false
	}
	e := expression{strconv.Itoa(order[0]), value, 3}
	for i, n := range order[1:] {
		a, b := e, expression{strconv.Itoa(n), n, 3}
		if ops[i]&onTheLeft != 0 {
			a, b = b, a
		}
		e = join(a, ops[i]&^onTheLeft, b)
	}
	e.value = value
	return e, true
}

const onTheLeft = 0x80

func apply(a int, op byte, b int) (value int, ok bool) {
	switch op {
	case '+':
		return a + b, a+b <= largestOnTheWay
	case '-':
		return a - b, a >= b
	case '*':
		return a * b, a*b <= largestOnTheWay
	}
	if b == 0 || a%b != 0 {
		return 0, false
	}
	return a / b, true
}

// join writes an expression with the parentheses that it needs.
func join(a expression, op byte, b expression) expression {
	e := expression{binding: 1}
	if op == '*' || op == '/' {
		e.binding = 2
	}
	if a.binding < e.binding {
		a.text = "(" + a.text + ")"
	}
	if b.binding < e.binding || b.binding == e.binding && (op == '-' || op == '/') {
		b.text = "(" + b.text + ")"
	}
	e.text = a.text + string(op) + b.text
	return e
}

// wrongExpression changes an operator of the answer, which may give another right one.
func wrongExpression(p gsm8k.Problem, r *rng.Sequence) string {
	text := []byte(answerOf(p))
	var at []int
	for i, c := range text {
		if strings.IndexByte(operators, c) >= 0 {
			at = append(at, i)
		}
	}
	i := at[r.Intn(len(at))]
	others := strings.ReplaceAll(DefaultOperators, string(text[i]), "")
	text[i] = others[r.Intn(len(others))]
	return replaceAnswer(p.Answer, string(text))
}

// guessExpression joins the numbers at random.
func guessExpression(p gsm8k.Problem, r *rng.Sequence) string {
	numbers := strings.Fields(p.Fact)
	rng.ShuffleSlice(r, numbers)
	text := numbers[0]
	for _, n := range numbers[1:] {
		text += DefaultOperators[r.Intn(len(DefaultOperators)):][:1] + n
	}
	return marker + " " + text
}
