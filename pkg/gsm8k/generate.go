package gsm8k

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rng"
)

// GenOptions are the options of [Generate].
type GenOptions struct {
	Seed uint64
	// WeightAdd, WeightSub and WeightMul are the relative frequencies of the types in
	// Train, Val, Test and Unseen. A type of weight 0 does not occur.
	WeightAdd, WeightSub, WeightMul float64
	// ValSize, TestSize and UnseenSize are the sizes of the evaluation splits; 0
	// leaves a split empty.
	ValSize, TestSize, UnseenSize int
	// TrainSize is the number of training problems; 0 is the largest number that the
	// weights allow.
	TrainSize int
	// WithoutSFT leaves SFT empty, which has most of the problems. The other splits stay the same.
	WithoutSFT bool
}

func (o GenOptions) weights() []float64 { return []float64{o.WeightAdd, o.WeightSub, o.WeightMul} }

// Splits are disjoint by question.
type Splits struct {
	// SFT has the questions that supervised stages may use: all questions set
	// aside for them, whatever the weights. The corpora draw from it by type.
	SFT []Problem
	// Train has the prompts of GRPO. Val is for model selection, Test is evaluated once at the end.
	Train, Val, Test []Problem
	// Unseen asks for operand facts that occur in no other split.
	Unseen []Problem
}

// The questions of one fact are shuffled and dealt to the splits in these
// numbers (they sum to questionsPerFact). Sizes and weights only choose a prefix of
// each split, so the deal does not depend on them: no question of SFT is in the Val
// or Test of the same seed. Every fact deals to every split, so SFT covers each fact
// of Train, Val and Test.
const (
	dealSFT   = 20
	dealTrain = 16
	dealVal   = 6
	dealTest  = 6
)

// heldOutShare is the part of each type's facts that only Unseen asks for.
const heldOutShare = 0.1

// Coordinates of the draws in the stream rng.Problems.
const (
	drawHeldOut = iota
	drawDeal
	drawRound
)

// Generate makes the one-step word problems of the default experiment: 251
// operand facts (121 sums, 66 differences, 64 products), each asked with 8 names
// and 6 items, 12048 questions in all. It is a pure function of its options.
//
// About a tenth of each type's facts is held out for Unseen. A sum or a product is
// held out together with its mirror image, so that 7+5 is never unseen if 5+7 is
// trained on. A number minus itself is never held out, because its answer needs no
// fact. Each split is balanced over facts: every fact occurs once before any occurs
// twice.
//
// Sizes that are negative or exceed the available problems are errors, and so are
// weights that are negative, not finite or all zero.
func Generate(opt GenOptions) (Splits, error) {
	if err := opt.check(); err != nil {
		return Splits{}, fmt.Errorf("generate problems: %w", err)
	}
	stream := rng.New(opt.Seed, rng.Problems)
	weights := opt.weights()
	var s Splits
	var train, val, test, unseen [3][]int // the numbers of the questions, by type
	var factsBy [3][]fact
	for typ := range types {
		if weights[typ] == 0 {
			continue
		}
		facts := factsOf(typ)
		factsBy[typ] = facts
		held := holdOut(stream, typ, facts)
		var sft []int
		rounds := dealRounds(stream, typ, facts, func(i int) bool { return !held[i] })
		for _, deal := range []struct {
			n  int
			to *[]int
		}{{dealSFT, &sft}, {dealTrain, &train[typ]}, {dealVal, &val[typ]}, {dealTest, &test[typ]}} {
			*deal.to, rounds = slices.Concat(rounds[:deal.n]...), rounds[deal.n:]
		}
		if !opt.WithoutSFT {
			for _, number := range sft {
				s.SFT = append(s.SFT, numbered(facts, number))
			}
		}
		unseen[typ] = slices.Concat(dealRounds(stream, typ, facts, func(i int) bool { return held[i] })...)
	}
	for _, split := range []struct {
		option string
		size   int
		pools  [3][]int
		to     *[]Problem
	}{
		{"train_size", opt.TrainSize, train, &s.Train},
		{"val_size", opt.ValSize, val, &s.Val},
		{"test_size", opt.TestSize, test, &s.Test},
		{"unseen_size", opt.UnseenSize, unseen, &s.Unseen},
	} {
		all := mix(split.pools, weights)
		size := split.size
		if split.option == "train_size" && size == 0 {
			size = len(all)
		}
		if size < 0 {
			return Splits{}, fmt.Errorf("generate problems: %s %d: want at least 0", split.option, size)
		}
		if size > len(all) {
			return Splits{}, fmt.Errorf("generate problems: %s %d: there are only %d such problems "+
				"with weights add %g, sub %g, mul %g",
				split.option, size, len(all), opt.WeightAdd, opt.WeightSub, opt.WeightMul)
		}
		*split.to = make([]Problem, size)
		for i, d := range all[:size] {
			(*split.to)[i] = numbered(factsBy[d.typ], d.number)
		}
	}
	return s, nil
}

