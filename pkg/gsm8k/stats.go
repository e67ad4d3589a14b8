package gsm8k

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"grpo/internal/textutil"
)

// topAnswers is the number of answers that Stats lists.
const topAnswers = 10

// Stats describes a set of problems.
type Stats struct {
	Problems int `json:"problems"`
	// Types are sorted by name; problems without a type have the name "".
	Types              []TypeCount `json:"types"`
	DuplicateQuestions int         `json:"duplicate_questions"` // occurrences after the first

	// Lengths are in characters; that of an answer which is only "#### N", as reading writes it, is N's.
	QuestionLength Lengths `json:"question_length"`
	AnswerLength   Lengths `json:"answer_length"`

	WithoutAnswer    int           `json:"without_worked_answer,omitempty"` // problems that grpo sft can't train on
	DistinctAnswers  int           `json:"distinct_answers"`                // as numbers
	TopAnswers       []AnswerCount `json:"top_answers"`                     // the ten most common
	MajorityAnswer   string        `json:"majority_answer"`
	MajorityBaseline float64       `json:"majority_baseline"` // accuracy of always giving it

	// OutOfVocabulary lists the characters of questions and answers that are not in
	// the vocabulary, the most common first; OutOfVocabularyProblems counts the
	// problems with at least one.
	OutOfVocabulary         []CharCount `json:"out_of_vocabulary"`
	OutOfVocabularyProblems int         `json:"out_of_vocabulary_problems"`
}

// TypeCount is the number of problems of a type.
type TypeCount struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// AnswerCount is the number of problems with an answer.
type AnswerCount struct {
	Answer string  `json:"answer"`
	Count  int     `json:"count"`
	Share  float64 `json:"share"`
}

// CharCount is the number of occurrences of a character.
type CharCount struct {
	Char  string `json:"char"`
	Code  string `json:"code"` // "U+2028"
	Count int    `json:"count"`
}

// Lengths summarises lengths. All are 0 for no problems; the median of an even
// number is the mean of the middle two.
type Lengths struct {
	Min    int     `json:"min"`
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	Max    int     `json:"max"`
}

// ComputeStats describes problems with these answers. vocab reports whether a vocabulary has a
// character; nil means that it has all.
func (a Answers) ComputeStats(problems []Problem, vocab func(rune) bool) Stats {
	s := Stats{
		Problems: len(problems),
		Types:    []TypeCount{}, TopAnswers: []AnswerCount{}, OutOfVocabulary: []CharCount{},
	}
	types, questions, outside := map[string]int{}, map[string]int{}, map[rune]int{}
	var questionLengths, answerLengths []int
	for _, p := range problems {
		types[p.Type]++
		questions[p.Question]++
		questionLengths = append(questionLengths, utf8.RuneCountInString(p.Question))
		answer := p.Answer
		if answer == "" {
			s.WithoutAnswer++
		}
		if answer == a.Write(p.Gold) {
			answer = p.Gold
		}
		answerLengths = append(answerLengths, utf8.RuneCountInString(answer))
		clean := true
		for _, r := range p.Question + p.Answer {
			if vocab != nil && !vocab(r) {
				outside[r]++
				clean = false
			}
		}
		if !clean {
			s.OutOfVocabularyProblems++
		}
	}
	s.DuplicateQuestions = len(problems) - len(questions)
	s.QuestionLength, s.AnswerLength = lengths(questionLengths), lengths(answerLengths)
	for _, t := range slices.Sorted(maps.Keys(types)) {
		s.Types = append(s.Types, TypeCount{t, types[t]})
	}
	for r, n := range outside {
		s.OutOfVocabulary = append(s.OutOfVocabulary, CharCount{string(r), fmt.Sprintf("%U", r), n})
	}
	slices.SortFunc(s.OutOfVocabulary, func(a, b CharCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Char, b.Char))
	})

	answers := a.countAnswers(problems)
	s.DistinctAnswers = len(answers)
	s.TopAnswers = append(s.TopAnswers, answers[:min(topAnswers, len(answers))]...)
	s.MajorityAnswer, s.MajorityBaseline = a.Majority(problems)
	return s
}

// Majority returns the most common gold answer and the accuracy of always
// giving it, the baseline for any accuracy. Answers that are equal as numbers count
// as one. Ties go to the shortest answer, then to the first in byte order. It returns
// "" and 0 for no problems, and if there is no such baseline ([Answers.HasMajority]).
func (a Answers) Majority(problems []Problem) (string, float64) {
	if len(problems) == 0 || !a.HasMajority() {
		return "", 0
	}
	most := a.countAnswers(problems)[0]
	return most.Answer, most.Share
}

// maxShownAnswer is the length of an answer in statistics, in characters.
const maxShownAnswer = 80

// countAnswers returns the answers of problems, the most common first.
func (a Answers) countAnswers(problems []Problem) []AnswerCount {
	counts := map[string]int{}
	for _, p := range problems {
		gold := a.canonical(p.Gold)
		if n, ok := normaliseNumber(gold); ok && (a.kind == "" || a.kind == KindMath) {
			gold = canonicalNumber(n)
		}
		counts[gold]++
	}
	out := make([]AnswerCount, 0, len(counts))
	for answer, n := range counts {
		out = append(out, AnswerCount{answer, n, float64(n) / float64(len(problems))})
	}
	slices.SortFunc(out, func(a, b AnswerCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(len(a.Answer), len(b.Answer)),
			cmp.Compare(a.Answer, b.Answer))
	})
	for i := range out {
		out[i].Answer = textutil.Cut(out[i].Answer, maxShownAnswer)
	}
	return out
}

// lengths sorts its argument.
func lengths(xs []int) Lengths {
	n := len(xs)
	if n == 0 {
		return Lengths{}
	}
	slices.Sort(xs)
	sum := 0
	for _, x := range xs {
		sum += x
	}
	return Lengths{
		Min: xs[0], Max: xs[n-1],
		Median: float64(xs[(n-1)/2]+xs[n/2]) / 2,
		Mean:   float64(sum) / float64(n),
	}
}
