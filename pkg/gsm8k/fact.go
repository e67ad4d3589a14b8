package gsm8k

import (
	"regexp"
	"slices"
	"strconv"
)

// The words of the default experiment. Names have three letters and items four,
// so that questions differ in length by their operands only; initials differ,
// so that one character tells the words apart.
var (
	names = []string{"Ann", "Ben", "Eve", "Kim", "Leo", "Max", "Sue", "Tom"}
	items = []string{"cups", "figs", "hats", "keys", "pens", "toys"}
)

// questionsPerFact is the number of questions that ask for one operand fact.
var questionsPerFact = len(names) * len(items)

// Types lists the generated problem types.
func Types() []string { return slices.Clone(types) }

var types = []string{"add", "sub", "mul"}

const operators = "+-*" // by type

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

// inRange reports whether the generator asks for the fact: operands 2..12 for
// sums and differences, 2..9 for products. A difference has a first operand at
// least as large as the second: "strictly larger" would give 55 facts and a
// total of 240, where the measured experiment has 251 = 121 + 66 + 64. So zero
// is an answer, and no answer is negative.
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

// text is the question in words. It is put together by hand, as the solutions
// are: every run writes some ten thousand of them before it begins.
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
func (q question) typ() int {
	switch q.fact.op {
	case '+':
		return 0
	case '-':
		return 1
	}
	return 2
}

// problem makes the problem of a question. number counts the questions of its
// type in the order facts, names, items, whatever the seed.
func (q question) problem(number int) Problem {
	gold := strconv.Itoa(q.fact.value())
	typ := types[q.typ()]
	return Problem{
		ID:       "gen-" + typ + "-" + padded(number),
		Question: q.text(),
		Answer:   q.write(annotated, q.fact, q.fact.value()),
		Gold:     gold,
		Type:     typ,
		Fact:     q.fact.String(),
	}
}

// padded writes a number with five digits, or more where it has them.
func padded(n int) string {
	s := strconv.Itoa(n)
	return "00000"[min(len(s), 5):] + s
}

var questionForms = []*regexp.Regexp{
	regexp.MustCompile(`^(\w+) has (\d{1,4}) (?P<item>\w+) and gets (\d{1,4}) more\. How many\?$`),
	regexp.MustCompile(`^(\w+) has (\d{1,4}) (?P<item>\w+) and loses (\d{1,4})\. How many\?$`),
	regexp.MustCompile(`^(\w+) has (\d{1,4}) bags of (\d{1,4}) (?P<item>\w+)\. How many\?$`),
}

// parseQuestion reads a question that [Generate] made, or one of the same form
// with other words and operands. The supervised corpora need its parts, and a
// JSONL file holds the text only.
func parseQuestion(s string) (question, bool) {
	for typ, form := range questionForms {
		m := form.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		q := question{name: m[1], item: m[form.SubexpIndex("item")]}
		q.fact.op = operators[typ]
		second := m[4]
		if q.fact.op == '*' {
			second = m[3]
		}
		q.fact.a, _ = strconv.Atoi(m[2])
		q.fact.b, _ = strconv.Atoi(second)
		return q, q.text() == s // refuses "07"
	}
	return question{}, false
}
