package task

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// Options are the options of [Task.Generate]. Zeros are the task's defaults.
type Options struct {
	Seed       uint64
	Difficulty int
	// MinDifficulty, if it is not 0, mixes the difficulties from it to Difficulty in equal parts.
	MinDifficulty int
	Symbols       string // the letters or digits of words
	Largest       int    // the largest of the numbers
	Operators     string // those of the expressions
	// Arithmetic are the options of problems of one step. Its seed and sizes are not used.
	Arithmetic gsm8k.GenOptions
	// WithoutSFT leaves SFT empty. The other splits stay the same.
	WithoutSFT bool

	// Sizes of splits. SFT and Train of size 0 have all questions, but at most [Most] of each difficulty. Of
	// arithmetic SFT has all questions, whatever its size.
	SFTSize, TrainSize, ValSize, TestSize, UnseenSize int
}

// Most is the number of questions of a difficulty that the splits SFT and Train have at most.
const Most = 16384

// shares are the parts of the questions, of 48, that are dealt to the splits. They don't depend on sizes, so a base model
// that was trained on SFT of a seed has seen no question of the other splits of that seed, whatever their sizes.
const (
	sftShare   = 16
	trainShare = 16
	valShare   = 8
	allShares  = 48 // the rest is for Test
)

// heldOutShare is the part of the facts that only Unseen asks for.
const heldOutShare = 0.1

// Coordinates of the draws in the stream rng.Problems, beyond those of pkg/gsm8k. The second coordinate is the
// difficulty.
const (
	drawOrder = iota + 16
	drawHeldOut
	drawTarget
	drawStep
)

// fill replaces the options that were left open.
func (t *Task) fill(o Options) (Options, error) {
	o.Difficulty = cmp.Or(o.Difficulty, t.Default)
	o.MinDifficulty = cmp.Or(o.MinDifficulty, o.Difficulty)
	o.Symbols = cmp.Or(o.Symbols, DefaultSymbols)
	o.Largest = cmp.Or(o.Largest, DefaultLargest)
	o.Operators = cmp.Or(o.Operators, DefaultOperators)
	for _, d := range []int{o.Difficulty, o.MinDifficulty} {
		if d < t.Min || d > t.Max {
			return o, fmt.Errorf("difficulty %d: the task %s has %d to %d %s", d, t.Name, t.Min, t.Max, t.Unit)
		}
	}
	if o.MinDifficulty > o.Difficulty {
		return o, fmt.Errorf("min_difficulty %d is above the difficulty, %d", o.MinDifficulty, o.Difficulty)
	}
	return o, errors.Join(CheckSymbols(o.Symbols), CheckOperators(o.Operators))
}

// Generate makes the problems of a task. It is a pure function of its options, and each difficulty, seed and set of
// symbols or numbers has its own questions: they don't depend on sizes or on the difficulties they are mixed with.
//
// A size that is negative or exceeds the questions that there are is an error that says how many there are.
func (t *Task) Generate(o Options) (gsm8k.Splits, error) {
	var out gsm8k.Splits
	o, err := t.fill(o)
	if err == nil && t.questions == nil {
		out, err = t.chains(o)
	} else if err == nil {
		out, err = t.mixed(o)
	}
	if err != nil {
		return gsm8k.Splits{}, fmt.Errorf("generate problems of the task %s: %w", t.Name, err)
	}
	return out, nil
}

// mixed deals the questions of each difficulty and mixes them.
func (t *Task) mixed(o Options) (gsm8k.Splits, error) {
	levels := o.Difficulty - o.MinDifficulty + 1
	parts := make([]gsm8k.Splits, levels)
	for i := range levels {
		// The part of a size that falls to this difficulty.
		part := func(size int) int { return size/levels + min(1, max(0, size%levels-i)) }
		want := []wanted{
			{"sft_size", part(o.SFTSize), &parts[i].SFT}, {"train_size", part(o.TrainSize), &parts[i].Train},
			{"val_size", part(o.ValSize), &parts[i].Val}, {"test_size", part(o.TestSize), &parts[i].Test},
			{"unseen_size", part(o.UnseenSize), &parts[i].Unseen},
		}
		for k, size := range []int{o.SFTSize, o.TrainSize} {
			if size == 0 {
				want[k].size = -1
			}
		}
		if o.WithoutSFT {
			want[0].size = 0
		}
		if err := t.deal(o, o.MinDifficulty+i, want); err != nil {
			return gsm8k.Splits{}, err
		}
	}
	mix := func(of func(gsm8k.Splits) []gsm8k.Problem) (out []gsm8k.Problem) {
		for k, more := 0, true; more; k++ {
			more = false
			for _, p := range parts {
				if from := of(p); k < len(from) {
					out, more = append(out, from[k]), true
				}
			}
		}
		return out
	}
	return gsm8k.Splits{
		SFT:    mix(func(s gsm8k.Splits) []gsm8k.Problem { return s.SFT }),
		Train:  mix(func(s gsm8k.Splits) []gsm8k.Problem { return s.Train }),
		Val:    mix(func(s gsm8k.Splits) []gsm8k.Problem { return s.Val }),
		Test:   mix(func(s gsm8k.Splits) []gsm8k.Problem { return s.Test }),
		Unseen: mix(func(s gsm8k.Splits) []gsm8k.Problem { return s.Unseen }),
	}, nil
}

