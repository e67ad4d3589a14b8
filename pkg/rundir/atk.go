package rundir

import (
	"fmt"
	"math"
	"strings"
)

// atKTolerance is for the rounding of sums over problems.
const atKTolerance = 1e-6

// checkAtK returns an error unless pass@k and maj@k are shares for rising k up to the number of samples, k = 1 gives
// the answer reward, and pass@k does not fall and ends at the share of problems with a right completion.
func (e *Eval) checkAtK() error {
	for _, list := range []struct {
		name string
		at   []AtK
	}{{"pass_at", e.PassAt}, {"majority_at", e.MajorityAt}} {
		for i, x := range list.at {
			fail := func(format string, args ...any) error {
				return fmt.Errorf("%s, k = %d: %s", list.name, x.K, fmt.Sprintf(format, args...))
			}
			switch {
			case x.K < 1 || x.K > max(1, e.Samples):
				return fail("it is not from 1 to samples, %d", max(1, e.Samples))
			case i > 0 && x.K <= list.at[i-1].K:
				return fail("it follows k = %d", list.at[i-1].K)
			case !(0 <= x.Lo && x.Lo <= x.Mean && x.Mean <= x.Hi && x.Hi <= 1):
				return fail("%v [%v, %v] is no share with an interval", x.Mean, x.Lo, x.Hi)
			case x.K == 1 && math.Abs(x.Mean-e.Sampled.AnswerReward) > atKTolerance:
				return fail("%v contradicts answer_reward %v", x.Mean, e.Sampled.AnswerReward)
			}
		}
	}
	for i, x := range e.PassAt {
		if i > 0 && x.Mean < e.PassAt[i-1].Mean-atKTolerance {
			return fmt.Errorf("pass_at, k = %d: %v is below that of k = %d, %v", x.K, x.Mean, e.PassAt[i-1].K,
				e.PassAt[i-1].Mean)
		}
		if solved := e.solved(); x.K == len(e.Right) && math.Abs(x.Mean-solved) > atKTolerance {
			return fmt.Errorf("pass_at, k = %d: %v contradicts right, by which %v of the problems have a right completion",
				x.K, x.Mean, solved)
		}
	}
	return nil
}

// solved is the share of problems with a right completion, by [Eval.Right].
func (e *Eval) solved() float64 {
	n := 0
	for i := range e.Problems() {
		for _, digits := range e.Right {
			if strings.IndexByte(hexDigits, digits[i/4])&(8>>(i%4)) != 0 {
				n++
				break
			}
		}
	}
	return float64(n) / float64(max(1, e.Problems()))
}
