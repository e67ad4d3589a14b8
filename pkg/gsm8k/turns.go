package gsm8k

import (
	"fmt"
	"io"

	"grpo/internal/jsonl"
	"grpo/internal/regular"
)

// Turn is a worked example in a chat: a user's question and the assistant's answer.
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

// ReadTurns reads worked examples from a file of JSON objects, one per line, with the
// strings "question" and "answer". Answers may have any form; other keys and blank
// lines are ignored. An invalid line is an error with its number.
func ReadTurns(path string) ([]Turn, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, fmt.Errorf("read worked examples: %w", err)
	}
	defer f.Close()
	turns, err := readTurns(f)
	if err != nil {
		return nil, fmt.Errorf("read worked examples: %s: %w", path, err)
	}
	return turns, nil
}

func readTurns(r io.Reader) ([]Turn, error) {
	return jsonl.ReadAll(r, "examples", maxTurns, func(text []byte) (t Turn, err error) {
		fields, err := decodeObject(text, "worked-example", "question", "answer")
		if err == nil {
			t.Question, err = stringField(fields, "question")
		}
		if err == nil {
			t.Answer, err = stringField(fields, "answer")
		}
		return t, err
	})
}
