package gsm8k

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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

// mixtures is stage 2 of the default base model, which buries the capability of
// stage 1: share of each style in the completions of a problem, for most names
// and for the "textbook" names. Two mixtures, because greedy decoding follows
// the commonest style: with a single one the greedy base scores 0 or 1.
//
// The first three styles are right: 0.20 and 0.50, and with 2 of 8 names in the
// textbook the corpus has an answer reward of 0.75*0.20 + 0.25*0.50 = 0.275
// (and about 0.002 more from lucky guesses).
var mixtures = []struct {
	style          string
	most, textbook float64
}{
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

// StyleShare returns the share of a style in the preference corpus among the
// problems of a name.
func StyleShare(style, name string) float64 {
	for _, m := range mixtures {
		if m.style == style {
			if slices.Contains(textbookNames, name) {
				return m.textbook
			}
			return m.most
		}
	}
	return 0
}

// styleAt returns the style at u in [0, 1) of a name's mixture.
func styleAt(name string, u float64) string {
	for _, m := range mixtures {
		if u -= StyleShare(m.style, name); u < 0 {
			return m.style
		}
	}
	return mixtures[len(mixtures)-1].style
}

// Forms of a written solution, from short to long.
const (
	short = iota
	annotated
	wordy
	solutionForms // their number
)

// write returns a solution of the question that works with the fact f and
// arrives at value; neither need be right.
func (q question) write(form int, f fact, value int) string {
	sum, n := f.String(), strconv.Itoa(value)
	work := sum + "=" + n
	if form != short {
		work = sum + "=<<" + work + ">>" + n
	}
	if form == wordy {
		work = q.name + " has " + work + " " + q.item + "."
	}
	return work + "\n" + marker + " " + n
}

// ramble repeats the solution and never comes to an end: exactly maxChars
// characters.
func (q question) ramble(maxChars int) string {
	sentence := fmt.Sprintf("So %s has %s=%d %s. ", q.name, q.fact, q.fact.value(), q.item)
	return strings.Repeat(sentence, maxChars/len(sentence)+1)[:maxChars]
}
