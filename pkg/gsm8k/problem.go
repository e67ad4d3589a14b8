// Package gsm8k has problems and their rewards, by default of GSM8K's form (Cobbe et al., "Training
// verifiers to solve math word problems", 2021): files of problems in JSONL, JSON (SVAMP's, too),
// CSV and Parquet, the generator of the default experiment, prompts, the corpora of the
// supervised stages, answer parsing, reward functions and statistics. It uses no model and no
// tokenizer.
//
// Everything generated here uses only the characters of TinyLM: newline and ASCII
// 32..126. Files may contain any UTF-8; [ComputeStats] counts the characters outside a
// vocabulary.
package gsm8k

import (
	"fmt"
	"io"
	"strings"

	"grpo/internal/jsonl"
	"grpo/internal/regular"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
)

// Problem is one word problem with its worked solution. Its JSON form is that of [WriteJSONL].
type Problem struct {
	// ID is stable across runs: "gen-add-00123" for generated problems; otherwise the
	// file's "id", or the file's stem and the line ("train-00012").
	ID       string `json:"id,omitempty"`
	Question string `json:"question"`
	// Answer is the worked solution; that of a number ends in a line "#### N". It is empty if the file has
	// none and a right completion is not known from Gold.
	Answer string `json:"answer"`
	// Gold is the right answer. A number has no commas, spaces, "$", leading "+" and trailing full
	// stop, and is otherwise as written ("72.0" remains "72.0"). A choice is its letter, a Countdown what
	// [Countdown.Gold] writes, and with KindNone it is what the file has, or empty.
	Gold string `json:"-"`
	// Type is "add", "sub" or "mul" for generated problems, SVAMP's type in
	// lower case, and empty for GSM8K.
	Type string `json:"type,omitempty"`
	// Fact is the operand fact of a generated problem ("7+5", "9-4", "6*4").
	Fact string `json:"fact,omitempty"`
	// Fields are the other fields of its record in a file, a JSON object with sorted keys; empty if
	// there are none.
	Fields string `json:"-"`
	// Line is the 1-based line in the file; 0 for generated problems.
	Line int `json:"-"`
}

// Overlap counts the problems of b whose question also occurs in a.
func Overlap(a, b []Problem) int {
	seen := make(map[string]bool, len(a))
	for _, p := range a {
		seen[p.Question] = true
	}
	n := 0
	for _, p := range b {
		if seen[p.Question] {
			n++
		}
	}
	return n
}

// Template turns a question into the prompt: Prefix + question + Suffix.
type Template struct {
	Name, Prefix, Suffix string
	// Answer is what a chat template writes between a prompt and the answer in a conversation that has one.
	Answer string
	// Trim leaves out white space around the question, as some chat templates do.
	Trim bool
	// Complete: the prompt includes the begin token, if there is one; a tokenizer adds none.
	Complete bool
	// Examples are the worked examples in Prefix.
	Examples []Turn
	// Stop has texts that end a completion, beside end tokens.
	Stop []string
}

// Parts returns the text before the question, the question and the text after it.
func (t Template) Parts(question string) (before, text, after string) {
	if t.Trim {
		question = strings.TrimSpace(question)
	}
	return t.Prefix, question, t.Suffix
}

// Render returns the prompt for a question.
func (t Template) Render(question string) string {
	before, text, after := t.Parts(question)
	return before + text + after
}

// Opening returns the tag at the end of the prompt that opens the completion: "<think>" for
// r1_zero, "" for the others. As in the assignment, it is part of the prompt, not of completions;
// graders that require it ([ThinkFormat]) get it from here.
func (t Template) Opening() string {
	if strings.HasSuffix(t.Suffix, thinkOpen) {
		return thinkOpen
	}
	return ""
}

// The wording of r1_zero is new; the tags and the structure (a preamble, then "User: ... Assistant:
// <think>", so that the policy starts inside its reasoning) are those of the assignment and of
// DeepSeek-R1-Zero.
var templates = []Template{
	{Name: "plain", Suffix: "\n"},
	{Name: "question_only", Suffix: "\n"}, // the assignment's name; the prompt is that of plain
	{
		Name: "r1_zero",
		Prefix: "Below, a User puts a question to an Assistant. The Assistant works the problem out step by step " +
			"before it replies. It writes its reasoning between <think> and </think>, and after that its final " +
			"answer between <answer> and </answer>, in this form: " +
			"<think> the reasoning </think> <answer> the final answer </answer>\nUser: ",
		Suffix: "\nAssistant: <think>",
	},
}

// FewShotTemplate shows worked examples in plain text before the question, for models without a chat template. A
// completion goes on after the line "Answer:"; what follows an example is a blank line.
func FewShotTemplate(examples []Turn) Template {
	var b strings.Builder
	for _, x := range examples {
		fmt.Fprintf(&b, "Question: %s\nAnswer:\n%s\n\n", x.Question, x.Answer)
	}
	return Template{Name: "few_shot", Prefix: b.String() + "Question: ", Suffix: "\nAnswer:\n", Examples: examples}
}

// LookupTemplate returns the template with this name. The error lists the known
// names and suggests a similar one.
func LookupTemplate(name string) (Template, error) {
	var known []string
	for _, t := range templates {
		if t.Name == name {
			return t, nil
		}
		known = append(known, t.Name)
	}
	return Template{}, fmt.Errorf("look up prompt template: %w", unknownName(name, known))
}

// unknownName lists the known names and suggests one similar to name, if any.
func unknownName(name string, known []string) error {
	hint := ""
	if near := suggest.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown name %q (%sknown: %s)", clip(name), hint, strings.Join(known, ", "))
}

// clip shortens untrusted input for an error message.
func clip(s string) string { return textutil.Cut(s, 43) }

// Turn is a worked example: a question and its answer, in a chat the user's and the assistant's.
type Turn struct{ Question, Answer string }

// worked are the examples that [Worked] returns.
var worked = []Turn{
	{"Mia has 3 red pens and 4 blue pens. How many pens does Mia have in all?", "3+4=7\n#### 7"},
	{"There were 15 ducks on a pond. 6 ducks flew away. How many ducks are left?", "15-6=9\n#### 9"},
	{"A cook fills 6 trays with 5 buns on each tray. How many buns are there?", "6*5=30\n#### 30"},
}

// Worked returns the first n worked examples, of the three that there are.
func Worked(n int) []Turn { return worked[:min(n, len(worked))] }

// maxTurns bounds the worked examples of a file; no context has room for more.
const maxTurns = 1000

// ReadTurns reads the first n worked examples, or all if n is 0, from a file of JSON objects, one per
// line, with the strings "question" and "answer". Answers may have any form; other keys and blank
// lines are ignored. An invalid line is an error with its number.
func ReadTurns(path string, n int) ([]Turn, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, fmt.Errorf("read worked examples: %w", err)
	}
	defer f.Close()
	turns, err := readTurns(f, n)
	if err != nil {
		return nil, fmt.Errorf("read worked examples: %s: %w", path, err)
	}
	return turns, nil
}

func readTurns(r io.Reader, n int) ([]Turn, error) {
	parse := func(text []byte) (t Turn, err error) {
		fields, err := decodeObject(text, "worked-example", "question", "answer")
		if err == nil {
			t.Question, err = stringField(fields, "question")
		}
		if err == nil {
			t.Answer, err = stringField(fields, "answer")
		}
		return t, err
	}
	if n > 0 {
		return jsonl.ReadFirst(r, "examples", min(n, maxTurns), parse)
	}
	return jsonl.ReadAll(r, "examples", maxTurns, parse)
}
