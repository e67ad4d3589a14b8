package gsm8k

import (
	"regexp"
	"strconv"
	"strings"

	"grpo/internal/pattern"
)

// The words of the default experiment. Names have three letters and items four, so that questions
// differ in length only by their operands; initials are unique, so that one character identifies
// the word.
var (
	names = []string{"Ann", "Ben", "Eve", "Kim", "Leo", "Max", "Sue", "Tom"}
	items = []string{"cups", "figs", "hats", "keys", "pens", "toys"}
)

// questionsPerFact is the number of questions that ask for one operand fact.
var questionsPerFact = len(names) * len(items)

// types lists the generated problem types; operators has their operators.
var types = []string{"add", "sub", "mul"}

const operators = "+-*"

// fact is one operand fact: two numbers and an operator.
type fact struct {
	op   byte // '+', '-' or '*'
	a, b int
}

func (f fact) String() string { return strconv.Itoa(f.a) + string(rune(f.op)) + strconv.Itoa(f.b) }

func (f fact) value() int {
	switch f.op {
	case '+':
		return f.a + f.b
	case '-':
		return f.a - f.b
	}
	return f.a * f.b
}

// inRange reports whether the generator uses the fact: operands 2..12 for sums and differences,
// 2..9 for products. The first operand of a difference is at least as large as the second, so no
// answer is negative. Zero is an answer: "strictly larger" would give 55 differences and a total of
// 240, but the measured experiment has 251 = 121 + 66 + 64.
func (f fact) inRange() bool {
	hi := 12
	if f.op == '*' {
		hi = 9
	}
	return 2 <= f.a && f.a <= hi && 2 <= f.b && f.b <= hi && (f.op != '-' || f.a >= f.b)
}

// factsOf lists the facts of a type in a fixed order.
func factsOf(typ int) []fact {
	var fs []fact
	for a := 2; a <= 12; a++ {
		for b := 2; b <= 12; b++ {
			if f := (fact{operators[typ], a, b}); f.inRange() {
				fs = append(fs, f)
			}
		}
	}
	return fs
}

// question is the content of a generated question.
type question struct {
	name, item string
	fact       fact
}

// text writes the question. It concatenates strings because fmt is slower and every run writes
// about ten thousand questions at its start.
func (q question) text() string {
	a, b := strconv.Itoa(q.fact.a), strconv.Itoa(q.fact.b)
	switch q.fact.op {
	case '+':
		return q.name + " has " + a + " " + q.item + " and gets " + b + " more. How many?"
	case '-':
		return q.name + " has " + a + " " + q.item + " and loses " + b + ". How many?"
	}
	return q.name + " has " + a + " bags of " + b + " " + q.item + ". How many?"
}

// typ returns the index of the question's type in types.
func (q question) typ() int { return strings.IndexByte(operators, q.fact.op) }

// problem returns the problem of a question. number counts the questions of its
// type in the order facts, names, items, whatever the seed.
func (q question) problem(number int) Problem {
	typ := types[q.typ()]
	return Problem{
		ID:       "gen-" + typ + "-" + strconv.Itoa(100_000 + number)[1:],
		Question: q.text(),
		Answer:   q.write(annotated, q.fact, q.fact.value()),
		Gold:     strconv.Itoa(q.fact.value()),
		Type:     typ,
		Fact:     q.fact.String(),
	}
}

// questionForms matches the questions of each type: name, operands, item.
var questionForms = []func() *regexp.Regexp{
	pattern.Of(`^(?P<name>\w+) has (?P<a>\d{1,4}) (?P<item>\w+) and gets (?P<b>\d{1,4}) more\. How many\?$`),
	pattern.Of(`^(?P<name>\w+) has (?P<a>\d{1,4}) (?P<item>\w+) and loses (?P<b>\d{1,4})\. How many\?$`),
	pattern.Of(`^(?P<name>\w+) has (?P<a>\d{1,4}) bags of (?P<b>\d{1,4}) (?P<item>\w+)\. How many\?$`),
}

// parseQuestion parses a question from [Generate], or one of the same form with
// other words and operands. The supervised corpora need its parts, which a JSONL
// file does not have.
func parseQuestion(s string) (question, bool) {
	for typ, compiled := range questionForms {
		form := compiled()
		m := form.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		part := func(name string) string { return m[form.SubexpIndex(name)] }
		q := question{name: part("name"), item: part("item"), fact: fact{op: operators[typ]}}
		q.fact.a, _ = strconv.Atoi(part("a"))
		q.fact.b, _ = strconv.Atoi(part("b"))
		return q, q.text() == s // rejects "07"
	}
	return question{}, false
}