// wanted is a split with the number of problems that it gets; -1 is all, up to [Most].
type wanted struct {
	option string
	size   int
	to     *[]gsm8k.Problem
}

// deal gives the questions of a difficulty to the splits: SFT, Train, Val, Test and Unseen, in this order.
func (t *Task) deal(o Options, difficulty int, want []wanted) error {
	for _, w := range want[1:] {
		if w.size < -1 {
			return fmt.Errorf("%s %d: want at least 0", w.option, w.size)
		}
	}
	stream := rng.New(o.Seed, rng.Problems)
	q := t.questions(o, difficulty)
	order := permutation{stream, uint32(difficulty), q.n}
	open := func(w wanted) bool { return len(*w.to) < w.size || w.size < 0 && len(*w.to) < Most }
	left := len(want)
	for _, w := range want {
		if !open(w) {
			left--
		}
	}
	for p := uint64(0); p < q.n && left > 0; p++ {
		to := 3
		switch share := p % allShares; {
		case share < sftShare:
			to = 0
		case share < sftShare+trainShare:
			to = 1
		case share < sftShare+trainShare+valShare:
			to = 2
		}
		number := order.at(p)
		x, ok := q.at(number)
		if !ok {
			continue
		}
		if heldOut(stream, difficulty, x.fact) {
			to = len(want) - 1
		}
		if w := want[to]; open(w) {
			*w.to = append(*w.to, t.problem(x, difficulty, number))
			if !open(w) {
				left--
			}
		}
	}
	for _, w := range want[1:] {
		if n := len(*w.to); n < w.size {
			return fmt.Errorf("%s: %d problems of difficulty %d are asked for, and there are only %d (lower data.%s, or "+
				"raise data.difficulty)", w.option, w.size, difficulty, n, w.option)
		}
	}
	return nil
}

// heldOut reports whether a fact is one of those that only Unseen asks for.
func heldOut(stream rng.Stream, difficulty int, fact string) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, fact) // never fails
	sum := h.Sum64()
	return float64(stream.Block(drawHeldOut, uint32(difficulty), uint32(sum>>32), uint32(sum))[0]) < heldOutShare*(1<<32)
}

func (t *Task) problem(x question, difficulty int, number uint64) gsm8k.Problem {
	answer := marker + " " + x.answer
	if x.work != "" {
		answer = x.work + "\n" + answer
	}
	return gsm8k.Problem{
		ID:       fmt.Sprintf("%s-%d-%d", t.Name, difficulty, number),
		Question: x.text, Answer: answer, Gold: cmp.Or(x.gold, x.answer), Type: levelType(t.Name, difficulty), Fact: x.fact,
		Fields: x.fields,
	}
}

// levelType is the type of problems of a difficulty.
func levelType(name string, difficulty int) string { return fmt.Sprintf("%s-%d", name, difficulty) }

// permutation maps 0..n-1 onto itself in an order that looks random, without a table: a Feistel network of four
// rounds on the least even number of bits that hold n-1, repeated until the result is below n.
type permutation struct {
	stream rng.Stream
	key    uint32
	n      uint64
}

func (p permutation) at(i uint64) uint64 {
	half := (max(2, bits.Len64(p.n-1)) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		left, right := i>>half, i&mask
		for round := range uint32(4) {
			f := uint64(p.stream.Block(drawOrder, p.key, round, uint32(right))[0])
			left, right = right, left^f&mask
		}
		if i = left<<half | right; i < p.n {
			return i
		}
	}
}

// replaceAnswer is a worked solution with another answer.
func replaceAnswer(answer, value string) string {
	work, _, _ := strings.Cut(answer, marker)
	return work + marker + " " + value
}

// answerOf is the answer of a problem without its work.
func answerOf(p gsm8k.Problem) string {
	_, text, _ := strings.Cut(p.Answer, marker+" ")
	return text
}
