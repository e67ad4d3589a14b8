//go:build withcuda && linux

package kernels

import (
	"fmt"
	"testing"

	"grpo/internal/cudaemu"
)

// TestAttentionSpeed prints the times of a layer's attention on a card: GRPO_TEST_GPU=1, with -v.
// Every prompt follows a system prompt, and every completion a prompt. On the emulator it runs
// tiny sizes, to test the code.
func TestAttentionSpeed(t *testing.T) {
	m := cudaemu.Open(t)
	shapes := [][3]int{{9, 3, 64}, {14, 2, 64}, {16, 8, 128}, {32, 8, 128}}
	system, prompts, prompt, group, completion, repetitions := 200, 32, 100, 16, 300, 5
	if !m.Real {
		shapes, system, prompts, prompt, group, completion, repetitions = [][3]int{{4, 2, 64}}, 5, 2, 3, 2, 4, 1
	}
	t.Logf("%-46s %10s %10s %10s", "", "µs", "TFLOP/s", "GB/s")
	report := func(name string, ms, flops, bytes float64) {
		t.Logf("%-46s %10.1f %10.2f %10.0f", name, 1000*ms, flops/ms/1e9, bytes/ms/1e6)
	}
	segments := [][2]int{{-1, system}}
	for range prompts {
		segments = append(segments, [2]int{0, prompt})
		for parent := len(segments) - 1; len(segments) <= parent+group; {
			segments = append(segments, [2]int{parent, completion})
		}
	}
	for _, s := range shapes {
		p, ok := card(m).Attention(s[0], s[1], s[2])
		if !ok {
			t.Fatalf("no plan for %v", s)
		}
		b := bench{m, m.Compile("attention", p.Module().Source)}
		a := newAttentionCase(p, segments...)
		pairs := 0 // of a query and a key
		for i, n := range a.length {
			pairs += n * (n + 1) / 2
			for _, c := range a.context[i] {
				pairs += n * a.length[c]
			}
		}
		flops, bytes := 2*float64(pairs*a.q()), 4*float64(a.tokens) // of one product; of one column
		qkv, dout, out, lse := b.floats(a.qkv), b.floats(a.dout), b.Alloc(4*a.tokens*a.q()), b.Alloc(4*a.tokens*p.Heads)
		delta, dqkv := b.Alloc(4*a.tokens*p.Heads), b.Alloc(4*a.tokens*a.width())
		run := func(l Launch, products, columns int, args ...any) {
			report(fmt.Sprintf("%v, tiles of %d: %s", s, p.Tile, l.Kernel), m.Time(repetitions, func() {
				if r := b.module.Enqueue(l.Kernel, l.Grid, l.Block, l.Shared, args...); r != 0 {
					t.Fatalf("%s: result %d", l.Kernel, r)
				}
			}), float64(products)*flops, float64(columns)*bytes)
		}
		for i, most := range []int{8, 32, 128} {
			tiles := TilesOf(a.start, a.length, a.context, p.Tile, most)
			n := tiles.Count()
			tile, low, seenAt, seen := b.ints(tiles.Tile), b.ints(tiles.Low), b.ints(tiles.SeenAt), b.ints(tiles.Seen)
			task, taskAt, seenBy := b.ints(tiles.Task), b.ints(tiles.TaskAt), b.ints(tiles.SeenBy)
			parts := b.Alloc(4 * p.Parts(tiles.Tasks()))
			if i == 0 {
				t.Logf("%d tokens in %d tiles", a.tokens, n)
				run(p.Forward(n), 2, a.width()+a.q(), tile, low, seenAt, seen, a.scale, qkv, out, lse)
				run(p.Delta(a.tokens), 0, 2*a.q(), a.tokens, out, dout, delta)
				run(p.BackwardQ(n), 3, a.width()+2*a.q(), tile, low, seenAt, seen, a.scale, qkv, dout, lse, delta, dqkv)
			}
			t.Logf("at most %d tiles of queries in a task: %d tasks", most, tiles.Tasks())
			run(p.BackwardKV(tiles.Tasks()), 4, a.width()+a.q()+2*a.kv(), tile, low, task, seenBy, a.scale, qkv, dout, lse, delta, parts)
			run(p.SumKV(n), 0, 2*a.kv()*(1+tiles.Tasks()/n), tile, taskAt, parts, dqkv)
		}
		rows := prompts * group
		ranges := make([]int32, 0, 4*prompts)
		for i := range prompts {
			ranges = append(ranges, 0, int32(system), int32(system+i*prompt), int32(prompt))
		}
		context := b.floats(make([]float32, (system+prompts*prompt)*2*a.kv()))
		own := b.floats(make([]float32, rows*completion*2*a.kv()))
		step, ended := b.ints([]int32{int32(completion - 1)}), b.ints(make([]int32, rows))
		seen := rows * (system + prompt + completion)
		run(p.Decode(rows), 0, seen*2*a.kv()/a.tokens, group, completion, step, b.ints(ranges), a.scale, context, own, qkv, ended, out)
		m.Reset()
	}
}
