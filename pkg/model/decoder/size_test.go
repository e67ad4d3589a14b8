package decoder

import (
	"fmt"
	"math"
	"math/rand"
	"sync"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rng"
)

// unwritten has numbers that nothing computes here.
var unwritten = sync.OnceValue(func() []float32 {
	all := make([]float32, 1<<24)
	for i := range all {
		all[i] = float32(math.Inf(-1))
	}
	return all
})

// highWater returns the numbers at the beginning of an arena that f has written.
func highWater(t *testing.T, f func(mem *arena) error) float64 {
	t.Helper()
	all := unwritten()
	mem := &arena{blocks: [][]float32{all}}
	mem.Add(len(all), 0)
	expect.OK(t, f(mem))
	if len(mem.blocks) > 1 {
		t.Fatal("the memory of the test is too small")
	}
	n := len(all)
	for n > 0 && math.IsInf(float64(all[n-1]), -1) {
		n--
	}
	for i := range all[:n] {
		all[i] = float32(math.Inf(-1))
	}
	return float64(n)
}

// TestMemory compares the estimates with what is used, for batches as large as their
// bound.
func TestMemory(t *testing.T) {
	qwen := hf.Config{Arch: "qwen3", Vocab: 300, Hidden: 96, FFN: 200, Layers: 3, Heads: 6, KVHeads: 2,
		HeadDim: 16, Context: 512, RopeTheta: 1e4, NormEps: 1e-5, QKNorm: true}
	gemma := qwen
	gemma.Arch, gemma.Norms, gemma.OffsetNorms, gemma.ScaledEmbed, gemma.GELU = "gemma3", hf.NormBoth, true, true, true
	gemma.LocalTheta, gemma.Window, gemma.Sliding, gemma.Tied = 100, 9, []bool{true, false, true}, true
	gemma.AttnSoftcap, gemma.FinalSoftcap = 50, 30
	for name, c := range map[string]hf.Config{"qwen3": qwen, "gemma3 with soft caps": gemma} {
		t.Run(name, func(t *testing.T) { testMemory(t, &c) })
	}
}

func testMemory(t *testing.T, c *hf.Config) {
	r := rand.New(rand.NewSource(1))
	net := NewNetwork(c)
	for i := range net.Params.Flat {
		net.Params.Flat[i] = float32(r.NormFloat64()) * 0.1
	}
	size, pool := net.size(), kernel.NewPool(2)
	defer pool.Close()
	const shared, own, most = 60, 20, 12
	for _, c := range []struct{ prompts, group int }{{6, 8}, {70, 1}, {1, 4}} {
		batch := &model.Batch{}
		for i := range c.prompts {
			prompt := make([]int, shared+own)
			for j := shared; j < len(prompt); j++ {
				prompt[j] = 1 + i
			}
			batch.Prompts = append(batch.Prompts, prompt)
			for range c.group {
				batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: make([]int, most)})
			}
		}
		n, rows := float64(c.prompts), float64(len(batch.Rows))
		b := model.BatchSize{Prompts: n, PromptTokens: n * (shared + own), LongestPrompt: shared + own, Shared: shared,
			Completions: rows, Tokens: rows * most, Longest: most}
		if c.prompts == 1 {
			b.Shared = 0
		}
		recomputed := b
		recomputed.Checkpointing = true
		learn := func(checkpointing bool) func(*arena) error {
			return func(mem *arena) error {
				l := &learner{net: net, on: &cpu{pool, mem}, temperature: 1, checkpointing: checkpointing, grads: NewNetwork(net.Config)}
				_, err := l.Accumulate(batch, func(*model.TokenMatrix) (float64, error) { return 0, nil })
				return err
			}
		}
		for what, x := range map[string]struct {
			estimate float64
			run      func(*arena) error
		}{
			"learner":       {size.WorkBytes(model.Use{Learn: b}, 2), learn(false)},
			"checkpointing": {size.WorkBytes(model.Use{Learn: recomputed}, 2), learn(true)},
			"scorer": {size.WorkBytes(model.Use{Score: b}, 2), func(mem *arena) error {
				_, err := (&scorer{net: net, on: &cpu{pool, mem}, temperature: 1}).Score(batch)
				return err
			}},
			"sampler": {size.WorkBytes(model.Use{Sample: []model.BatchSize{b}}, 2), func(mem *arena) error {
				opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: most}
				_, err := newSampler(net, pool, mem, nil).Sample(batch.Prompts, c.group, opt, model.Draws{Stream: rng.New(1, 2)})
				return err
			}},
		} {
			t.Run(fmt.Sprintf("%s/%dx%d", what, c.prompts, c.group), func(t *testing.T) {
				got := float * highWater(t, x.run)
				if ratio := x.estimate / got; ratio < 1 || ratio > 1.25 {
					t.Errorf("estimate %.0f bytes, used %.0f: ratio %.2f", x.estimate, got, ratio)
				}
			})
		}
	}
}
