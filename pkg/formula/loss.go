package formula

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"grpo/pkg/elementary"
)

// moving are the variables of a loss that have a derivative.
var moving = []string{"ratio", "logp", "entropy"}

var lossVariables = []string{"ratio", "logp", "old", "ref", "A", "entropy"}

// elementwise are the functions of numbers.
var elementwise = map[string]function{
	"abs": {op: opAbs, args: 1, form: "abs(x)"}, "exp": {op: opExp, args: 1, form: "exp(x)"},
	"log": {op: opLog, args: 1, form: "log(x)"}, "sqrt": {op: opSqrt, args: 1, form: "sqrt(x)"},
	"sigmoid": {op: opSigmoid, args: 1, form: "sigmoid(x)"}, "tanh": {op: opTanh, args: 1, form: "tanh(x)"},
	"clip": {op: opClip, args: 3, form: "clip(x, low, high)"},
	"min":  {op: opMin, args: 2, many: true, form: "min(x, y)"},
	"max":  {op: opMax, args: 2, many: true, form: "max(x, y)"},
}

var lossFunctions = with(elementwise, map[string]function{
	"stop_gradient": {op: opStop, args: 1, form: "stop_gradient(x)"}, "sg": {op: opStop, args: 1, form: "sg(x)"},
})

func with(a, b map[string]function) map[string]function {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// Loss is the loss of one token: a formula of
//
//	ratio     the importance ratio, of the token or of its sequence
//	logp      the log-probability of the token under the policy
//	old, ref  the same at sampling time, and under the reference model
//	A         the advantage
//	entropy   the policy's entropy at the token, in nats
//	eps       the bounds of a clip: algorithm.cliprange,
//	eps_high  and epsilon_high, or cliprange if that is 0
//
// It is not safe for use by several goroutines.
type Loss struct {
	*program
	registers []dual
}

// ParseLoss compiles a loss. A formula without a gradient is an error.
func ParseLoss(text string, eps, epsHigh float64) (*Loss, error) {
	p, err := compile(text, language{
		lossVariables, map[string]float64{"eps": eps, "eps_high": epsHigh}, lossFunctions,
	})
	switch {
	case err != nil:
		return nil, err
	case !p.result.moves:
		return nil, errors.New("it has no gradient: it must depend on ratio, logp or entropy, outside of stop_gradient " +
			"and of conditions")
	}
	return &Loss{p, append([]dual(nil), p.start...)}, nil
}

// Vanishes reports whether an advantage of 0 gives a loss of 0 with a gradient of 0, whatever the other
// variables are.
func (l *Loss) Vanishes() bool { return l.result.vanishes }

// At returns the loss of a token and its derivatives: by its log-probability with a constant ratio, by
// the log of the ratio, and by its entropy.
func (l *Loss) At(ratio, logp, old, ref, adv, entropy float64) (value, dLogProb, dLogRatio, dEntropy float64) {
	r := l.registers
	l.set([...]float64{ratio, logp, old, ref, adv, entropy})
	for i := range l.code {
		in := &l.code[i]
		r[in.out] = apply(in.op, r[in.a], r[in.b], r[in.c])
	}
	out := &r[l.result.at]
	return out.v, out.lp, out.lr, out.h
}

// set fills in the variables, in the order of lossVariables.
func (l *Loss) set(x [6]float64) {
	r := l.registers
	r[0] = dual{v: x[0], lr: x[0]} // d ratio / d log ratio
	r[1] = dual{v: x[1], lp: 1}
	r[2].v, r[3].v, r[4].v = x[2], x[3], x[4]
	r[5] = dual{v: x[5], h: 1}
}

// CheckGradient compares the derivatives with central differences at fixed points that look random, and
// returns an error if they differ, which would be a bug. It leaves out points where differences say
// nothing: near a kink or a jump, where rounding dominates, or where numbers are not finite. A loss that
// is finite at no point is an error, too. It takes well below a millisecond.
func (l *Loss) CheckGradient() error { return l.checkGradient(l.At) }

type gradient func(ratio, logp, old, ref, adv, entropy float64) (value, dLogProb, dLogRatio, dEntropy float64)

func (l *Loss) checkGradient(at gradient) error {
	const points, step = 32, 1e-4
	finite := false
	for i := range points {
		u := func(k int) float64 { // in 0..1: coordinate k of 6 of a sequence that fills space evenly (R sequence)
			_, f := math.Modf(0.5 + float64(float64(i+1)*elementary.Pow(0.8986537126286993, float64(k))))
			return f
		}
		logp := float64(-4*u(1)) - 0.05
		x := [6]float64{elementary.Exp(float64(1.2*u(2)) - 0.6), logp, logp + u(3) - 0.5, logp + float64(2*u(4)) - 1,
			float64(8*u(5)) - 4, 3 * u(6)}
		v, lp, lr, h := at(x[0], x[1], x[2], x[3], x[4], x[5])
		finite = finite || isFinite(v)
		l.At(x[0], x[1], x[2], x[3], x[4], x[5])
		center := append([]dual(nil), l.registers...)
		for k, d := range []float64{lp, lr, h} {
			move := func(by float64) [6]float64 {
				y := x
				switch k {
				case 0:
					y[1] += by
				case 1:
					y[0] *= elementary.Exp(by)
				case 2:
					y[5] += by
				}
				return y
			}
			wide, ok := l.difference(move, step, center)
			near, ok2 := l.difference(move, step/2, center)
			size := math.Max(math.Abs(near), math.Abs(d))
			most, infinite := largest(center)
			if !ok || !ok2 || math.Abs(wide-near) > 1e-4*size || infinite && !isFinite(d) {
				continue
			}
			if noise := 1e-15 * most / step; !(math.Abs(d-near) <= float64(1e-3*size)+float64(10*noise)) {
				return fmt.Errorf("its derivative by the %s is %v, and %v by finite differences, at ratio %v, logp %v, "+
					"old %v, ref %v, A %v, entropy %v (this is a bug)",
					[]string{"log-probability", "log of the ratio", "entropy"}[k], d, near, x[0], x[1], x[2], x[3], x[4], x[5])
			}
		}
	}
	if !finite {
		v, _, _, _ := at(1, -1, -1, -1, 1, 1)
		return fmt.Errorf("its value is not a finite number, whatever the variables are: %v at ratio 1, logp, old and "+
			"ref -1, A 1, entropy 1", v)
	}
	return nil
}

// largest is the largest finite magnitude in the registers, of which rounding errors are a share;
// infinite reports that some are not finite.
func largest(r []dual) (out float64, infinite bool) {
	out = 1
	for _, x := range r {
		if isFinite(x.v) {
			out = math.Max(out, math.Abs(x.v))
		} else {
			infinite = true
		}
	}
	return out, infinite
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// difference is the central difference; false where it says nothing.
func (l *Loss) difference(move func(float64) [6]float64, step float64, center []dual) (float64, bool) {
	low, ok := l.shifted(move(-step), center)
	high, ok2 := l.shifted(move(step), center)
	d := (high - low) / (2 * step)
	return d, ok && ok2 && isFinite(d)
}

// shifted evaluates the loss near the point that has the registers center, whose values behind
// stop_gradient stay as they are; false if an instruction takes another side than there.
func (l *Loss) shifted(x [6]float64, center []dual) (float64, bool) {
	r := l.registers
	l.set(x)
	for i := range l.code {
		in := &l.code[i]
		if in.op == opStop {
			r[in.out] = dual{v: center[in.a].v}
			continue
		}
		a, b, c := r[in.a], r[in.b], r[in.c]
		if chosen(in.op, a, b, c) != chosen(in.op, center[in.a], center[in.b], center[in.c]) {
			return 0, false
		}
		r[in.out] = apply(in.op, a, b, c)
	}
	return r[l.result.at].v, true
}
