// Package task has the built-in tasks: problems whose answer a program checks and whose difficulty is one number,
// generated from a seed. A task is a generator of questions with their answers (words.go, countdown.go,
// arithmetic.go); generate.go deals the questions to splits, and corpus.go writes the examples of the supervised
// stages that make a base model for it.
//
// Everything generated here uses only the characters of TinyLM: newline and ASCII 32..126.
package task

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/suggest"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// marker begins the line of an answer.
const marker = "####"

// Prefix begins the value of data.source that names a task: "task:sort".
const Prefix = "task:"

// Task is a kind of problems.
type Task struct {
	Name string
	// Version is that of the generator. It changes with the problems that the same options give, and is part of a
	// run's hash.
	Version int
	// Answer is the kind of its answers: a value of data.answer.
	Answer string
	// A difficulty counts Unit; it is from Min to Max.
	Unit              string
	Min, Max, Default int
	// Words: it has the option Symbols. Numbers: it has the options Largest and Operators.
	Words, Numbers bool

	questions func(o Options, difficulty int) questions // nil for arithmetic, which extends pkg/gsm8k's
	wrong     func(p gsm8k.Problem, r *rng.Sequence) string
	guess     func(p gsm8k.Problem, r *rng.Sequence) string
}

// questions are the questions of one difficulty, all distinct, by number from 0 to n-1. at is false for a number that
// has no question.
type questions struct {
	n  uint64
	at func(number uint64) (question, bool)
}

// question is a question with its answer.
type question struct {
	text   string
	work   string // lines before the answer; may be empty
	answer string
	gold   string // "" = answer
	fields string // Problem.Fields
	fact   string // what a question of the unseen split asks for and no other split does
}

var tasks = []*Task{
	{Name: "arithmetic", Version: 2, Answer: "number", Unit: "steps", Min: 1, Max: 5, Default: 2,
		wrong: wrongValue, guess: guessNumber},
	{Name: "countdown", Version: 1, Answer: "countdown", Unit: "numbers", Min: 2, Max: 6, Default: 3, Numbers: true,
		questions: countdowns, wrong: wrongExpression, guess: guessExpression},
	{Name: "sort", Version: 1, Answer: "text", Unit: "letters", Min: 2, Max: 12, Default: 4, Words: true,
		questions: words("sort", sorted), wrong: wrongWord, guess: guessWord},
	{Name: "reverse", Version: 1, Answer: "text", Unit: "letters", Min: 2, Max: 12, Default: 4, Words: true,
		questions: words("reverse", reversed), wrong: wrongWord, guess: guessWord},
	{Name: "copy", Version: 1, Answer: "text", Unit: "letters", Min: 2, Max: 12, Default: 4, Words: true,
		questions: words("copy", func(w []byte) {}), wrong: wrongWord, guess: guessWord},
	{Name: "parity", Version: 1, Answer: "number", Unit: "bits", Min: 2, Max: 24, Default: 16,
		questions: parities, wrong: wrongBits, guess: guessBit},
}

// Names lists the tasks.
func Names() (out []string) {
	for _, t := range tasks {
		out = append(out, t.Name)
	}
	return out
}

// Sources lists the values of data.source that name a task.
func Sources() (out []string) {
	for _, name := range Names() {
		out = append(out, Prefix+name)
	}
	return out
}

// Of returns the task of a value of data.source; nil for the other sources.
func Of(source string) *Task {
	i := slices.IndexFunc(tasks, func(t *Task) bool { return Prefix+t.Name == source })
	if i < 0 {
		return nil
	}
	return tasks[i]
}

// Find returns the task with a name, with or without its prefix. The error lists the names.
func Find(name string) (*Task, error) {
	if t := Of(Prefix + strings.TrimPrefix(name, Prefix)); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no task %q%s: the tasks are %s", name, suggest.DidYouMean(name, Names()),
		strings.Join(Names(), ", "))
}
