package explain

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/gsm8k"
)

// RewardCase is one response of a batch and its rewards.
type RewardCase struct {
	gsm8k.R1Verdict
	Response string   `json:"-"`
	Gold     []string `json:"-"`
	Check    *Check   `json:"-"` // nil if the file has no expected values
}

// graders are the reward functions that a case can use, by the assignment's names and this
// project's.
var graders = map[string]func(response string, golds ...string) gsm8k.R1Verdict{
	"r1_zero_reward_fn":       gsm8k.GradeR1Zero,
	"r1_zero":                 gsm8k.GradeR1Zero,
	"question_only_reward_fn": gsm8k.GradeQuestionOnly,
	"question_only":           gsm8k.GradeQuestionOnly,
}

// Rewards reads a batch of responses and grades each, in the order of the file: a
// list "cases" of objects with "response", "ground_truth" (a string, a number, or a
// list of accepted answers) and "fn" (r1_zero_reward_fn if missing).
func Rewards(file string, data []byte) (cases []RewardCase, err error) {
	defer named("reward", &err)
	var f struct {
		Cases value `json:"cases" check:"required"`
	}
	if _, err := document(file, data, &f); err != nil {
		return nil, err
	}
	kinds := map[string]func(value) (RewardCase, error){"cases": rewardCase}
	if cases, err = readCases(kinds, f.Cases); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, f.Cases.errorf("no cases")
	}
	return cases, nil
}

func rewardCase(v value) (c RewardCase, err error) {
	in := struct {
		Fn       string   `json:"fn"`
		Response *string  `json:"response" check:"required"`
		Gold     value    `json:"ground_truth" check:"required"`
		Format   *float64 `json:"format_reward"`
		Answer   *float64 `json:"answer_reward"`
		Reward   *float64 `json:"reward"`
	}{Fn: "r1_zero_reward_fn"}
	if err := v.decode(&in); err != nil {
		return c, err
	}
	if err := v.field("fn").choice(in.Fn, slices.Sorted(maps.Keys(graders))...); err != nil {
		return c, err
	}
	gold, err := gsm8k.GoldAnswers(in.Gold.raw)
	if err != nil {
		return c, in.Gold.errorf("%w", err)
	}
	c = RewardCase{R1Verdict: graders[in.Fn](*in.Response, gold...), Response: *in.Response, Gold: gold}
	check := &Check{}
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
			check.add(x.name, x.got, *x.want)
		}
	}
	c.Check = check.orNil()
	return c, nil
}

// WriteRewards writes a table of the cases.
func WriteRewards(w io.Writer, file string, cases []RewardCase) error {
	p := &page{}
	p.title("%s of %s", textutil.Count(len(cases), "response"), file)
	table := [][]string{{"case", "format", "answer", "reward", "gold", "response"}}
	checks := checksOf(cases)
	formatted, correct := 0, 0
	for i, c := range cases {
		table = append(table, []string{
			strconv.Itoa(i), short(c.FormatReward), short(c.AnswerReward), textutil.Rounded(c.Reward),
			quote(strings.Join(c.Gold, "|"), 16), quote(c.Response, 48),
		})
		formatted += int(c.FormatReward)
		correct += int(c.AnswerReward)
	}
	p.caseTable("lrrrlll", table, checks)
	p.paragraph("%d formatted and correct, %d formatted and wrong, %d unformatted.",
		correct, formatted-correct, len(cases)-formatted)
	p.checks(checks)
	return p.writeTo(w)
}