func (o GenOptions) check() error {
	sum := 0.0
	for i, w := range o.weights() {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("weight_%s %g: want a finite number of at least 0", types[i], w)
		}
		sum += w
	}
	if sum == 0 {
		return errors.New("weight_add, weight_sub and weight_mul are all 0: want at least one above")
	}
	return nil
}

// holdOut marks the facts that only Unseen asks for: facts in random order, each
// with its mirror image if its operator commutes, until the share is reached.
// It skips differences of zero: a-a = 0 is a rule and not a fact, and a few of them
// would give Unseen a majority answer.
func holdOut(stream rng.Stream, typ int, facts []fact) []bool {
	order := upTo(len(facts))
	rng.ShuffleSlice(stream.Sequence(drawHeldOut, uint32(typ), 0), order)

	held := make([]bool, len(facts))
	n, want := 0, int(math.Round(heldOutShare*float64(len(facts))))
	for _, i := range order {
		if n >= want {
			break
		}
		f := facts[i]
		pair := []int{i}
		if f.op != '-' {
			pair = append(pair, slices.Index(facts, fact{f.op, f.b, f.a}))
		} else if f.value() == 0 {
			continue
		}
		for _, j := range pair {
			if !held[j] {
				held[j] = true
				n++
			}
		}
	}
	return held
}

// numbered is the problem of a question by its number among those of its type: facts, names, items.
// Questions are dealt by number because a run uses a part of them, and writes only that part.
func numbered(facts []fact, number int) Problem {
	k := number % questionsPerFact
	q := question{name: names[k/len(items)], item: items[k%len(items)], fact: facts[number/questionsPerFact]}
	return q.problem(number)
}

// dealRounds returns one round for each question of a fact; a round has the number of one
// question, in random order, for every fact of a type whose index keep accepts.
func dealRounds(stream rng.Stream, typ int, facts []fact, keep func(int) bool) [][]int {
	rounds := make([][]int, questionsPerFact)
	for i := range facts {
		if !keep(i) {
			continue
		}
		order := upTo(questionsPerFact)
		rng.ShuffleSlice(stream.Sequence(drawDeal, uint32(typ), uint32(i)), order)
		for r, k := range order {
			rounds[r] = append(rounds[r], i*questionsPerFact+k)
		}
	}
	for r := range rounds {
		rng.ShuffleSlice(stream.Sequence(drawRound, uint32(typ), uint32(r)), rounds[r])
	}
	return rounds
}

// dealt is a question by its type and its number.
type dealt struct{ typ, number int }

// mix interleaves the types by weight until the next one in turn is used up.
func mix(pools [3][]int, weights []float64) []dealt {
	var out []dealt
	counts := make([]int, len(pools))
	for {
		typ := nextByWeight(counts, weights)
		if typ < 0 || counts[typ] == len(pools[typ]) {
			return out
		}
		out = append(out, dealt{typ, pools[typ][counts[typ]]})
		counts[typ]++
	}
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// nextByWeight returns the index whose count is furthest below its weight, the
// first of equals, or -1 if no weight is positive: the method of Sainte-Lague,
// argmin (count + 1/2) / weight. Every prefix of the sequence of indices follows
// the weights, and a longer sequence starts with the shorter one.
func nextByWeight(counts []int, weights []float64) int {
	best, bestQuotient := -1, 0.0
	for i, w := range weights {
		if !(w > 0) {
			continue
		}
		if q := (float64(counts[i]) + 0.5) / w; best < 0 || q < bestQuotient {
			best, bestQuotient = i, q
		}
	}
	return best
}
