package gsm8k

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/rng"
)

// Example is one training example of a supervised stage.
type Example struct {
	Question   string
	Completion string
	Ended      bool // <eos> follows the completion; otherwise it was truncated
	Style      string
	Right      bool // the answer reward of the completion ([Answers.Grade])
}

// CorpusOptions are the options of a corpus.
type CorpusOptions struct {
	// Weights are the relative frequencies of the problem types add, sub and mul; types with weight
	// 0 or less are left out.
	Weights [3]float64
	// MaxChars is the length at which rambling completions are truncated. With the
	// sampling limit they teach a policy to reach it.
	MaxChars int
}

// Styles of completions in the preference corpus.
const (
	StyleShort           = "short"            // 7+5=12
	StyleAnnotated       = "annotated"        // 7+5=<<7+5=12>>12
	StyleWordy           = "wordy"            // Tom has 7+5=<<7+5=12>>12 pens.
	StyleNoMarker        = "no_marker"        // The answer is 12.
	StyleNoMarkerWork    = "no_marker_work"   // 7+5=12 pens.
	StyleWrongOperation  = "wrong_operation"  // 7*5=<<7*5=35>>35
	StyleWrongArithmetic = "wrong_arithmetic" // 7+5=<<7+5=13>>13
	StyleGuess           = "guess"            // #### 9
	StyleRambling        = "rambling"         // So Tom has 7+5=12 pens. So ...
)

// StyleAnswer marks the worked answers of [AnswerCorpus].
const StyleAnswer = "answer"

// Mixture is the second stage of a base model, which makes the capability of the first one rare: the share of each style
// in the completions of a problem, for most problems and for the textbook ones. There are two because greedy decoding
// follows the most common style: with a single mixture a greedy base model scores 0 or 1.
type Mixture []StyleShares

// StyleShares are the shares of a style in a [Mixture].
type StyleShares struct {
	Style          string
	Most, Textbook float64
}

// Draw returns a random style.
func (m Mixture) Draw(r *rng.Sequence, textbook bool) string {
	u := r.Float64()
	for _, s := range m {
		share := s.Most
		if textbook {
			share = s.Textbook
		}
		if u -= share; u < 0 {
			return s.Style
		}
	}
	return m[len(m)-1].Style
}

// mixture is that of the default base model, whose textbook problems are those of some names.
//
// The first three styles are right: 0.20 and 0.50, and with 2 of 8 names in the textbook the corpus
// has an answer reward of 0.75*0.20 + 0.25*0.50 = 0.275 (and about 0.002 more from lucky guesses).
var mixture = Mixture{
	{StyleShort, .05, .17},
	{StyleAnnotated, .09, .20},
	{StyleWordy, .06, .13},
	{StyleNoMarker, .10, .10},
	{StyleNoMarkerWork, .28, .06},
	{StyleWrongOperation, .13, .12},  // a third each: short, annotated, wordy
	{StyleWrongArithmetic, .06, .06}, // likewise
	{StyleGuess, .07, .06},
	{StyleRambling, .16, .10},
}

// textbookNames get the textbook mixture.
var textbookNames = []string{"Eve", "Max"}

// Coordinates of the draws in the stream rng.Corpus.
const (
	drawQuestions = iota
	drawCompletion
)

// CompletionDraws are the draws for example i of a corpus.
func CompletionDraws(seed uint64, i int) *rng.Sequence {
	return rng.New(seed, rng.Corpus).Sequence(drawCompletion, uint32(i), 0)
}

// CapabilityCorpus returns n examples of stage 1: right solutions in the annotated form only, e.g.
// "7+5=<<7+5=12>>12", newline, "#### 12". Types come by weight; the questions of a type come in
// random order, and none repeats before all have been used.
//
// Only problems in the form of [Generate] are used (Splits.SFT), because others cannot be written
// in this form. The result is nil if there are none.
func CapabilityCorpus(problems []Problem, n int, seed uint64, o CorpusOptions) []Example {
	var out []Example
	for _, q := range drawn(problems, n, seed, o.Weights) {
		out = append(out, example(q, StyleAnnotated, q.write(annotated, q.fact, q.fact.value()), true))
	}
	return out
}

// PreferenceCorpus returns n examples of stage 2, which makes the capability of
// stage 1 rare among completions of mixed quality (mixture). The problems are drawn
// as in [CapabilityCorpus].
//
// A wrong operation never shows an operand fact that the generator may have held
// out: a fact in the generator's range, of a type that occurs in problems, that is
// itself missing there. If no other operation remains, the example has wrong
// arithmetic instead.
func PreferenceCorpus(problems []Problem, n int, seed uint64, o CorpusOptions) []Example {
	seen := seenFacts(problems)
	var out []Example
	for i, q := range drawn(problems, n, seed, o.Weights) {
		out = append(out, o.preference(q, seen, CompletionDraws(seed, i)))
	}
	return out
}

// AnswerCorpus returns one example for each problem that has a worked answer.
func AnswerCorpus(problems []Problem, a Answers) (out []Example) {
	for _, p := range problems {
		if p.Answer == "" {
			continue
		}
		out = append(out, Example{
			Question: p.Question, Completion: p.Answer, Ended: true,
			Style: StyleAnswer, Right: a.Grade(p.Answer, true, p).Right,
		})
	}
	return out
}

