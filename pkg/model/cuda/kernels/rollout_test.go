//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

// lastStates are those of the prompts, layers×prompts×H, and the table.
func lastStates(p *tinylm.Weights, prompts [][]int) (states, table []float32) {
	h := p.Hidden
	states = make([]float32, p.Layers*len(prompts)*h)
	for i, ids := range prompts {
		state := make([][]float64, p.Layers)
		for l := range state {
			state[l] = make([]float64, h)
		}
		for _, id := range ids {
			x := to64(p.Embed[id*h : (id+1)*h])
			for l, w := range p.Layer {
				gi, gh := make([]float64, 3*h), make([]float64, 3*h)
				kernel.ReferenceGemm(false, true, 1, 3*h, h, x, h, to64(w.Wih), h, false, gi, 3*h)
				kernel.ReferenceGemm(false, true, 1, 3*h, h, state[l], h, to64(w.Whh), h, false, gh, 3*h)
				kernel.ReferenceGRUForward(1, h, gi, gh, to64(w.Bih), to64(w.Bhh), state[l], state[l], nil)
				x = state[l]
			}
		}
		for l := range state {
			for k, v := range state[l] {
				states[(l*len(prompts)+i)*h+k] = float32(v)
			}
		}
	}
	wide := make([]float64, p.Vocab*3*h)
	kernel.ReferenceGemm(false, true, p.Vocab, 3*h, h, to64(p.Embed), h, to64(p.Layer[0].Wih), h, false, wide, 3*h)
	for _, v := range wide {
		table = append(table, float32(v))
	}
	return states, table
}

