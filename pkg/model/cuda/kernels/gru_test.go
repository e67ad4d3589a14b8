//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model/kernel"
)

// layer is a GRU layer over a segment, with the inputs of the kernels.
type layer struct {
	packedLengths
	h                 int
	gi                []float32 // packed, or the table
	ids               []int32
	whh, bih, bhh, h0 []float32
	dout              []float32
}

func newLayer(r *rand.Rand, h, vocab int, init bool, lengths ...int) *layer {
	l := &layer{packedLengths: pack(lengths...), h: h}
	if vocab > 0 {
		l.gi, l.ids = normal(r, vocab*3*h, 0.7), randomInts(r, l.inputs, vocab)
	} else {
		l.gi = normal(r, l.inputs*3*h, 0.7)
	}
	l.whh = normal(r, 3*h*h, 1/math.Sqrt(float64(h)))
	l.bih, l.bhh = normal(r, 3*h, 0.3), normal(r, 3*h, 0.3)
	if init {
		l.h0 = normal(r, l.n0*h, 0.5)
	}
	l.dout = normal(r, (l.n0+l.inputs)*h, 1)
	return l
}

// reference is the layer in float64, forward and back.
type reference struct{ out, save, before, gates, dh0 []float64 }

// inputs returns gi in float64, a row for each input.
func (l *layer) inputRows() []float64 {
	if l.ids == nil {
		return to64(l.gi)
	}
	var x []float64
	for _, id := range l.ids {
		x = append(x, to64(l.gi[int(id)*3*l.h:(int(id)+1)*3*l.h])...)
	}
	return x
}

func (l *layer) forward64(gi, h0 []float64) (out, save, before []float64) {
	h := l.h
	out, save, before = make([]float64, (l.n0+l.inputs)*h), make([]float64, l.inputs*4*h), make([]float64, l.inputs*h)
	copy(out, h0)
	for s := 1; s <= l.steps; s++ {
		n, at, prev := int(l.active[s]), int(l.offset[s]), int(l.offset[s-1])
		in := at - l.n0
		gh := make([]float64, n*3*h)
		kernel.ReferenceGemm(false, true, n, 3*h, h, out[prev*h:], h, to64(l.whh), h, false, gh, 3*h)
		copy(before[in*h:(in+n)*h], out[prev*h:])
		kernel.ReferenceGRUForward(n, h, gi[in*3*h:], gh, to64(l.bih), to64(l.bhh), out[prev*h:], out[at*h:], save[in*4*h:])
	}
	return out, save, before
}

func (l *layer) reference() reference {
	h := l.h
	var h0 []float64
	if l.h0 != nil {
		h0 = to64(l.h0)
	}
	var ref reference
	ref.out, ref.save, ref.before = l.forward64(l.inputRows(), h0)
	ref.gates = make([]float64, len(ref.save))
	carry := make([]float64, l.n0*h)
	for s := l.steps; s >= 1; s-- {
		n, at := int(l.active[s]), int(l.offset[s])
		in := at - l.n0
		for i := range n * h {
			carry[i] += float64(l.dout[at*h+i])
		}
		dgi, dgh, dh := make([]float64, n*3*h), make([]float64, n*3*h), make([]float64, n*h)
		kernel.ReferenceGRUBackward(n, h, carry, ref.before[in*h:], ref.save[in*4*h:], dgi, dgh, dh)
		kernel.ReferenceGemm(false, false, n, h, 3*h, dgh, 3*h, to64(l.whh), h, true, dh, h)
		copy(carry, dh)
		for i := range n {
			copy(ref.gates[(in+i)*4*h:], dgi[i*3*h:(i+1)*3*h])
			copy(ref.gates[(in+i)*4*h+3*h:], dgh[i*3*h+2*h:(i+1)*3*h])
		}
	}
	for i := range carry {
		carry[i] += float64(l.dout[i])
	}
	ref.dh0 = carry
	return ref
}

