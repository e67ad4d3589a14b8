package train

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/model"
)

// Parts are all completions in their order, none has more than the limit unless it is a
// single completion, and none could take the next completion too.
func TestParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(rt, what) }
		shared, group := draw(0, 9, "shared"), draw(1, 4, "group")
		r := &rollout{groupSize: group}
		for p := range draw(2, 6, "prompts") {
			prompt := append(make([]int, shared), 100+p) // they differ after what they share
			r.prompts = append(r.prompts, append(prompt, make([]int, draw(0, 6, "prompt"))...))
			for range group {
				r.completions = append(r.completions, model.Completion{Tokens: make([]int, draw(1, 12, "completion"))})
			}
		}
		rows := span(0, len(r.completions))
		tokens := func(rows []int) int { // distinct inputs
			n, last := shared, -1
			for _, i := range rows {
				if g := i / group; g != last {
					n, last = n+len(r.prompts[g])-shared, g
				}
				n += len(r.completions[i].Tokens) - 1
			}
			return n
		}
		for _, limit := range []int{0, draw(1, 120, "limit")} {
			run := &trainer{microTokens: limit}
			parts := run.parts(r, rows, 1)
			if !slices.Equal(slices.Concat(parts...), rows) {
				rt.Fatalf("parts %v", parts)
			}
			if limit == 0 && len(parts) != 1 {
				rt.Fatalf("%d parts without a limit", len(parts))
			}
			for k, part := range parts {
				if limit > 0 && len(part) > 1 && tokens(part) > limit {
					rt.Fatalf("part %v has %d tokens, the limit is %d", part, tokens(part), limit)
				}
				if k > 0 && tokens(append(slices.Clone(parts[k-1]), part[0])) <= limit {
					rt.Fatalf("part %v could begin with %d", parts[k-1], part[0])
				}
			}
		}
	})
}
