// Package reward has the reward functions that users define in a configuration: a command, a
// pattern or an expression. It knows no model and no run; reward models are in package train.
//
//	reward.go    what a function is; RE2 patterns; hashes of the files that a command names
//	protocol.go  the lines that a command reads and writes
//	process.go   one process of a command
//	command.go   all processes of a command: batches, restarts, errors
//	reuse.go     equal completions scored once
//	expr.go      expressions, with their limits in budget.go and budget_guard.go
package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"grpo/internal/regular"
)

// Completion is what a reward function knows about one completion. The JSON form is that of the
// protocol.
type Completion struct {
	Prompt     string  `json:"prompt"`     // as the policy got it
	Completion string  `json:"completion"` // without the end token
	Tokens     []int   `json:"tokens"`     // of the completion, end token included
	Ended      bool    `json:"ended"`      // by the end token, not by the limit
	Answer     string  `json:"answer"`     // the right answer, a number as text
	Right      bool    `json:"right"`      // what the reward function "answer" says
	Formatted  bool    `json:"formatted"`  // what the reward function "format" says
	Problem    Problem `json:"problem"`
}

// Problem has the other fields of a problem.
type Problem struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Solution string `json:"solution"` // worked, up to "#### N"
	Type     string `json:"type"`
	Fact     string `json:"fact"`
	// Fields are the other fields of its record in the file, a JSON object; empty if there are none.
	Fields json.RawMessage `json:"fields,omitempty"`
}

// Batch is the completions of one step.
type Batch struct {
	Step      int // 0 before training
	MaxTokens int // the limit of a completion
	// GroupSize is the number of completions of each prompt; these are adjacent.
	GroupSize   int
	Completions []Completion
}

// Scores are the results for a batch of N completions.
type Scores struct {
	Rewards []float64 // (N); NaN where the function does not apply
	// Columns are further values for the log, (N) each: a finite float64, a string or nil.
	Columns map[string][]any
}

// nulls are the scores of n completions to which the function does not apply.
func nulls(n int) Scores { return Scores{Rewards: slices.Repeat([]float64{math.NaN()}, n)} }

// Function computes the rewards of a batch. Equal batches must give equal scores.
type Function interface {
	Score(Batch) (Scores, error)
	// Close ends the processes of the function, if it has any.
	Close()
}

// Spec describes a function. It has one of Command, Pattern and Expr.
type Spec struct {
	Name    string // in errors and notes
	Command []string
	Pattern string
	Expr    string

	// NullOnError: completions for which the function failed have no reward, instead of an error. Of
	// a command this holds from step 1 on.
	NullOnError bool

	// For commands.
	Timeout  time.Duration // for the answer to one line
	Workers  int           // processes
	Restarts int           // of a process, for one line
	// Reuse: the reward of a completion depends on nothing else, so that equal completions are scored once.
	Reuse bool
}

// Open returns the function of a description. Its processes start with the first batch and end with
// ctx. note gets lines for the user.
func Open(ctx context.Context, s Spec, note func(string)) (Function, error) {
	var f Function
	var err error
	switch {
	case len(s.Command) > 0:
		f, err = newCommand(ctx, s, note)
	case s.Pattern != "":
		f, err = newPattern(s.Pattern)
	default:
		f, err = newExpression(ctx, s, note)
	}
	if err != nil {
		return nil, fmt.Errorf("reward %s: %w", s.Name, err)
	}
	return f, nil
}

// maxReward bounds rewards, which are multiplied and added: results must be finite.
const maxReward = 1e100

// checkReward returns an error unless x is a reward.
func checkReward(x float64) error {
	if math.IsNaN(x) || math.Abs(x) > maxReward {
		return fmt.Errorf("the reward is %v: it must be a number from -1e100 to 1e100, or null", x)
	}
	return nil
}

// pattern gives 1 to completions in which it matches anywhere, and 0 to the others.
type pattern struct{ re *regexp.Regexp }

// CheckPattern returns an error unless text is a pattern.
func CheckPattern(text string) error {
	_, err := newPattern(text)
	return err
}

func newPattern(text string) (*pattern, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("not an RE2 pattern: %w", err)
	}
	return &pattern{re}, nil
}

func (p *pattern) Score(b Batch) (Scores, error) {
	s := Scores{Rewards: make([]float64, len(b.Completions))}
	for i, c := range b.Completions {
		if p.re.MatchString(c.Completion) {
			s.Rewards[i] = 1
		}
	}
	return s, nil
}

func (p *pattern) Close() {}

// HashFiles returns the SHA-256 of the files among the words of a command, by path as written.
// Words that name no file, and a program that is found by PATH, are left out.
func HashFiles(command []string) (map[string]string, error) {
	out := map[string]string{}
	for i, word := range command {
		if i == 0 && !strings.ContainsAny(word, `/\`) {
			continue
		}
		info, err := os.Stat(word)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum, err := regular.SHA256(word)
		if errors.Is(err, fs.ErrPermission) {
			continue // a program may be executable and not readable
		}
		if err != nil {
			return nil, fmt.Errorf("hash a file of the reward's command: %w", err)
		}
		out[word] = sum
	}
	return out, nil
}
