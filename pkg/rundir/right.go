package rundir

import (
	"fmt"
	"math/bits"
	"strings"

	"grpo/internal/textutil"
)

const hexDigits = "0123456789abcdef"

// RightOf encodes [Eval.Right]: right[i] is whether sample i%samples of problem i/samples is right.
func RightOf(right []bool, samples int) []string {
	out := make([]string, samples)
	for s := range out {
		digits := make([]byte, (len(right)/samples+3)/4)
		for i := s; i < len(right); i += samples {
			if problem := i / samples; right[i] {
				digits[problem/4] |= 8 >> (problem % 4)
			}
		}
		for k, d := range digits {
			digits[k] = hexDigits[d]
		}
		out[s] = string(digits)
	}
	return out
}

// Problems is the number of problems of an evaluation.
func (e *Eval) Problems() int { return e.Sampled.N / max(1, e.Samples) }

// OutOf is what the sampled counts are out of: "512 problems", or "2048 completions of 512 problems".
func (e *Eval) OutOf(problem string) string {
	out := textutil.Count(e.Problems(), problem)
	if e.Samples > 1 {
		out = fmt.Sprintf("%d completions of %s", e.Sampled.N, out)
	}
	return out
}

// Shares has for each problem the share of its sampled completions that are right; nil if the
// evaluation does not have [Eval.Right].
func (e *Eval) Shares() []float64 {
	if len(e.Right) == 0 {
		return nil
	}
	out := make([]float64, e.Problems())
	for _, digits := range e.Right {
		for i := range out {
			if strings.IndexByte(hexDigits, digits[i/4])&(8>>(i%4)) != 0 {
				out[i] += 1 / float64(len(e.Right))
			}
		}
	}
	return out
}

// checkRight returns an error unless Right has a string for each sample, a bit for each problem and
// as many ones as there are right completions.
func (e *Eval) checkRight() error {
	if len(e.Right) == 0 {
		return nil
	}
	samples, problems := max(1, e.Samples), e.Problems()
	if len(e.Right) != samples {
		return fmt.Errorf("right has %d strings; each problem has %d samples", len(e.Right), samples)
	}
	ones := 0
	for s, digits := range e.Right {
		if want := (problems + 3) / 4; len(digits) != want {
			return fmt.Errorf("right, sample %d: %d hex digits where %d problems have %d", s+1, len(digits), problems, want)
		}
		for k := range len(digits) {
			d := strings.IndexByte(hexDigits, digits[k])
			if d < 0 {
				return fmt.Errorf("right, sample %d: %q is not a lower-case hex digit", s+1, digits[k])
			}
			if unused := 4*(k+1) - problems; unused > 0 && d&(1<<unused-1) != 0 {
				return fmt.Errorf("right, sample %d: it has a bit after the last of %d problems", s+1, problems)
			}
			ones += bits.OnesCount(uint(d))
		}
	}
	if ones != e.Sampled.CorrectNum {
		return fmt.Errorf("right has %d right completions, correct_num is %d", ones, e.Sampled.CorrectNum)
	}
	return nil
}
