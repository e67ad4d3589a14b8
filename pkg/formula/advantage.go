package formula

import (
	"fmt"
	"math"
)

var groupVariables = []string{"r", "right", "length", "index", "n", "mean", "std"}

var groupFunctions = with(elementwise, map[string]function{
	"sum":  {op: opSum, args: 1, form: "sum(x)", over: opSum},
	"mean": {op: opMean, args: 1, form: "mean(x)", over: opMean},
	"std":  {op: opStd, args: 1, form: "std(x)", over: opStd},
	"min":  {op: opMin, args: 2, many: true, form: "min(x), over the group, or min(x, y)", over: opLeast},
	"max":  {op: opMax, args: 2, many: true, form: "max(x), over the group, or max(x, y)", over: opLargest},
})

// Advantage is the advantage of each completion of a group: a formula of numbers that each completion
// has,
//
//	r        its reward
//	right    whether its answer is right, a condition
//	length   its number of tokens
//	index    its position in the group, from 0
//
// and of numbers of the group,
//
//	n          the number of completions
//	mean, std  of the rewards; std with divisor n-1, and 0 if all are equal
//
// Operators and functions work completion by completion; a reduction such as max(x) is over the group,
// and each completion gets its result. Completions without a reward (NaN) are no part of the group:
// their advantage is 0, and n, mean, std and reductions leave them out.
type Advantage struct {
	*program
	text string
}

// ParseAdvantage compiles an advantage.
func ParseAdvantage(text string) (*Advantage, error) {
	p, err := compile(text, language{variables: groupVariables, functions: groupFunctions})
	if err != nil {
		return nil, err
	}
	return &Advantage{p, text}, nil
}

// Group is what a formula sees of a group: one element for each completion.
type Group struct {
	Rewards []float64 // NaN = none
	Right   []bool
	Lengths []int
}

// Of writes the advantages of a group to out. An advantage that is not finite is an error.
func (a *Advantage) Of(g Group, out []float64) error {
	clear(out)
	var in []int // the completions with a reward
	for i, r := range g.Rewards {
		if !math.IsNaN(r) {
			in = append(in, i)
		}
	}
	if len(in) == 0 {
		return nil
	}
	x := make([][]float64, len(a.start)) // registers, of one number for each completion
	for i := range x {
		x[i] = make([]float64, len(in))
		for k := range in {
			x[i][k] = a.start[i].v
		}
	}
	for k, i := range in {
		x[0][k], x[2][k], x[3][k], x[4][k] = g.Rewards[i], float64(g.Lengths[i]), float64(i), float64(len(in))
		if g.Right[i] {
			x[1][k] = 1
		}
	}
	reduce(opMean, x[0], x[5])
	reduce(opStd, x[0], x[6])
	for _, in := range a.code {
		if in.op >= opSum {
			reduce(in.op, x[in.a], x[in.out])
			continue
		}
		for k := range x[in.out] {
			x[in.out][k] = apply(in.op, dual{v: x[in.a][k]}, dual{v: x[in.b][k]}, dual{v: x[in.c][k]}).v
		}
	}
	for k, i := range in {
		out[i] = x[a.result.at][k]
		if !isFinite(out[i]) {
			hint := ""
			if x[6][k] == 0 && a.named["std"] {
				hint = "; where all rewards are equal, std is 0: add a small number to it, as in std + 1e-6"
			}
			return fmt.Errorf("%s is %v for completion %d, with the rewards %v%s", a.text, out[i], i+1, g.Rewards, hint)
		}
	}
	return nil
}

// reduce writes a reduction of x to every element of out.
func reduce(o op, x, out []float64) {
	v := x[0]
	switch o {
	case opSum:
		for _, y := range x[1:] {
			v += y
		}
	case opMean:
		v = x[0] + shift(x)
	case opStd:
		v = std(x)
	case opLeast:
		for _, y := range x[1:] {
			v = math.Min(v, y)
		}
	case opLargest:
		for _, y := range x[1:] {
			v = math.Max(v, y)
		}
	}
	for k := range out {
		out[k] = v
	}
}

// shift is the mean less the first value. Means are computed like this, as those of pkg/rl, so equal
// values have exactly that value as their mean.
func shift(x []float64) float64 {
	sum := 0.0
	for _, y := range x {
		sum += y - x[0]
	}
	return sum / float64(len(x))
}

// std is the sample standard deviation; 0 for fewer than two values.
func std(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, squares := shift(x), 0.0
	for _, y := range x {
		d := y - x[0] - mean
		squares += float64(d * d)
	}
	return math.Sqrt(squares / float64(len(x)-1))
}
