package task

import (
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// chainsOfEach is the number of questions of several steps that a question of the supervised stages is continued to.
const chainsOfEach = 4

// chains are the problems of [gsm8k.Generate], which have one step, continued to as many steps as the difficulty: "Tom
// has 7 pens and gets 5 more, loses 3. How many?". A question stays in the split of its first step, so splits are
// disjoint by question, and the unseen ones ask for first steps that no other split has.
func (t *Task) chains(o Options) (gsm8k.Splits, error) {
	one := o.Arithmetic
	one.Seed, one.TrainSize, one.ValSize = o.Seed, o.TrainSize, o.ValSize
	one.TestSize, one.UnseenSize, one.WithoutSFT = o.TestSize, o.UnseenSize, o.WithoutSFT
	s, err := gsm8k.Generate(one)
	if err != nil {
		return s, err
	}
	stream := rng.New(o.Seed, rng.Problems)
	levels := o.Difficulty - o.MinDifficulty + 1
	first, seen := s.SFT, map[string]bool{}
	s.SFT = nil
	for k := range chainsOfEach {
		for i, p := range first {
			if p = t.chain(stream, p, o.MinDifficulty+(i+k)%levels, k); !seen[p.Question] {
				seen[p.Question] = true
				s.SFT = append(s.SFT, p)
			}
		}
	}
	for _, split := range []*[]gsm8k.Problem{&s.Train, &s.Val, &s.Test, &s.Unseen} {
		next := map[string]int{} // by type: the types take turns, so by place a difficulty could have only one of them
		for i, p := range *split {
			level, ok := next[p.Type]
			if !ok {
				level = i // so that the first problems have all difficulties
			}
			next[p.Type] = level + 1
			(*split)[i] = t.chain(stream, p, o.MinDifficulty+level%levels, 0)
		}
	}
	return s, nil
}

// chain continues a problem of one step to several. variant tells the continuations of the same problem apart.
func (t *Task) chain(stream rng.Stream, p gsm8k.Problem, steps, variant int) gsm8k.Problem {
	if steps == 1 {
		return p
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, p.Question) // never fails
	q := stream.Sequence(drawStep, uint32(steps<<8+variant), h.Sum32())
	text, _ := strings.CutSuffix(p.Question, ". How many?")
	value, _ := strconv.Atoi(p.Gold)
	work := p.Fact + "=" + p.Gold
	for range steps - 1 {
		b, was := 2+q.Intn(8), value
		if q.Intn(2) == 1 && value >= b {
			value -= b
			text += fmt.Sprintf(", loses %d", b)
			work += fmt.Sprintf("\n%d-%d=%d", was, b, value)
		} else {
			value += b
			text += fmt.Sprintf(", gets %d more", b)
			work += fmt.Sprintf("\n%d+%d=%d", was, b, value)
		}
	}
	p.ID = fmt.Sprintf("%s-%d-%d", p.ID, steps, variant)
	p.Question, p.Gold, p.Type = text+". How many?", strconv.Itoa(value), levelType(t.Name, steps)
	p.Answer = work + "\n" + marker + " " + p.Gold
	return p
}

// wrongValue has a slip of 1 or 2 in the last step.
func wrongValue(p gsm8k.Problem, r *rng.Sequence) string {
	gold, _ := strconv.Atoi(p.Gold)
	wrong := gold + []int{-2, -1, 1, 2}[r.Intn(4)]
	if wrong < 0 {
		wrong = gold + 1
	}
	value := strconv.Itoa(wrong)
	work, _, _ := strings.Cut(p.Answer, "\n"+marker)
	last := strings.LastIndex(work, "\n") + 1
	step := strings.NewReplacer("="+p.Gold+">>"+p.Gold, "="+value+">>"+value).Replace(work[last:])
	if before, ok := strings.CutSuffix(step, "="+p.Gold); ok {
		step = before + "=" + value
	}
	return work[:last] + step + "\n" + marker + " " + value
}

// guessNumber is a number from 2 to 40, where most answers are.
func guessNumber(_ gsm8k.Problem, r *rng.Sequence) string {
	return fmt.Sprintf("%s %d", marker, 2+r.Intn(39))
}
