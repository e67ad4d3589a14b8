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

// mixture is that of the base models of tasks. The first style is right: 0.14 and 0.50 of the completions, and with a
// quarter of the questions in the textbook 0.23 of all. A guess is right as often as chance has it: of a bit in half of
// the cases.
var mixture = gsm8k.Mixture{
	{Style: styleWorked, Most: .14, Textbook: .50},
	{Style: gsm8k.StyleNoMarker, Most: .34, Textbook: .10},     // The answer is bdac.
	{Style: gsm8k.StyleNoMarkerWork, Most: .16, Textbook: .06}, // bdac.
	{Style: styleWrong, Most: .12, Textbook: .18},
	{Style: gsm8k.StyleGuess, Most: .08, Textbook: .06},
	{Style: gsm8k.StyleRambling, Most: .16, Textbook: .10},
}

// textbook questions are about a quarter: 4 divides the sum of the ASCII codes of two characters of what is given.
func textbook(question string) bool {
	if _, given, ok := strings.Cut(question, ": "); ok {
		question = given
	}
	return len(question) > 2 && (question[0]+question[2])%4 == 0
}

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
	for i, p := range t.drawn(problems, n, seed) {
		out = append(out, t.preference(p, o, gsm8k.CompletionDraws(seed, i)))
	}
	return out
}

func (o CorpusOptions) example(p gsm8k.Problem, style, completion string, ended bool) gsm8k.Example {
	return gsm8k.Example{Question: p.Question, Completion: completion, Ended: ended, Style: style,
		Right: o.Answers.Grade(completion, ended, p).Right}
}

func (t *Task) preference(p gsm8k.Problem, o CorpusOptions, r *rng.Sequence) gsm8k.Example {
	answer, style := answerOf(p), mixture.Draw(r, textbook(p.Question))
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
		text, ended = gsm8k.Ramble("So it is "+answer+". ", o.MaxChars), false
	}
	return o.example(p, style, text, ended)
}

// drawn returns n problems, in equal parts of each difficulty.
func (t *Task) drawn(problems []gsm8k.Problem, n int, seed uint64) []gsm8k.Problem {
	var kinds []string
	var pools [][]gsm8k.Problem
	for _, p := range problems {
		kind := p.Type
		if !strings.HasPrefix(kind, t.Name+"-") { // of one step: its types are those of pkg/gsm8k
			kind = levelType(t.Name, 1)
		}
		i := slices.Index(kinds, kind)
		if i < 0 {
			i, kinds, pools = len(kinds), append(kinds, kind), append(pools, nil)
		}
		pools[i] = append(pools[i], p)
	}
	return gsm8k.DrawFrom(pools, slices.Repeat([]float64{1}, len(pools)), n, seed)
}
