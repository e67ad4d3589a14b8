package gsm8k

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"grpo/pkg/gsm8k/grader"
)

// R1Verdict is the result of the assignment's graders: each field is 0 or 1.
type R1Verdict struct {
	FormatReward float64 `json:"format_reward"`
	AnswerReward float64 `json:"answer_reward"`
	// Reward equals AnswerReward: a formatted but wrong answer earns nothing.
	Reward float64 `json:"reward"`
}

var (
	unformatted    = R1Verdict{}
	formattedWrong = R1Verdict{FormatReward: 1}
	formattedRight = R1Verdict{FormatReward: 1, AnswerReward: 1, Reward: 1}
)

// GradeR1Zero grades a response by the assignment's r1_zero_reward_fn (CS336,
// assignment 5, drgrpo_grader.py, fast mode).
//
// The response is the completion alone. The r1_zero prompt ends in "<think>", so
// that tag belongs to the prompt and is not looked for; a response that repeats
// it, or one with the prompt before it, gets the same verdict.
//
//   - Format reward 1 iff "</think> <answer>", with exactly one space, and
//     "</answer>" both occur, in any order.
//   - The answer is what follows the last "<answer>", with every "</answer>" cut
//     out: text after the closing tag spoils it. If it holds a \boxed{...}, the
//     content of the last one counts.
//   - Answer reward 1 iff that equals gold by [grader.Equal], where the rules,
//     the limits and the differences on purpose are written down.
//
// Unlike [Grade], this looks at the text only: a completion that the token limit
// cut after its "</answer>" still counts, as it does for the assignment, which
// stops sampling there.
func GradeR1Zero(response, gold string) R1Verdict { return GradeR1ZeroAny(response, []string{gold}) }

// GradeR1ZeroAny is [GradeR1Zero] with several gold answers, of which the answer
// must equal one.
func GradeR1ZeroAny(response string, golds []string) R1Verdict {
	if !strings.Contains(response, "</think> <answer>") || !strings.Contains(response, "</answer>") {
		return unformatted
	}
	answer := response[strings.LastIndex(response, "<answer>")+len("<answer>"):]
	answer = strings.ReplaceAll(answer, "</answer>", "")
	if strings.Contains(answer, `\boxed`) {
		var ok bool
		if answer, ok = grader.Boxed(answer); !ok {
			return formattedWrong
		}
	}
	return gradeFormatted(answer, golds)
}

// GradeQuestionOnly grades a response by the assignment's
// question_only_reward_fn: format reward 1 iff the last \boxed is one with its
// braces closed, answer reward 1 iff its content equals gold by [grader.Equal].
func GradeQuestionOnly(response, gold string) R1Verdict {
	return GradeQuestionOnlyAny(response, []string{gold})
}

// GradeQuestionOnlyAny is [GradeQuestionOnly] with several gold answers, of which
// the answer must equal one.
func GradeQuestionOnlyAny(response string, golds []string) R1Verdict {
	answer, ok := grader.Boxed(response)
	if !ok {
		return unformatted
	}
	return gradeFormatted(answer, golds)
}

func gradeFormatted(answer string, golds []string) R1Verdict {
	for _, gold := range golds {
		if grader.Equal(answer, gold) {
			return formattedRight
		}
	}
	return formattedWrong
}

// GoldAnswers reads the "ground_truth" of a case for the assignment's graders: a
// JSON string, a number (taken as it is written) or a list of these. It reports
// anything else, an empty list included, as an error.
func GoldAnswers(raw json.RawMessage) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read ground truth: %q: %w", clip(string(raw)), err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	golds := make([]string, len(list))
	for i, x := range list {
		switch x := x.(type) {
		case string:
			golds[i] = x
		case json.Number:
			golds[i] = x.String()
		default:
			return nil, goldError(raw)
		}
	}
	if _, err := d.Token(); len(golds) == 0 || err != io.EOF {
		return nil, goldError(raw)
	}
	return golds, nil
}

var errGold = errors.New("want a string, a number, or a list of these that is not empty")

func goldError(raw json.RawMessage) error {
	return fmt.Errorf("read ground truth: %q: %w", clip(string(raw)), errGold)
}

// r1ZeroReward and questionOnlyReward are the rewards of the assignment's
// graders; a problem without a gold answer is not scorable.
func r1ZeroReward(in RewardInput) float64 {
	if in.Problem.Gold == "" {
		return math.NaN()
	}
	return GradeR1Zero(in.Completion, in.Problem.Gold).Reward
}

func questionOnlyReward(in RewardInput) float64 {
	if in.Problem.Gold == "" {
		return math.NaN()
	}
	return GradeQuestionOnly(in.Completion, in.Problem.Gold).Reward
}
