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

// Shares has for each problem the share of its completions of a decoding that are right; nil if the
// evaluation does not say which are.
func (e *Eval) Shares(decoding string) []float64 {
	right := e.Right
	if decoding == DecodingGreedy {
		right = e.RightGreedy
	}
	if len(right) == 0 {
		return nil
	}
	out := make([]float64, e.Problems())
	for _, digits := range right {
		for i := range out {
			if strings.IndexByte(hexDigits, digits[i/4])&(8>>(i%4)) != 0 {
				out[i] += 1 / float64(len(right))
			}
		}
	}
	return out
}

// checkRight returns an error unless Right and RightGreedy have a string for each sample, a bit for each problem
// and as many ones as there are right completions.
func (e *Eval) checkRight() error {
	if err := e.checkDigits("right", e.Right, max(1, e.Samples), e.Sampled); err != nil || len(e.RightGreedy) == 0 {
		return err
	}
	if e.Greedy == nil {
		return fmt.Errorf("right_greedy: there are no counts of greedy decoding")
	}
	return e.checkDigits("right_greedy", e.RightGreedy, 1, *e.Greedy)
}

func (e *Eval) checkDigits(key string, right []string, samples int, c Counts) error {
	if len(right) == 0 {
		return nil
	}
	if len(right) != samples {
		return fmt.Errorf("%s has %d strings; each problem has %s", key, len(right), textutil.Count(samples, "sample"))
	}
	problems, ones := e.Problems(), 0
	for s, digits := range right {
		if want := (problems + 3) / 4; len(digits) != want {
			return fmt.Errorf("%s, sample %d: %d hex digits where %d problems have %d", key, s+1, len(digits), problems, want)
		}
		for k := range len(digits) {
			d := strings.IndexByte(hexDigits, digits[k])
			if d < 0 {
				return fmt.Errorf("%s, sample %d: %q is not a lower-case hex digit", key, s+1, digits[k])
			}
			if unused := 4*(k+1) - problems; unused > 0 && d&(1<<unused-1) != 0 {
				return fmt.Errorf("%s, sample %d: it has a bit after the last of %d problems", key, s+1, problems)
			}
			ones += bits.OnesCount(uint(d))
		}
	}
	if ones != c.CorrectNum {
		return fmt.Errorf("%s has %d right completions, correct_num is %d", key, ones, c.CorrectNum)
	}
	return nil
}
