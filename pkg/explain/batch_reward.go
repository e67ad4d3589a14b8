package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"grpo/pkg/gsm8k"
)

// RewardCase is one response of a batch and its verdict.
type RewardCase struct {
	Function string // r1_zero_reward_fn or question_only_reward_fn
	Response string
	Gold     []string
	Result   gsm8k.R1Verdict
	// Check compares with the values that stand in the file, nil without any.
	Check *Check
}

// graders are the reward functions that a case may name, under the assignment's
// names and this project's.
var graders = map[string]func(response string, golds ...string) gsm8k.R1Verdict{
	"r1_zero_reward_fn":       gsm8k.GradeR1Zero,
	"r1_zero":                 gsm8k.GradeR1Zero,
	"question_only_reward_fn": gsm8k.GradeQuestionOnly,
	"question_only":           gsm8k.GradeQuestionOnly,
}

// graderNames lists the names of graders, the default first.
var graderNames = []string{"r1_zero_reward_fn", "r1_zero", "question_only_reward_fn", "question_only"}

// Rewards reads a batch of responses, a list "cases" of objects with "response",
// "ground_truth" (a text, a number, or a list of these of which one must be met)
// and "fn" (r1_zero_reward_fn if missing), and grades each, in the order of the
// file.
//
// Errors name the file, the case and the field.
func Rewards(file string, data []byte) ([]RewardCase, error) {
	fail := func(err error) ([]RewardCase, error) { return nil, fmt.Errorf("explain reward: %w", err) }
	root, err := document(file, data)
	if err != nil {
		return fail(err)
	}
	var out []RewardCase
	if list, ok := root.must("cases"); ok {
		err := list.each(maxCases, func(_ int, n node) error {
			c, err := readReward(n)
			out = append(out, c)
			return err
		})
		switch {
		case err != nil:
			root.fail(err)
		case len(out) == 0:
			root.fail(list.errorf("no cases"))
		}
	}
	if err := root.done(); err != nil {
		return fail(err)
	}
	return out, nil
}

func readReward(n node) (RewardCase, error) {
	f := n.fields()
	c := RewardCase{Function: f.choice("fn", graderNames[0], graderNames...)}
	if _, ok := f.must("response"); ok {
		c.Response = f.text("response", "")
	}
	if gold, ok := f.must("ground_truth"); ok {
		var err error
		if c.Gold, err = gsm8k.GoldAnswers(gold.raw); err != nil {
			f.fail(gold.errorf("%w", err))
		}
	}
	format, answer, total := f.floatOrNil("format_reward"), f.floatOrNil("answer_reward"), f.floatOrNil("reward")
	if err := f.done(); err != nil {
		return c, err
	}
	c.Result = graders[c.Function](c.Response, c.Gold...)
	check := &Check{}
	for _, x := range []struct {
		name string
		got  float64
		want *float64
	}{
		{"format_reward", c.Result.FormatReward, format},
		{"answer_reward", c.Result.AnswerReward, answer},
		{"reward", c.Result.Reward, total},
	} {
		if x.want != nil {
			check.add(x.name, x.got, *x.want)
		}
	}
	if check.Values > 0 {
		c.Check = check
	}
	return c, nil
}

// WriteRewards writes a table of the cases of a batch.
func WriteRewards(w io.Writer, file string, cases []RewardCase) error {
	p := &printer{w: w}
	p.line("%s of %s", count(len(cases), "response"), file)
	p.gap()
	checked := anyCheck(cases, func(c RewardCase) *Check { return c.Check })
	head := []string{"case", "format", "answer", "reward", "gold", "response"}
	if checked {
		head = append(head, "file's values")
	}
	table := [][]string{head}
	formatted, right := 0, 0
	for i, c := range cases {
		row := []string{
			strconv.Itoa(i), short(c.Result.FormatReward), short(c.Result.AnswerReward), short(c.Result.Reward),
			quote(strings.Join(c.Gold, "|"), 16), quote(c.Response, 48),
		}
		if checked {
			row = append(row, c.Check.String())
		}
		table = append(table, row)
		formatted += int(c.Result.FormatReward)
		right += int(c.Result.AnswerReward)
	}
	p.table("lrrrlll", table...)
	p.gap()
	p.say("%d formatted and right, %d formatted and wrong, %d unformatted.", right, formatted-right, len(cases)-formatted)
	writeChecks(p, cases, func(c RewardCase) *Check { return c.Check })
	return p.err
}

// quote shows a text in one line: quoted, and of a long one the end, where the
// answer stands.
func quote(s string, longest int) string {
	if r := []rune(s); len(r) > longest {
		return "..." + strconv.Quote(string(r[len(r)-longest:]))
	}
	return strconv.Quote(s)
}