// onCard runs the layer forward and, with back, back.
func (l *layer) onCard(b bench, forward, backward Launch, back bool) [][]float32 {
	b.Helper()
	h, states := l.h, l.n0+l.inputs
	pa, po, pw := b.ints(l.active), b.ints(l.offset), b.floats(l.whh)
	out := b.Alloc(4 * states * h)
	var save, before cudaemu.Ptr
	if back {
		save, before = b.Alloc(4*l.inputs*4*h), b.Alloc(4*l.inputs*h)
	}
	b.start(forward, b.floats(l.gi), b.ints(l.ids), pw, b.floats(l.bih), b.floats(l.bhh), b.floats(l.h0), pa, po, l.steps, forward.Tile, out, save, before)
	got := [][]float32{b.read(out, states*h)}
	if !back {
		return got
	}
	got = append(got, b.read(save, l.inputs*4*h), b.read(before, l.inputs*h))
	dh0, parts := b.Alloc(4*l.n0*h), b.Alloc(4*backward.Tiles*4*h)
	b.start(backward, b.floats(l.dout), pw, out, pa, po, l.steps, backward.Tile, save, dh0, parts)
	return append(got, b.read(save, l.inputs*4*h), b.read(dh0, l.n0*h), b.read(parts, backward.Tiles*4*h))
}

func TestGRULayer(t *testing.T) {
	sizes := []int{5, 33, 64, 128, 160}
	if os.Getenv("GRPO_LONG") != "" {
		sizes = []int{1, 5, 32, 33, 64, 100, 128, 160, 255, 256}
	}
	for _, h := range sizes {
		m := cudaemu.Open(t)
		p, ok := card(m).GRU(h)
		if !ok {
			t.Logf("no persistent kernel for H = %d on this card", h)
			continue
		}
		mod := p.Module()
		b := bench{m, m.Compile(mod.Name, mod.Source)}
		for _, c := range []struct {
			name    string
			vocab   int
			init    bool
			lengths []int
		}{
			{"one sequence of one step", 0, false, []int{1}},
			{"no steps at all", 0, true, []int{0, 0, 0}},
			{"of different lengths, one of none, over a table", 9, true, []int{7, 3, 3, 0, 1, 6, 2, 5, 4}},
			{"of different lengths, over input projections", 0, false, []int{4, 4, 1, 0, 3, 6}},
			{"many", 9, true, append(randomLengths(random(11), 40, 5), 5)},
		} {
			for _, narrowly := range []bool{false, true} {
				if h > 128 && (len(c.lengths) > 20 || narrowly && len(c.lengths) < 7) {
					continue // slow under the emulator
				}
				t.Run(fmt.Sprintf("H %d, %s, narrow %v", h, c.name, narrowly), func(t *testing.T) {
					bench{m, b.module}.checkLayer(t, p, newLayer(random(12), h, c.vocab, c.init, c.lengths...), narrowly)
				})
			}
		}
	}
}

// variant forces a launch to the narrow kernel or to the wide one.
func variant(l Launch, narrowly bool, kernel string, n0, cluster, bytes int) Launch {
	tile := 8
	l.Kernel = kernel
	if narrowly {
		tile = 2
		l.Kernel += narrow
	}
	l.Tile, l.Tiles, l.Shared = tile, ceil(n0, tile), tile*bytes
	l.Grid[0] = l.Tiles * cluster
	return l
}

func (b bench) checkLayer(t *testing.T, p GRUPlan, l *layer, narrowly bool) {
	t.Helper()
	b.TB = t
	ref := l.reference()
	h := l.h
	forward := variant(p.Forward(l.n0), narrowly, GRUForward, l.n0, p.Cluster, p.forwardBytes())
	backward := variant(p.Backward(l.n0), narrowly, GRUBackward, l.n0, p.Cluster, p.backwardBytes())
	got := b.everyOrder(func() [][]float32 { return l.onCard(b, forward, backward, true) })
	near(t, "states", got[0], ref.out, 1e-4, 1e-5)
	near(t, "save", got[1], ref.save, 1e-4, 1e-5)
	near(t, "before", got[2], ref.before, 1e-4, 1e-5)
	near(t, "gradients of the gates", got[3], ref.gates, 1e-4, 2e-5)
	near(t, "gradient of the first states", got[4], ref.dh0, 1e-4, 2e-5)

	sums, want := make([]float32, 4*h), make([]float64, 4*h)
	for i, v := range got[5] {
		sums[i%(4*h)] += v
	}
	for i, v := range ref.gates {
		want[i%(4*h)] += v
	}
	near(t, "gradients of the biases", sums, want, 1e-4, 1e-4)

	// A grid for more sequences and steps than there are is harmless: a captured launch may be
	// reused for a smaller batch.
	larger := *l
	larger.active = append(slices.Clone(l.active), 0, 0)
	larger.offset = append(slices.Clone(l.offset), l.offset[l.steps], l.offset[l.steps])
	larger.steps += 2
	wideForward, wideBackward := forward, backward
	wideForward.Grid[0] += 2 * p.Cluster
	wideBackward.Grid[0] += 2 * p.Cluster
	wideBackward.Tiles += 2
	for k, x := range larger.onCard(b, wideForward, wideBackward, true) {
		for i, v := range x {
			if k == 5 && i >= len(got[5]) && v != 0 {
				t.Fatalf("a tile of no sequences brings %v to the biases", v)
			} else if i < len(got[k]) && math.Float32bits(v) != math.Float32bits(got[k][i]) {
				t.Fatalf("in a larger launch: output %d, element %d is %v, before %v", k, i, v, got[k][i])
			}
		}
	}

	// Without a backward pass the states have the same bits, and so they have with the plan's own
	// launch: tile boundaries do not matter.
	for _, other := range []Launch{forward, p.Forward(l.n0)} {
		for i, v := range l.onCard(b, other, backward, false)[0] {
			if math.Float32bits(v) != math.Float32bits(got[0][i]) {
				t.Fatalf("tile %d, without a backward pass: state %d is %v, with it %v", other.Tile, i, v, got[0][i])
			}
		}
		b.Reset()
	}
}

