package tinylm_test

import (
	"fmt"
	"runtime"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// TestMemory compares the estimates with what is allocated, for batches that are
// as large as their bound.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short, as under the race detector, which allocates more")
	}
	for _, c := range []struct {
		spec                                      tinylm.Spec
		prompts, promptLen, group, length, thread int
	}{
		{tinylm.Spec{Vocab: 100, Hidden: 64, Layers: 2}, 16, 60, 8, 24, 1},
		{tinylm.Spec{Vocab: 100, Hidden: 64, Layers: 1}, 4, 50, 64, 64, 2},
		{tinylm.Spec{Vocab: 100, Hidden: 16, Layers: 3}, 1, 20000, 8, 8, 1},
		{tinylm.Spec{Vocab: 100, Hidden: 256, Layers: 2}, 8, 40, 4, 24, 2},
		{tinylm.Spec{Vocab: 100, Hidden: 33, Layers: 2}, 32, 10, 4, 200, 3},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, err := tinylm.NewWeights(c.spec)
			expect.OK(t, err)
			p.Init(1)
			pool := tinylmtest.Pool(t, c.thread)
			batch := &model.Batch{}
			for i := range c.prompts {
				batch.Prompts = append(batch.Prompts, make([]int, c.promptLen))
				for range c.group {
					batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: make([]int, c.length)})
				}
			}
			rows := float64(len(batch.Rows))
			size := model.BatchSize{
				Prompts: float64(c.prompts), PromptTokens: float64(c.prompts * c.promptLen), LongestPrompt: float64(c.promptLen),
				Completions: rows, Tokens: rows * float64(c.length), Longest: float64(c.length),
			}
			work := func(u model.Use) float64 { return c.spec.WorkBytes(u, c.thread) }
			check := func(err error) {
				expect.OK(t, err)
			}
			for _, part := range []struct {
				name string
				want float64
				f    func()
			}{
				{"weights", c.spec.ParamBytes(), func() { p.Clone() }},
				{"learner", work(model.Use{Learner: true, Learn: size}), func() {
					l, err := tinylm.NewLearner(p, 1, pool)
					check(err)
					_, err = l.Accumulate(batch, func(*model.TokenMatrix) (float64, error) { return 0, nil })
					check(err)
				}},
				{"scorer", work(model.Use{Scorers: 1, Score: size}), func() {
					s, err := tinylm.NewScorer(p, 1, pool)
					check(err)
					_, err = s.Score(batch)
					check(err)
				}},
				{"critic", work(model.Use{Critic: true, Score: size, Learn: size}), func() {
					k, err := tinylm.NewCritic(p, tinylmtest.AdamW, pool)
					check(err)
					_, err = k.Values(batch)
					check(err)
					_, err = k.Accumulate(batch, func(*model.ValueMatrix) (float64, error) { return 0, nil })
					check(err)
				}},
				{"sampler", work(model.Use{Samplers: 1}) + c.spec.SampledBytes(size.Prompts, float64(c.group), 64), func() {
					_, err := tinylm.NewSampler(p, pool).Sample(batch.Prompts, c.group, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 64}, tinylmtest.Draws(1))
					check(err)
				}},
			} {
				got := allocated(part.f)
				// 1 MiB: the graph's own objects, and scratch of products.
				if got > part.want+1<<20 || got < 0.8*part.want-1<<20 {
					t.Errorf("%s: %.2f MiB were allocated, the estimate is %.2f MiB", part.name, got/(1<<20), part.want/(1<<20))
				}
				t.Logf("%-8s allocated %8.2f MiB, estimate %8.2f MiB (%.3f)", part.name, got/(1<<20), part.want/(1<<20), part.want/got)
			}
		})
	}
}
