package gsm8k

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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

// GradeR1Zero grades a response by the assignment's r1_zero_reward_fn (CS336, assignment 5,
// drgrpo_grader.py, fast mode). The answer must equal one of golds.
//
// The response is the completion alone. The r1_zero prompt ends in "<think>", so that tag belongs
// to the prompt and is not required; a response that repeats it, or that includes the prompt, gets
// the same verdict.
//
//   - Format reward 1 iff "</think> <answer>", with exactly one space, and
//     "</answer>" both occur, in any order.
//   - The answer is everything after the last "<answer>" except "</answer>" tags:
//     text after the closing tag makes it wrong. If it contains \boxed{...}, the content
//     of the last one counts.
//   - Answer reward 1 iff that equals gold by [grader.Equal], which documents the
//     rules, the limits and the intended differences.
//
// Unlike [Answers.Grade], this considers the text only: a completion that the token limit truncates after
// its "</answer>" still counts, as in the assignment, which stops sampling there.
func GradeR1Zero(response string, golds ...string) R1Verdict {
	return gradeR1Zero(response, equalToAny(golds))
}

// gradeR1Zero is [GradeR1Zero] with another comparison.
func gradeR1Zero(response string, right func(answer string) bool) R1Verdict {
	if !strings.Contains(response, "</think> <answer>") || !strings.Contains(response, "</answer>") {
		return R1Verdict{}
	}
	answer := response[strings.LastIndex(response, "<answer>")+len("<answer>"):]
	answer = strings.ReplaceAll(answer, "</answer>", "")
	if strings.Contains(answer, `\boxed`) {
		var ok bool
		if answer, ok = grader.Boxed(answer); !ok {
			return R1Verdict{FormatReward: 1}
		}
	}
	return gradeFormatted(right(answer))
}

// GradeQuestionOnly grades a response by the assignment's
// question_only_reward_fn: format reward 1 iff the braces of the last \boxed are
// closed, answer reward 1 iff its content equals one of golds by [grader.Equal].
func GradeQuestionOnly(response string, golds ...string) R1Verdict {
	return gradeQuestionOnly(response, equalToAny(golds))
}

func gradeQuestionOnly(response string, right func(answer string) bool) R1Verdict {
	answer, ok := grader.Boxed(response)
	if !ok {
		return R1Verdict{}
	}
	return gradeFormatted(right(answer))
}

func equalToAny(golds []string) func(answer string) bool {
	return func(answer string) bool {
		return slices.ContainsFunc(golds, func(gold string) bool { return grader.Equal(answer, gold) })
	}
}

func gradeFormatted(right bool) R1Verdict {
	return R1Verdict{FormatReward: 1, AnswerReward: indicator(right), Reward: indicator(right)}
}

// GoldAnswers reads the "ground_truth" of a case for the assignment's graders: a
// JSON string, a number (taken as it is written) or a list of these that is not
// empty. Anything else is an error.
func GoldAnswers(raw json.RawMessage) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("read ground truth: %q: %w", clip(string(raw)), err)
	}
	wrong := errors.New("want a string, a number, or a list of these that is not empty")
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fail(err)
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
			return fail(wrong)
		}
	}
	if _, err := d.Token(); len(golds) == 0 || err != io.EOF {
		return fail(wrong)
	}
	return golds, nil
}
