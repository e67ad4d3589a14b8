package gsm8k

import (
	"errors"
	"fmt"
	"math"

	"grpo/pkg/rng"
)

// GenOptions says what [Generate] makes.
type GenOptions struct {
	Seed uint64
	// WeightAdd, WeightSub and WeightMul say how often each type occurs in Train,
	// Val, Test and Unseen (relative). A type of weight 0 occurs nowhere.
	WeightAdd, WeightSub, WeightMul float64
	// ValSize, TestSize and UnseenSize are the sizes of the evaluation splits; 0
	// leaves a split empty.
	ValSize, TestSize, UnseenSize int
	// TrainSize is the number of training problems; 0 means as many as the
	// weights allow.
	TrainSize int
}

func (o GenOptions) weights() []float64 { return []float64{o.WeightAdd, o.WeightSub, o.WeightMul} }

// Splits are disjoint by question.
type Splits struct {
	// SFT holds the questions that supervised stages may use. It is a pool: all
	// questions set aside for it, whatever the weights; the corpora draw from it
	// by type.
	SFT []Problem
	// Train holds the prompts of GRPO. Val is for choices, Test for one
	// evaluation at the end.
	Train, Val, Test []Problem
	// Unseen asks for operand facts that occur in no other split.
	Unseen []Problem
}

// The questions of one fact are shuffled and dealt to the splits in these
// numbers (they sum to questionsPerFact). The deal is the same for any sizes and
// weights, which only choose a prefix: a base model that was trained on SFT stays
// clean for every Val and Test of the same seed. And as every fact deals to
// every split, SFT covers each fact of Train, Val and Test.
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
// About a tenth of each type's facts is held out for Unseen; a sum or a product
// goes together with its mirror image, so that 7+5 is never unseen while 5+7 is
// trained on, and a number minus itself is never held out, because its answer
// takes no fact. In a split facts come evenly: every fact occurs once before any
// occurs twice.
//
// A size that exceeds what there is, a negative size, and weights that are
// negative, not finite or all zero are errors.
func Generate(opt GenOptions) (Splits, error) {
	if err := opt.check(); err != nil {
		return Splits{}, fmt.Errorf("generate problems: %w", err)
	}
	stream := rng.New(opt.Seed, rng.Problems)
	weights := opt.weights()
	var sft, train, val, test, unseen [3][]Problem // by type
	for typ := range types {
		if weights[typ] == 0 {
			continue
		}
		facts := factsOf(typ)
		held := holdOut(stream, typ, facts)
		rounds := dealRounds(stream, typ, facts, func(i int) bool { return !held[i] })
		sft[typ], rounds = takeRounds(rounds, dealSFT)
		train[typ], rounds = takeRounds(rounds, dealTrain)
		val[typ], rounds = takeRounds(rounds, dealVal)
		test[typ], _ = takeRounds(rounds, dealTest)
		unseen[typ], _ = takeRounds(dealRounds(stream, typ, facts, func(i int) bool { return held[i] }), questionsPerFact)
	}

	var s Splits
	for typ := range types {
		s.SFT = append(s.SFT, sft[typ]...)
	}
	for _, split := range []struct {
		option string
		size   int
		pools  [3][]Problem
		dst    *[]Problem
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
		if size > len(all) {
			return Splits{}, fmt.Errorf("generate problems: %s %d: there are only %d such problems with weights add %g, sub %g, mul %g",
				split.option, size, len(all), opt.WeightAdd, opt.WeightSub, opt.WeightMul)
		}
		*split.dst = all[:size:size]
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
	for _, s := range []struct {
		option string
		size   int
	}{{"train_size", o.TrainSize}, {"val_size", o.ValSize}, {"test_size", o.TestSize}, {"unseen_size", o.UnseenSize}} {
		if s.size < 0 {
			return fmt.Errorf("%s %d: want at least 0", s.option, s.size)
		}
	}
	return nil
}

// holdOut marks the facts that only Unseen asks for: facts in random order, each
// with its mirror image if its operator commutes, until the share is reached.
// Differences of zero are passed over: a-a = 0 is a rule and not a fact, and a
// few of them would give Unseen a majority answer.
func holdOut(stream rng.Stream, typ int, facts []fact) []bool {
	index := make(map[fact]int, len(facts))
	order := make([]int, len(facts))
	for i, f := range facts {
		index[f], order[i] = i, i
	}
	shuffle(stream.Sequence(drawHeldOut, uint32(typ), 0), order)

	held := make([]bool, len(facts))
	n, want := 0, int(math.Round(heldOutShare*float64(len(facts))))
	for _, i := range order {
		if n >= want {
			break
		}
		f := facts[i]
		pair := []int{i}
		if f.op != '-' {
			pair = append(pair, index[fact{f.op, f.b, f.a}])
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

// dealRounds returns one round for each question of a fact; a round asks for
// every fact of a type that keep admits (by index) once, in random order.
func dealRounds(stream rng.Stream, typ int, facts []fact, keep func(int) bool) [][]Problem {
	rounds := make([][]Problem, questionsPerFact)
	for i, f := range facts {
		if !keep(i) {
			continue
		}
		order := make([]int, questionsPerFact)
		for k := range order {
			order[k] = k
		}
		shuffle(stream.Sequence(drawDeal, uint32(typ), uint32(i)), order)
		for r, k := range order {
			q := question{name: names[k/len(items)], item: items[k%len(items)], fact: f}
			rounds[r] = append(rounds[r], q.problem(i*questionsPerFact+k))
		}
	}
	for r := range rounds {
		shuffle(stream.Sequence(drawRound, uint32(typ), uint32(r)), rounds[r])
	}
	return rounds
}

// takeRounds joins the first n rounds and returns the others.
func takeRounds(rounds [][]Problem, n int) (joined []Problem, rest [][]Problem) {
	for _, r := range rounds[:n] {
		joined = append(joined, r...)
	}
	return joined, rounds[n:]
}

// mix interleaves the types by weight until the next one in turn is used up.
func mix(pools [3][]Problem, weights []float64) []Problem {
	var out []Problem
	counts := make([]int, len(pools))
	for {
		typ := nextByWeight(counts, weights)
		if typ < 0 || counts[typ] == len(pools[typ]) {
			return out
		}
		out = append(out, pools[typ][counts[typ]])
		counts[typ]++
	}
}