// The rollout samples the same tokens as pkg/model's sampler.
func TestRollout(t *testing.T) {
	for _, spec := range []tinylm.Spec{
		{Vocab: 7, Hidden: 5, Layers: 1}, {Vocab: 100, Hidden: 64, Layers: 2}, {Vocab: 40, Hidden: 34, Layers: 3},
		{Vocab: 70, Hidden: 100, Layers: 1},
	} {
		p, err := tinylm.NewWeights(spec)
		expect.OK(t, err)
		p.Init(3)
		r := rand.New(rand.NewPCG(15, 15))
		for i := range p.Flat { // biases too, and an end that comes now and then
			p.Flat[i] += float32(r.NormFloat64() * 0.1)
		}
		p.HeadB[tokenizer.EOS] += 1
		prompts := [][]int{{1, 3, 4}, {5}, {6, 6, 2, 1}, {0, 1}}
		states, table := lastStates(p, prompts)
		c := Card{SM: 90, SMs: 4, Shared: 227 << 10}
		plan, ok := c.Rollout(spec.Hidden, spec.Layers, spec.Vocab)
		if !ok {
			t.Fatalf("no plan for %v", spec)
		}
		b := newBench(t, plan.Module())
		pool := kernel.NewPool(1)
		sampler := tinylm.NewSampler(p, pool)
		const group, seed, step, offset, sample0 = 3, 5, 17, 1000, 2
		stream := rng.New(seed, rng.Rollout)
		for name, o := range map[string]model.Sampling{
			"plain":                 {Temperature: 1, TopP: 1, MaxTokens: 9},
			"cool and truncated":    {Temperature: 0.8, TopP: 0.9, TopK: 5, MaxTokens: 6},
			"greedy":                {TopP: 1, Greedy: true, MaxTokens: 6},
			"with a minimum length": {Temperature: 1.3, TopP: 1, MinTokens: 4, MaxTokens: 5},
			"one token":             {Temperature: 1, TopP: 1, MaxTokens: 1},
		} {
			want, err := sampler.Sample(prompts, group, o, model.Draws{Stream: stream, A: step, B: offset, C: sample0})
			expect.OK(t, err)
			rows := len(prompts) * group
			for _, tile := range []struct{ atATime, tile int }{{2, 2}, {4, 8}, {8, 16}, {0, 0}} {
				if name != "plain" && tile.tile > 0 && os.Getenv("GRPO_LONG") == "" {
					continue
				}
				t.Run(fmt.Sprintf("%v %s, %d at a time", spec, name, tile.atATime), func(t *testing.T) {
					l := plan.Launch(rows)
					if tile.tile > 0 {
						l.Kernel, l.Tile, l.Tiles = plan.kernel(tile.atATime), tile.tile, ceil(rows, tile.tile)
						l.Shared, l.Grid[0] = plan.shared(tile.tile), l.Tiles
					}
					inv, greedy := float32(1), 1
					if !o.Greedy {
						inv, greedy = float32(1/o.Temperature), 0
					}
					var tokens, lengths, ended []int32
					var logps []float32
					run := func(k0, k1 uint32, uniform cudaemu.Ptr) [][]float32 {
						n := rows * o.MaxTokens
						pt, pl, plen, pend := b.Alloc(4*n), b.Alloc(4*n), b.Alloc(4*rows), b.Alloc(4*rows)
						b.start(l, b.floats(p.Flat), b.floats(table), b.floats(states), rows, group, l.Tile, inv, o.TopP,
							o.TopK, o.MinTokens, o.MaxTokens, greedy, tokenizer.EOS, uniform, k0, k1, uint32(step), uint32(offset), uint32(sample0), pt, pl, plen, pend)
						tokens, logps, lengths, ended = b.readInts(pt, n), b.read(pl, n), b.readInts(plen, rows), b.readInts(pend, rows)
						all := []float32{}
						for _, x := range [][]int32{tokens, lengths, ended} {
							for _, v := range x {
								all = append(all, float32(v))
							}
						}
						return [][]float32{all, logps}
					}
					k0, k1 := stream.Key()
					b.everyOrder(func() [][]float32 { return run(k0, k1, 0) })
					check := func() {
						t.Helper()
						for i, w := range want {
							if int(lengths[i]) != len(w.Tokens) || (ended[i] == 1) != w.Ended {
								t.Fatalf("row %d: %d tokens, ended %d; the sampler has %d, ended %v", i, lengths[i], ended[i], len(w.Tokens), w.Ended)
							}
							for k := range o.MaxTokens {
								at := i*o.MaxTokens + k
								if k >= len(w.Tokens) {
									if tokens[at] != -1 || logps[at] == logps[at] {
										t.Fatalf("row %d: a token after the end was written", i)
									}
									continue
								}
								if int(tokens[at]) != w.Tokens[k] || math.Abs(float64(logps[at]-w.LogProbs[k])) > 2e-5 {
									t.Fatalf("row %d, token %d is %d (%v), the sampler's %d (%v)", i, k, tokens[at], logps[at], w.Tokens[k], w.LogProbs[k])
								}
							}
						}
					}
					check()
					// The same numbers from memory.
					uniform := make([]float64, rows*o.MaxTokens)
					for i := range rows {
						for k := range o.MaxTokens {
							uniform[i*o.MaxTokens+k] = stream.Float64(step, uint32(offset+i/group), uint32(sample0+i%group), uint32(k))
						}
					}
					run(0, 0, b.doubles(uniform))
					b.Reset()
					check()
				})
			}
		}
		pool.Close()
	}
}

func TestRolloutPlans(t *testing.T) {
	h200, consumer := Card{SM: 90, SMs: 132, Shared: 227 << 10}, Card{SM: 86, SMs: 82, Shared: 99 << 10}
	for _, c := range []struct {
		card                  Card
		hidden, layers, vocab int
		rows, tile            int // tile 0: no plan
		kernel                string
	}{
		{h200, 64, 2, 100, 256, 2, "rollout_2"},
		{h200, 64, 2, 100, 4096, 32, "rollout_8"},
		{h200, 64, 2, 100, 1, 2, "rollout_2"},
		{h200, 256, 2, 100, 256, 4, "rollout_4"},
		{h200, 256, 2, 100, 4096, 32, "rollout_8"},
		{h200, 512, 2, 100, 256, 0, ""},
		{consumer, 256, 2, 100, 4096, 16, "rollout_8"},
		{consumer, 64, 2, 100, 256, 4, "rollout_4"},
		{consumer, 256, 16, 100, 4096, 2, "rollout_2"},
	} {
		p, ok := c.card.Rollout(c.hidden, c.layers, c.vocab)
		if ok != (c.tile > 0) {
			t.Errorf("%+v: a plan %v", c, ok)
		}
		if !ok {
			continue
		}
		l := p.Launch(c.rows)
		if l.Tile != c.tile || l.Kernel != c.kernel || l.Shared > c.card.Shared || l.Tiles*l.Tile < c.rows || l.Tiles != l.Grid[0] {
			t.Errorf("%+v: launch %+v", c, l)
		}
	}
}
