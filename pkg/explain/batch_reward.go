package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"grpo/internal/textutil"
	"grpo/pkg/gsm8k"
)

// RewardCase is one response of a batch and its rewards.
type RewardCase struct {
	gsm8k.R1Verdict
	Response string   `json:"-"`
	Gold     []string `json:"-"`
	Check    Check    `json:"-"`
}

// graders are the reward functions that a case can use, by the assignment's names and this
// project's.
var graders = map[string]func(response string, golds ...string) gsm8k.R1Verdict{
	"r1_zero_reward_fn":       gsm8k.GradeR1Zero,
	"r1_zero":                 gsm8k.GradeR1Zero,
	"question_only_reward_fn": gsm8k.GradeQuestionOnly,
	"question_only":           gsm8k.GradeQuestionOnly,
}

type rewardFields struct {
	Fn       string         `json:"fn"`
	Response *string        `json:"response"`
	Gold     jsontext.Value `json:"ground_truth"`
	Format   *float64       `json:"format_reward"`
	Answer   *float64       `json:"answer_reward"`
	Reward   *float64       `json:"reward"`
}

// Rewards reads a batch of responses and grades each, in the order of the file: a
// list "cases" of objects with "response", "ground_truth" (a string, a number, or a
// list of accepted answers) and "fn" (r1_zero_reward_fn if missing).
func Rewards(f File) (Batch, error) {
	cases, err := rewards(f)
	return newBatch(f, "response", cases, func(c RewardCase) Check { return c.Check }, rewardTable), err
}

func rewards(f File) (cases []RewardCase, err error) {
	defer f.wrap("reward", &err)
	var in struct {
		Cases []rewardFields `json:"cases"`
	}
	if err := f.decode(&in, defaulted(rewardFields{Fn: "r1_zero_reward_fn"})); err != nil {
		return nil, err
	}
	if len(in.Cases) == 0 {
		return nil, path("/cases").errorf("no cases")
	}
	cases, err = readCases("cases", in.Cases, rewardFields.grade)
	return cases, err
}

func (in rewardFields) grade(at path) (c RewardCase, err error) {
	if in.Response == nil {
		return c, at.field("response").errorf("missing")
	}
	if in.Gold == nil {
		return c, at.field("ground_truth").errorf("missing")
	}
	if err := at.field("fn").choice(in.Fn, slices.Sorted(maps.Keys(graders))...); err != nil {
		return c, err
	}
	gold, err := gsm8k.GoldAnswers([]byte(in.Gold))
	if err != nil {
		return c, at.field("ground_truth").errorf("%w", err)
	}
	c = RewardCase{R1Verdict: graders[in.Fn](*in.Response, gold...), Response: *in.Response, Gold: gold}
	for _, x := range []struct {
		name string
		got  float64
		want *float64
	}{
		{"format_reward", c.FormatReward, in.Format},
		{"answer_reward", c.AnswerReward, in.Answer},
		{"reward", c.Reward, in.Reward},
	} {
		if x.want != nil {
			c.Check.add(x.name, []float64{x.got}, []float64{*x.want})
		}
	}
	return c, nil
}

func rewardTable(cases []RewardCase, checks []Check) caseTable {
	t := caseTable{
		columns: "lrrrl", rows: [][]string{{"case", "format", "answer", "reward", "gold", "response"}}, checks: checks,
	}
	formatted, correct := 0, 0
	for i, c := range cases {
		t.rows = append(t.rows, []string{
			strconv.Itoa(i), short(c.FormatReward), short(c.AnswerReward), textutil.Rounded(c.Reward),
			quote(strings.Join(c.Gold, "|"), 16), quote(c.Response, 48),
		})
		formatted += int(c.FormatReward)
		correct += int(c.AnswerReward)
	}
	t.notes = []string{fmt.Sprintf("%d formatted and correct, %d formatted and wrong, %d unformatted.",
		correct, formatted-correct, len(cases)-formatted)}
	return t
}
