//go:build withcuda && linux

package kernels

import (
	"fmt"
	"testing"

	"grpo/internal/cudaemu"
)

// TestSpeed prints the kernels' times on a card, with their operations and memory traffic:
// GRPO_TEST_GPU=1, with -v. On the emulator it runs tiny sizes, to test the code.
func TestSpeed(t *testing.T) {
	m := cudaemu.Open(t)
	const vocab = 100
	steps, rows, repetitions, counts, hidden := 63, 4096*64, 9, []int{32, 256, 512, 4096}, []int{64, 128, 256}
	if !m.Real {
		steps, rows, repetitions, counts, hidden = 2, 40, 1, []int{3}, []int{64}
	}
	c := card(m)
	t.Logf("compute capability %d, %d multiprocessors, %d bytes of shared memory", m.SM, m.SMs, m.Shared)
	t.Logf("%-34s %10s %10s %10s", "", "µs", "TFLOP/s", "GB/s")
	report := func(name string, ms, flops, bytes float64) {
		t.Logf("%-34s %10.1f %10.2f %10.0f", name, 1000*ms, flops/ms/1e9, bytes/ms/1e6)
	}
	base := bench{m, m.Compile("base", Base().Source)}
	for _, h := range hidden {
		p, ok := c.GRU(h)
		if !ok {
			t.Logf("H = %d: no persistent kernel on this card", h)
			continue
		}
		mod := m.Compile("gru", p.Module().Source)
		for _, n := range counts {
			lengths := make([]int, n)
			for i := range lengths {
				lengths[i] = steps
			}
			l := newLayer(random(1), h, vocab, true, lengths...)
			states := l.n0 + l.inputs
			f, b := p.Forward(n), p.Backward(n)
			pa, po, pw, out := base.ints(l.active), base.ints(l.offset), base.floats(l.whh), m.Alloc(4*states*h)
			save, before, dh0, parts := m.Alloc(16*l.inputs*h), m.Alloc(4*l.inputs*h), m.Alloc(4*n*h), m.Alloc(16*b.Tiles*h)
			forward := []any{base.floats(l.gi), base.ints(l.ids), pw, base.floats(l.bih), base.floats(l.bhh), base.floats(l.h0), pa, po, steps, f.Tile, out, save, before}
			backward := []any{base.floats(l.dout), pw, out, pa, po, steps, b.Tile, save, dh0, parts}
			tokens := float64(l.inputs)
			flops := tokens * 6 * float64(h*h)
			run := func(l Launch, args []any) func() {
				return func() {
					if r := mod.Enqueue(l.Kernel, l.Grid, l.Block, l.Shared, args...); r != 0 {
						t.Fatalf("%s: result %d", l.Kernel, r)
					}
				}
			}
			name := fmt.Sprintf("H %d, %d rows, tile %d", h, n, f.Tile)
			report("forward  "+name, m.Time(repetitions, run(f, forward)), flops, tokens*4*6*float64(h))
			report("backward "+name, m.Time(repetitions, run(b, backward)), flops, tokens*4*10*float64(h))
			m.Reset()
		}
	}
	x, bias, ids := base.floats(make([]float32, rows*vocab)), base.floats(make([]float32, vocab)), base.ints(randomInts(random(2), rows, vocab))
	logp, ent, stats := m.Alloc(4*rows), m.Alloc(4*rows), m.Alloc(8*rows)
	enqueue := func(l Launch, args ...any) {
		if r := base.module.Enqueue(l.Kernel, l.Grid, l.Block, l.Shared, args...); r != 0 {
			t.Fatalf("%s: result %d", l.Kernel, r)
		}
	}
	report(fmt.Sprintf("head forward, %d rows of %d", rows, vocab), m.Time(repetitions, func() {
		enqueue(c.Rows(HeadForward, rows), rows, vocab, x, bias, float32(1), ids, logp, ent, stats)
	}), 0, float64(4*rows*vocab))
	report("head backward", m.Time(repetitions, func() {
		enqueue(c.Rows(HeadBackward, rows), rows, vocab, x, bias, float32(1), ids, stats, ent, logp, cudaemu.Ptr(0))
	}), 0, float64(8*rows*vocab))
	decoder := m.Compile("decoder", Decoder().Source)
	for _, n := range counts {
		const large, most = 49152, 2 // the rows do not end
		x, ids, end := base.floats(make([]float32, n*large)), base.ints(make([]int32, most*n)), base.ints([]int32{1})
		uniform, step, zeros, alive := base.doubles(make([]float64, most*n)), base.ints([]int32{0}), base.ints(make([]int32, n)), base.ints([]int32{0})
		logp, ent, stats, lengths, next := m.Alloc(4*most*n), m.Alloc(4*most*n), m.Alloc(8*n), m.Alloc(4*n), m.Alloc(4*n)
		name := fmt.Sprintf("%d rows of %d", n, large)
		l := c.Choose(n, large)
		report("choose, "+name, m.Time(repetitions, func() {
			if r := decoder.Enqueue(l.Kernel, l.Grid, l.Block, l.Shared, n, large, x, float32(1), 0, most, 0, end, 1, uniform, step, ids, logp, ent, lengths, zeros, next, alive); r != 0 {
				t.Fatalf("%s: result %d", l.Kernel, r)
			}
		}), 0, float64(4*n*large))
		report("head forward, "+name, m.Time(repetitions, func() {
			enqueue(c.Head(HeadForward, n, large), n, large, x, cudaemu.Ptr(0), float32(1), zeros, logp, ent, stats)
		}), 0, float64(4*n*large))
		report("head backward, "+name, m.Time(repetitions, func() {
			enqueue(c.Head(HeadBackward, n, large), n, large, x, cudaemu.Ptr(0), float32(1), zeros, stats, ent, logp, cudaemu.Ptr(0))
		}), 0, float64(8*n*large))
	}
	colParts, colSum := c.ColSum(rows, vocab)
	room := m.Alloc(4 * colParts.Tiles * vocab)
	report("column sums of the logits", m.Time(repetitions, func() {
		enqueue(colParts, rows, vocab, x, vocab, cudaemu.Ptr(0), colParts.Tile, room)
		enqueue(colSum, colSum.Tiles, vocab, room, bias, 0)
	}), 0, float64(4*rows*vocab))
	for _, h := range hidden {
		gates := m.Alloc(4 * rows * 4 * h)
		parts, sum, _ := c.TableGrad(rows, 3*h, vocab)
		tableRoom, table := m.Alloc(4*parts.Tiles*vocab*3*h), m.Alloc(4*vocab*3*h)
		report(fmt.Sprintf("table gradient, H %d", h), m.Time(repetitions, func() {
			enqueue(parts, rows, 3*h, ids, gates, 4*h, vocab, parts.Tile, tableRoom)
			enqueue(sum, sum.Tiles, vocab*3*h, tableRoom, table, 0)
		}), 0, float64(4*rows*3*h))
	}
	m.Reset()
	for _, h := range hidden {
		const layers = 2
		p, ok := c.Rollout(h, layers, vocab)
		if !ok {
			continue
		}
		mod := m.Compile("rollout", p.Module().Source)
		for _, n := range counts {
			l := p.Launch(n)
			r := random(3)
			params := base.floats(normal(r, 2*vocab*h+vocab+layers*6*h*(h+1), 0.05))
			table, states := base.floats(normal(r, vocab*3*h, 0.5)), base.floats(normal(r, layers*n*h, 0.5))
			tokens, logps, lengths, ended := m.Alloc(4*n*(steps+1)), m.Alloc(4*n*(steps+1)), m.Alloc(4*n), m.Alloc(4*n)
			report(fmt.Sprintf("roll %d tokens out, H %d, %d rows", steps+1, h, n), m.Time(repetitions, func() {
				if e := mod.Enqueue(l.Kernel, l.Grid, l.Block, l.Shared, params, table, states, n, 1, l.Tile, float32(1), 1.0, 0, 0, steps+1, 0, -1,
					cudaemu.Ptr(0), uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), tokens, logps, lengths, ended); e != 0 {
					t.Fatalf("%s: result %d", l.Kernel, e)
				}
			}), float64(n)*float64(steps+1)*2*float64((6*layers-3)*h*h+vocab*h), 0)
			m.Reset()
		}
	}
}