// drawn returns n questions, with types by weight.
func drawn(problems []Problem, n int, seed uint64, weights [3]float64) []question {
	pools := make([][]question, len(types))
	for _, p := range problems {
		if q, ok := parseQuestion(p.Question); ok {
			pools[q.typ()] = append(pools[q.typ()], q)
		}
	}
	for typ, pool := range pools {
		if len(pool) == 0 {
			weights[typ] = 0
		}
	}
	return DrawFrom(pools, weights[:], n, seed)
}

// DrawFrom returns n elements of pools, by their weights. Those of a pool come in random order, and none repeats before
// all have been used; an empty pool needs the weight 0. It reorders the pools. The result is nil if no weight is
// positive.
func DrawFrom[T any](pools [][]T, weights []float64, n int, seed uint64) (out []T) {
	stream := rng.New(seed, rng.Corpus)
	counts := make([]int, len(pools))
	for range n {
		i := nextByWeight(counts, weights)
		if i < 0 {
			return nil
		}
		pool := pools[i]
		if pass := counts[i] / len(pool); counts[i]%len(pool) == 0 {
			rng.ShuffleSlice(stream.Sequence(drawQuestions, uint32(i), uint32(pass)), pool)
		}
		out = append(out, pool[counts[i]%len(pool)])
		counts[i]++
	}
	return out
}

func example(q question, style, completion string, ended bool) Example {
	return Example{
		Question: q.text(), Completion: completion, Ended: ended, Style: style,
		Right: Answers{}.Grade(completion, ended, Problem{Gold: strconv.Itoa(q.fact.value())}).Right,
	}
}

// preference writes one completion in a random style of the name's mixture.
func (o CorpusOptions) preference(q question, seen factSet, r *rng.Sequence) Example {
	f, gold := q.fact, q.fact.value()
	style := mixture.Draw(r, slices.Contains(textbookNames, q.name))
	if style == StyleWrongOperation {
		if f = wrongOperation(q.fact, seen, r); f == q.fact {
			style = StyleWrongArithmetic
		}
	}
	text, ended := "", true
	switch style {
	case StyleShort:
		text = q.write(short, f, gold)
	case StyleAnnotated:
		text = q.write(annotated, f, gold)
	case StyleWordy:
		text = q.write(wordy, f, gold)
	case StyleNoMarker:
		text = fmt.Sprintf("The answer is %d.", gold)
	case StyleNoMarkerWork:
		text = fmt.Sprintf("%s=%d %s.", f, gold, q.item)
	case StyleWrongOperation:
		text = q.write(r.Intn(solutionForms), f, f.value())
	case StyleWrongArithmetic:
		text = q.write(r.Intn(solutionForms), f, wrongArithmetic(gold, r))
	case StyleGuess: // 2..40, where most answers are: about one guess in forty is right
		text = fmt.Sprintf("%s %d", marker, 2+r.Intn(39))
	case StyleRambling: // repeats the solution until it is truncated
		sentence := fmt.Sprintf("So %s has %s=%d %s. ", q.name, q.fact, gold, q.item)
		text, ended = Ramble(sentence, o.MaxChars), false
	}
	return example(q, style, text, ended)
}

// Ramble repeats a sentence until it is truncated.
func Ramble(sentence string, maxChars int) string {
	return strings.Repeat(sentence, maxChars/len(sentence)+1)[:maxChars]
}

// Forms of a written solution, from short to long.
const (
	short = iota
	annotated
	wordy
	solutionForms // their number
)

// write returns a solution of the question that computes the fact f and states value as its result;
// both may be wrong.
func (q question) write(form int, f fact, value int) string {
	n, asked := strconv.Itoa(value), f.String()
	work := asked + "=" + n
	if form != short {
		work = asked + "=<<" + work + ">>" + n
	}
	if form == wordy {
		work = q.name + " has " + work + " " + q.item + "."
	}
	return work + "\n" + marker + " " + n
}

// factSet is the operand facts of a set of problems.
type factSet struct {
	facts     map[fact]bool
	operators map[byte]bool
}

func seenFacts(problems []Problem) factSet {
	s := factSet{map[fact]bool{}, map[byte]bool{}}
	for _, p := range problems {
		if q, ok := parseQuestion(p.Question); ok {
			s.facts[q.fact], s.operators[q.fact.op] = true, true
		}
	}
	return s
}

// wrongOperation returns the fact with another operator, whose value differs from
// the right one and is not negative, and which cannot be a held-out fact. It returns
// f itself if there is none.
func wrongOperation(f fact, seen factSet, r *rng.Sequence) fact {
	var wrong []fact
	for i := range len(operators) {
		g := fact{operators[i], f.a, f.b}
		allowed := seen.facts[g] || !g.inRange() || !seen.operators[g.op]
		if v := g.value(); v != f.value() && v >= 0 && allowed {
			wrong = append(wrong, g)
		}
	}
	if len(wrong) == 0 {
		return f
	}
	return wrong[r.Intn(len(wrong))]
}

// wrongArithmetic returns a number within 2 of the right one, never that one and
// never negative.
func wrongArithmetic(gold int, r *rng.Sequence) int {
	var near []int
	for _, d := range []int{-2, -1, 1, 2} {
		if gold+d >= 0 {
			near = append(near, gold+d)
		}
	}
	return near[r.Intn(len(near))]
}
