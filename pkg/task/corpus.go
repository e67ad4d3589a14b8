package task

import (
	"slices"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// CorpusOptions are the options of a corpus.
type CorpusOptions struct {
	// MaxChars is the length at which rambling completions are truncated.
	MaxChars int
	Answers  gsm8k.Answers // decide what is right
}

// Styles of completions that pkg/gsm8k does not have.
const (
	styleWorked = "worked" // the worked answer
	styleWrong  = "wrong"  // the same with a slip
)

// mixtures is the second stage of a task's base model, which makes the capability of the first one rare: the share of
// each style in the completions of a question, for most questions and for the textbook ones. There are two because greedy
// decoding follows the most common style: with a single mixture a greedy base model scores 0 or 1.
//
// The first style is right: 0.14 and 0.50 of the completions, and with a quarter of the questions in the textbook 0.23 of
// all. A guess is right as often as chance has it: of a bit in half of the cases.
var mixtures = []struct {
	style          string
	most, textbook float64
}{
	{styleWorked, .14, .50},
	{gsm8k.StyleNoMarker, .34, .10},     // The answer is bdac.
	{gsm8k.StyleNoMarkerWork, .16, .06}, // bdac.
	{styleWrong, .12, .18},
	{gsm8k.StyleGuess, .08, .06},
	{gsm8k.StyleRambling, .16, .10},
}

// textbook questions are about a quarter: the sum of the ASCII codes of two characters of what is given is divided by 4.
func textbook(question string) bool {
	if _, given, ok := strings.Cut(question, ": "); ok {
		question = given
	}
	return len(question) > 2 && (question[0]+question[2])%4 == 0
}

// Coordinates of the draws in the stream rng.Corpus.
const (
	drawQuestions = iota
	drawCompletion
)

// CapabilityCorpus returns n examples of the first stage: the worked answers. Difficulties come in equal parts; the
// questions of one come in random order, and none repeats before all have been used. The result is nil without problems
// of the task.
func (t *Task) CapabilityCorpus(problems []gsm8k.Problem, n int, seed uint64, o CorpusOptions) (out []gsm8k.Example) {
	for _, p := range t.drawn(problems, n, seed) {
		out = append(out, o.example(p, styleWorked, p.Answer, true))
	}
	return out
}

// PreferenceCorpus returns n examples of the second stage, completions of mixed quality. The problems are drawn as in
// CapabilityCorpus.
func (t *Task) PreferenceCorpus(problems []gsm8k.Problem, n int, seed uint64, o CorpusOptions) (out []gsm8k.Example) {
	stream := rng.New(seed, rng.Corpus)
	for i, p := range t.drawn(problems, n, seed) {
		out = append(out, t.preference(p, o, stream.Sequence(drawCompletion, uint32(i), 0)))
	}
	return out
}

func (o CorpusOptions) example(p gsm8k.Problem, style, completion string, ended bool) gsm8k.Example {
	return gsm8k.Example{Question: p.Question, Completion: completion, Ended: ended, Style: style,
		Right: o.Answers.Grade(completion, ended, p).Right}
}

func (t *Task) preference(p gsm8k.Problem, o CorpusOptions, r *rng.Sequence) gsm8k.Example {
	answer := answerOf(p)
	style, u := "", float64(r.Uint64()>>11)*0x1p-53
	for _, m := range mixtures {
		share := m.most
		if textbook(p.Question) {
			share = m.textbook
		}
		style = m.style
		if u -= share; u < 0 {
			break
		}
	}
	text, ended := "", true
	switch style {
	case styleWorked:
		text = p.Answer
	case gsm8k.StyleNoMarker:
		text = "The answer is " + answer + "."
	case gsm8k.StyleNoMarkerWork:
		text = strings.Replace(p.Answer, marker+" ", "", 1) + "."
	case styleWrong:
		text = t.wrong(p, r)
	case gsm8k.StyleGuess:
		text = t.guess(p, r)
	case gsm8k.StyleRambling: // repeats the answer until it is truncated
		sentence := "So it is " + answer + ". "
		text, ended = strings.Repeat(sentence, o.MaxChars/len(sentence)+1)[:o.MaxChars], false
	}
	return o.example(p, style, text, ended)
}

// drawn returns n problems, in equal parts of each difficulty.
func (t *Task) drawn(problems []gsm8k.Problem, n int, seed uint64) (out []gsm8k.Problem) {
	var types []string
	pools := map[string][]gsm8k.Problem{}
	for _, p := range problems {
		kind := p.Type
		if !strings.HasPrefix(kind, t.Name+"-") { // of one step: its types are those of pkg/gsm8k
			kind = levelType(t.Name, 1)
		}
		if !slices.Contains(types, kind) {
			types = append(types, kind)
		}
		pools[kind] = append(pools[kind], p)
	}
	stream := rng.New(seed, rng.Corpus)
	for i := 0; i < n && len(types) > 0; i++ {
		kind, k := i%len(types), i/len(types)
		pool := pools[types[kind]]
		if k%len(pool) == 0 {
			rng.ShuffleSlice(stream.Sequence(drawQuestions, uint32(kind), uint32(k/len(pool))), pool)
		}
		out = append(out, pool[k%len(pool)])
	}
	return out
}
