package formula

import (
	"math"

	"grpo/pkg/elementary"
)

// op is what an instruction does.
type op uint8

const (
	opNeg op = iota + 1
	opAdd
	opSub
	opMul
	opDiv
	opPow
	opAbs
	opExp
	opLog
	opSqrt
	opSigmoid
	opTanh
	opStop // the value without its derivatives
	opMin
	opMax
	opClip
	opIf

	opLess // conditions
	opLessEqual
	opGreater
	opGreaterEqual
	opEqual
	opNotEqual
	opAnd
	opOr
	opNot

	opSum // reductions over the group
	opMean
	opStd
	opLeast
	opLargest
)

var operators = map[string]op{
	"+": opAdd, "-": opSub, "*": opMul, "/": opDiv, "**": opPow, "^": opPow,
	"<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual, "==": opEqual, "!=": opNotEqual,
	"&&": opAnd, "and": opAnd, "||": opOr, "or": opOr,
}

func (o op) isCondition() bool { return o >= opLess && o <= opNot }

// dual is a value with its derivatives by the token's log-probability (lp, with a constant ratio), the
// log of the importance ratio (lr), and the entropy (h).
type dual struct{ v, lp, lr, h float64 }

// apply computes an instruction, except a reduction. Where a function is not differentiable, the
// derivative is that of the side in effect; of two equal arguments of min and max, the first one's; at
// the bounds of clip, the argument's; of abs at 0, 0.
func apply(o op, a, b, c dual) dual {
	switch o {
	case opNeg:
		return dual{-a.v, -a.lp, -a.lr, -a.h}
	case opAdd:
		return dual{a.v + b.v, a.lp + b.lp, a.lr + b.lr, a.h + b.h}
	case opSub:
		return dual{a.v - b.v, a.lp - b.lp, a.lr - b.lr, a.h - b.h}
	case opMul:
		return two(a.v*b.v, a, b.v, b, a.v)
	case opDiv:
		q := a.v / b.v
		return two(q, a, 1/b.v, b, -q/b.v)
	case opPow:
		var byA, byB float64
		v := elementary.Pow(a.v, b.v)
		if a.moves() {
			byA = b.v * elementary.Pow(a.v, b.v-1)
		}
		if b.moves() && v != 0 { // 0 to a positive power stays 0
			byB = v * elementary.Log(a.v)
		}
		return two(v, a, byA, b, byB)
	case opAbs:
		switch {
		case a.v < 0:
			return dual{-a.v, -a.lp, -a.lr, -a.h}
		case a.v == 0:
			return dual{}
		}
		return a
	case opExp:
		v := elementary.Exp(a.v)
		return one(v, a, v)
	case opLog:
		return one(elementary.Log(a.v), a, 1/a.v)
	case opSqrt:
		v := math.Sqrt(a.v)
		return one(v, a, 0.5/v)
	case opSigmoid:
		s := 1 / (1 + elementary.Exp(-a.v))
		return one(s, a, s*(1-s))
	case opTanh:
		t := elementary.Tanh(a.v)
		return one(t, a, 1-float64(t*t))
	case opStop:
		return dual{v: a.v}
	}
	switch chosen(o, a, b, c) { // of the others
	case 1:
		if o.isCondition() {
			return dual{v: 1}
		}
		return b
	case 2:
		return c
	}
	if o.isCondition() {
		return dual{}
	}
	return a
}

// chosen is what an instruction with several sides takes: an operand, counted from 0, or the truth of a
// condition. It is 0 for the others, except abs, where it says on which side of 0 the operand is.
func chosen(o op, a, b, c dual) int {
	var is bool
	switch o {
	case opAbs:
		switch {
		case a.v > 0:
			return 1
		case a.v < 0:
			return -1
		}
		return 0
	case opMin:
		is = b.v < a.v || b.v != b.v // NaN stays NaN
	case opMax:
		is = b.v > a.v || b.v != b.v
	case opClip:
		switch {
		case max(a.v, b.v) > c.v:
			return 2
		case a.v < b.v:
			return 1
		}
		return 0
	case opIf:
		if a.v != 0 {
			return 1
		}
		return 2
	case opLess:
		is = a.v < b.v
	case opLessEqual:
		is = a.v <= b.v
	case opGreater:
		is = a.v > b.v
	case opGreaterEqual:
		is = a.v >= b.v
	case opEqual:
		is = a.v == b.v
	case opNotEqual:
		is = a.v != b.v
	case opAnd:
		is = a.v != 0 && b.v != 0
	case opOr:
		is = a.v != 0 || b.v != 0
	case opNot:
		is = a.v == 0
	}
	if is {
		return 1
	}
	return 0
}

func (a dual) moves() bool { return a.lp != 0 || a.lr != 0 || a.h != 0 }

// one applies the chain rule to a function of one operand with derivative d.
func one(v float64, a dual, d float64) dual {
	return dual{v, times(d, a.lp), times(d, a.lr), times(d, a.h)}
}

// two applies the chain rule to a function of two operands.
func two(v float64, a dual, byA float64, b dual, byB float64) dual {
	return dual{
		v, times(byA, a.lp) + times(byB, b.lp), times(byA, a.lr) + times(byB, b.lr), times(byA, a.h) + times(byB, b.h),
	}
}

// times multiplies derivatives. A constant has derivative 0 even where the other factor is infinite, as
// that of sqrt(A) at 0.
func times(d, x float64) float64 {
	if d == 0 || x == 0 {
		return 0
	}
	return d * x
}

// vanishes reports whether the result is 0 with its derivatives wherever A is 0, if the operands that
// vanish are.
func (o op) vanishes(args []value, x [3]dual) bool {
	switch o {
	case opNeg, opAbs, opTanh, opStop, opDiv:
		return args[0].vanishes
	case opPow:
		return args[0].vanishes && args[1].constant && x[1].v >= 1
	case opMul:
		return args[0].vanishes || args[1].vanishes
	case opAdd, opSub, opMin, opMax:
		return args[0].vanishes && args[1].vanishes
	case opIf:
		return args[1].vanishes && args[2].vanishes
	}
	return false
}