// The backward pass is the derivative of the forward pass: central differences of the float64
// reference, for the inputs and the initial states.
func TestGRUFiniteDifferences(t *testing.T) {
	m := cudaemu.Open(t)
	const h = 3
	p, _ := card(m).GRU(h)
	mod := p.Module()
	b := bench{m, m.Compile(mod.Name, mod.Source)}
	l := newLayer(random(13), h, 0, true, 3, 2, 2, 0)
	got := l.onCard(b, p.Forward(l.n0), p.Backward(l.n0), true)
	gi, h0 := l.inputRows(), to64(l.h0)
	derivative := func(x []float64, i int) float64 {
		functional := func(by float64) (sum float64) {
			old := x[i]
			x[i] += by
			out, _, _ := l.forward64(gi, h0)
			x[i] = old
			for k, v := range out {
				sum += v * float64(l.dout[k])
			}
			return sum
		}
		const eps = 1e-5
		return (functional(eps) - functional(-eps)) / (2 * eps)
	}
	var dgi []float32
	for i := range l.inputs {
		dgi = append(dgi, got[3][i*4*h:i*4*h+3*h]...)
	}
	for name, c := range map[string]struct {
		got []float32
		x   []float64
	}{"inputs": {dgi, gi}, "first states": {got[4], h0}} {
		want := make([]float64, len(c.x))
		for i := range want {
			want[i] = derivative(c.x, i)
		}
		near(t, name, c.got, want, 1e-4, 1e-5)
	}
}

func TestGRUPlans(t *testing.T) {
	for _, c := range []struct {
		card   Card
		hidden int
		ok     bool
		tile   map[int]int // of a number of sequences
	}{
		{Card{90, 132, 227 << 10, 0}, 64, true, map[int]int{1: 2, 256: 2, 4096: 16, 1 << 20: 60}},
		{Card{90, 132, 227 << 10, 0}, 128, true, map[int]int{256: 2, 4096: 32}},
		{Card{90, 132, 227 << 10, 0}, 256, true, map[int]int{256: 8, 4096: 32}},
		{Card{90, 132, 227 << 10, 20}, 256, true, map[int]int{256: 16}},
		{Card{90, 132, 227 << 10, 0}, 257, false, nil},
		{Card{86, 82, 99 << 10, 0}, 64, true, map[int]int{256: 2, 4096: 16}},
		{Card{86, 82, 99 << 10, 0}, 128, true, map[int]int{4096: 20}},
		{Card{86, 82, 99 << 10, 0}, 256, false, nil},
		{Card{120, 170, 99 << 10, 0}, 256, false, nil},
		{Card{70, 80, 96 << 10, 0}, 0, false, nil},
	} {
		p, ok := c.card.GRU(c.hidden)
		if ok != c.ok {
			t.Errorf("%+v, H = %d: a plan %v, want %v", c.card, c.hidden, ok, c.ok)
		}
		for n0, tile := range c.tile {
			f, b := p.Forward(n0), p.Backward(n0)
			if b.Tile != tile {
				t.Errorf("%+v, H = %d, %d sequences: tile %d, want %d", c.card, c.hidden, n0, b.Tile, tile)
			}
			for _, l := range []Launch{f, b} {
				if l.Tiles*l.Tile < n0 || l.Shared > c.card.Shared || l.Grid[0] != l.Tiles*p.Cluster || l.Block[0]%32 != 0 || l.Block[0] > 1024 {
					t.Errorf("%+v, H = %d, %d sequences: %+v does not fit", c.card, c.hidden, n0, l)
				}
			}
		}
	}
}
