package gsm8k

import (
	"fmt"

	"grpo/pkg/rng"
)

// Example is one text of a supervised stage.
type Example struct {
	Prompt     string // under the corpus's template
	Completion string
	// Ended says that <eos> follows the completion; without it the text was cut.
	Ended bool
	Style string
	// Right is the answer reward of the completion ([Grade]).
	Right bool
}

// CorpusOption changes how a corpus is made.
type CorpusOption func(*corpusOptions)

type corpusOptions struct {
	template Template
	weights  []float64
	maxChars int
}

// WithTemplate renders prompts under t. Without it they are "plain".
func WithTemplate(t Template) CorpusOption {
	return func(o *corpusOptions) { o.template = t }
}

// WithTypeWeights says how often each problem type is drawn (relative). Without
// it the types that occur are drawn equally often. Weights that are not above 0
// leave a type out.
func WithTypeWeights(add, sub, mul float64) CorpusOption {
	return func(o *corpusOptions) { o.weights = []float64{add, sub, mul} }
}

// WithMaxChars sets the length at which rambling completions are cut. It should
// be the sampling limit, so that they teach a policy to run into it. Without it
// they are cut at 64.
func WithMaxChars(n int) CorpusOption {
	return func(o *corpusOptions) { o.maxChars = max(n, 0) }
}

func newCorpusOptions(opts []CorpusOption) corpusOptions {
	o := corpusOptions{template: templates[0], weights: []float64{1, 1, 1}, maxChars: 64}
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Coordinates of the draws in the stream rng.Corpus.
const (
	drawQuestions = iota
	drawCompletion
)

// CapabilityCorpus returns n examples of stage 1: right solutions in the
// annotated form only, e.g. "7+5=<<7+5=12>>12", newline, "#### 12". Types come by
// weight; the questions of a type come in random order, all of them before any
// comes again.
//
// The problems are those that [Generate] makes (Splits.SFT); others are left out,
// because they cannot be written in this form. It returns nil if none remains.
func CapabilityCorpus(problems []Problem, n int, seed uint64, opts ...CorpusOption) []Example {
	o := newCorpusOptions(opts)
	var out []Example
	for _, q := range drawn(problems, n, seed, o.weights) {
		out = append(out, o.example(q, StyleAnnotated, q.write(annotated, q.fact, q.fact.value()), true))
	}
	return out
}

// PreferenceCorpus returns n examples of stage 2, which buries the capability of
// stage 1 under completions of mixed quality: the mixture of [StyleShare]. The
// problems are drawn as in [CapabilityCorpus].
//
// A wrong operation never shows an operand fact that the generator may have held
// out: one of a type that occurs in problems, in the generator's range, but
// missing there. Where no other operation remains the example has wrong
// arithmetic instead.
func PreferenceCorpus(problems []Problem, n int, seed uint64, opts ...CorpusOption) []Example {
	o := newCorpusOptions(opts)
	seen := seenFacts(problems)
	stream := rng.New(seed, rng.Corpus)
	var out []Example
	for i, q := range drawn(problems, n, seed, o.weights) {
		out = append(out, o.preference(q, seen, stream.Sequence(drawCompletion, uint32(i), 0)))
	}
	return out
}

// AnswerCorpus returns one example for each problem: its worked answer.
func AnswerCorpus(problems []Problem, opts ...CorpusOption) []Example {
	o := newCorpusOptions(opts)
	out := make([]Example, len(problems))
	for i, p := range problems {
		out[i] = Example{
			Prompt: o.template.Render(p.Question), Completion: p.Answer, Ended: true,
			Style: StyleAnswer, Right: Grade(p.Answer, true, p.Gold).Right,
		}
	}
	return out
}

// drawn returns n questions, with types by weight.
func drawn(problems []Problem, n int, seed uint64, weights []float64) []question {
	pools := make([][]question, len(types))
	for _, p := range problems {
		if q, ok := parseQuestion(p.Question); ok {
			pools[q.typ()] = append(pools[q.typ()], q)
		}
	}
	present := make([]float64, len(types))
	for typ, pool := range pools {
		if len(pool) > 0 {
			present[typ] = weights[typ]
		}
	}
	stream := rng.New(seed, rng.Corpus)
	counts := make([]int, len(types))
	var out []question
	for range n {
		typ := nextByWeight(counts, present)
		if typ < 0 {
			return nil
		}
		pool := pools[typ]
		if pass := counts[typ] / len(pool); counts[typ]%len(pool) == 0 {
			shuffle(stream.Sequence(drawQuestions, uint32(typ), uint32(pass)), pool)
		}
		out = append(out, pool[counts[typ]%len(pool)])
		counts[typ]++
	}
	return out
}

func (o corpusOptions) example(q question, style, completion string, ended bool) Example {
	return Example{
		Prompt: o.template.Render(q.text()), Completion: completion, Ended: ended, Style: style,
		Right: Grade(completion, ended, fmt.Sprint(q.fact.value())).Right,
	}
}

// preference writes one completion in a random style of the name's mixture.
func (o corpusOptions) preference(q question, seen factSet, r *rng.Sequence) Example {
	f, gold := q.fact, q.fact.value()
	style := styleAt(q.name, unit(r))
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
		text = q.write(intn(r, solutionForms), f, f.value())
	case StyleWrongArithmetic:
		text = q.write(intn(r, solutionForms), f, wrongArithmetic(gold, r))
	case StyleGuess:
		text = fmt.Sprintf("%s %d", marker, guess(r))
	case StyleRambling:
		text, ended = q.ramble(o.maxChars), false
	}
	return o.example(q, style, text, ended)
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

// mayShow reports whether f is surely not a held-out fact.
func (s factSet) mayShow(f fact) bool {
	return s.facts[f] || !f.inRange() || !s.operators[f.op]
}

// wrongOperation returns the fact with another operator, whose value differs
// from the right one and is not negative. It returns f itself if there is none
// that may be shown.
func wrongOperation(f fact, seen factSet, r *rng.Sequence) fact {
	var wrong []fact
	for i := range len(operators) {
		g := fact{operators[i], f.a, f.b}
		if v := g.value(); v != f.value() && v >= 0 && seen.mayShow(g) {
			wrong = append(wrong, g)
		}
	}
	if len(wrong) == 0 {
		return f
	}
	return wrong[intn(r, len(wrong))]
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
	return near[intn(r, len(near))]
}

// guess returns a number in 2..40, blind to the question. Most answers lie
// there, and one guess in forty or so is right.
func guess(r *rng.Sequence) int { return 2 + intn(r, 39) }
