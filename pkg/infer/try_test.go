package infer

import (
	"fmt"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
)

// TestTryRewards: a sample of other data keeps its own answer, the random reward is a coin, and the first completions of
// a file are read however many follow.
func TestTryRewards(t *testing.T) {
	l, err := config.Load(config.LoadOptions{Path: "smoke", Set: []string{"reward.functions=answer,random", "reward.reward_weights=1,1"}})
	expect.OK(t, err)
	s, err := withProblems(Options{Config: l.Config})
	expect.OK(t, err)
	p := s.problems.Train[0]
	const n = 64
	line := func(gold string) string {
		return fmt.Sprintf(`{"completion":"#### 7777","gold":%q,"prompt":"Other?\n","problem":%q}`+"\n", gold, p.ID)
	}
	file := strings.Repeat(line("7777"), n-2) + line(p.Gold) + line("") + strings.Repeat(`{"completion":""}`+"\n", maxSamples)
	out, err := TryRewards(t.Context(), Options{Config: l.Config}, "-", strings.NewReader(file), n)
	expect.OK(t, err)
	if len(out.Completions) != n {
		t.Fatalf("%d completions, want %d", len(out.Completions), n)
	}
	heads := 0.0
	for i, c := range out.Completions {
		prompt, right := "Other?\n", 1.0
		if i >= n-2 {
			prompt, right = s.template.Render(p.Question), 0
		}
		if c.Problem != p.ID || c.Prompt != prompt || *c.Rewards[0] != right {
			t.Errorf("completion %d of %s, %q, has the answer reward %v, want %v for %q", i, c.Problem, c.Prompt, *c.Rewards[0], right, prompt)
		}
		heads += *c.Rewards[1]
	}
	if heads < n/4 || heads > n*3/4 {
		t.Errorf("the random reward is 1 for %v of %d completions", heads, n)
	}
}
