package sweep

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/words"
	"grpo/pkg/config"
)

// evaluateAlike holds the arms to one way of evaluation, by which they are
// compared. Where the longest completion of an evaluation follows from how long
// the arms sample, all arms get the largest, so that none is cut short.
func (p *planner) evaluateAlike() error {
	longest := 0
	for _, c := range p.configs {
		longest = max(longest, c.Eval.MaxTokens)
	}
	for i, follows := range p.lengthFollows {
		if c := &p.configs[i]; follows && c.Eval.MaxTokens != longest {
			c.Eval.MaxTokens = longest
			p.note = fmt.Sprintf("All arms are evaluated with at most %d tokens (eval.max_tokens), the largest sampling_max_tokens of any arm.", longest)
		}
	}
	for i, c := range p.configs[1:] {
		for _, d := range config.Diff(p.configs[0], c) {
			key, values, _ := strings.Cut(d, ": ")
			if ofEvaluation(key) {
				return planError(fmt.Sprintf("the arms %s and %s differ in %s (%s): arms are compared by their evaluations, which must be the same for all (set it with --set, or in the file's set, for all arms; what training samples with is in the section rollout)",
					words.Quote(p.arms[0].Name), words.Quote(p.arms[i+1].Name), key, strings.Replace(values, ", now ", " and ", 1)))
			}
		}
	}
	return nil
}

// ofEvaluation reports the keys that say how, or on which problems, a run is
// evaluated and have no other effect.
func ofEvaluation(key string) bool {
	return strings.HasPrefix(key, "eval.") ||
		slices.Contains([]string{"data.val_file", "data.val_size", "data.test_file", "data.test_size", "data.unseen_size"}, key)
}

// checkEffect refuses an arm that sets what has no effect in it.
func (p *planner) checkEffect() error {
	var problems []string
	for i, a := range p.arms {
		inert := config.InertSettings(p.configs[i])
		for j, o := range a.Set {
			for _, s := range inert {
				if s.Key == o.Key {
					problems = append(problems, fmt.Sprintf("%sarm %s: %s", place(a.from[j]), words.Quote(a.Name), s.Text))
				}
			}
		}
	}
	if len(problems) > 0 {
		return planError(problems...)
	}
	return nil
}
