//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"grpo/internal/cudaemu"
)

// attentionCase is attention over a tree. Between segments of different parents are rows of no
// segment, which must not be written.
type attentionCase struct {
	AttentionPlan
	start, length []int
	context       [][]int
	tokens        int
	scale         float32
	qkv, dout     []float32
}

// gap is the number of those rows.
const gap = 3

// newAttentionCase takes (parent, tokens) of each segment.
func newAttentionCase(p AttentionPlan, segments ...[2]int) *attentionCase {
	a := &attentionCase{AttentionPlan: p, scale: float32(1 / math.Sqrt(float64(p.Dim)))}
	for i, s := range segments {
		if i > 0 && s[0] != segments[i-1][0] {
			a.tokens += gap
		}
		var context []int
		if s[0] >= 0 {
			context = append(slices.Clone(a.context[s[0]]), s[0])
		}
		a.start, a.length, a.context = append(a.start, a.tokens), append(a.length, s[1]), append(a.context, context)
		a.tokens += s[1]
	}
	a.tokens += gap
	r := random(21)
	a.qkv, a.dout = normal(r, a.tokens*a.width(), 1.5), normal(r, a.tokens*a.q(), 1)
	return a
}

func (a *attentionCase) q() int     { return a.Heads * a.Dim }
func (a *attentionCase) kv() int    { return a.KVHeads * a.Dim }
func (a *attentionCase) width() int { return a.q() + 2*a.kv() }

// attend is attention of one query over rows from its definition, in double: it returns the output,
// log Σ exp and the probabilities.
func attend(query []float32, keys, values [][]float32, scale float32) (out []float64, lse float64, p []float64) {
	p, top := make([]float64, len(keys)), math.Inf(-1)
	for j, key := range keys {
		for d, x := range query {
			p[j] += float64(scale) * float64(x) * float64(key[d])
		}
		top = max(top, p[j])
	}
	sum := 0.0
	for _, s := range p {
		sum += math.Exp(s - top)
	}
	lse, out = top+math.Log(sum), make([]float64, len(query))
	for j, value := range values {
		p[j] = math.Exp(p[j] - lse)
		for d, x := range value {
			out[d] += p[j] * float64(x)
		}
	}
	return out, lse, p
}

// reference returns out, lse and dqkv in double, NaN in the rows of no segment.
func (a *attentionCase) reference() (out, lse, dqkv []float64) {
	out, lse, dqkv = nans(a.tokens*a.q()), nans(a.tokens*a.Heads), nans(a.tokens*a.width())
	for s := range a.start {
		clear(dqkv[a.start[s]*a.width() : (a.start[s]+a.length[s])*a.width()])
	}
	for s := range a.start {
		var seen []int
		for _, c := range a.context[s] {
			for i := range a.length[c] {
				seen = append(seen, a.start[c]+i)
			}
		}
		for row := a.start[s]; row < a.start[s]+a.length[s]; row++ {
			seen = append(seen, row)
			for h := range a.Heads {
				a.referenceRow(row, h, seen, out, lse, dqkv)
			}
		}
	}
	return out, lse, dqkv
}

func (a *attentionCase) referenceRow(row, head int, seen []int, out, lse, dqkv []float64) {
	qAt := head * a.Dim
	kAt := a.q() + head/(a.Heads/a.KVHeads)*a.Dim
	vAt := kAt + a.kv()
	part := func(row, at int) []float32 { return a.qkv[row*a.width()+at:][:a.Dim] }
	var keys, values [][]float32
	for _, k := range seen {
		keys, values = append(keys, part(k, kAt)), append(values, part(k, vAt))
	}
	o, l, p := attend(part(row, qAt), keys, values, a.scale)
	copy(out[row*a.q()+qAt:], o)
	lse[row*a.Heads+head] = l
	dout := a.dout[row*a.q()+qAt:][:a.Dim]
	delta := 0.0
	for d, x := range dout {
		delta += float64(x) * o[d]
	}
	for j, k := range seen {
		dp := 0.0
		for d, x := range dout {
			dp += float64(x) * float64(values[j][d])
		}
		ds := float64(a.scale) * p[j] * (dp - delta)
		for d := range a.Dim {
			dqkv[row*a.width()+qAt+d] += ds * float64(keys[j][d])
			dqkv[k*a.width()+kAt+d] += ds * float64(a.qkv[row*a.width()+qAt+d])
			dqkv[k*a.width()+vAt+d] += p[j] * float64(dout[d])
		}
	}
}

// onCard returns out, lse and dqkv of the kernels.
func (a *attentionCase) onCard(b bench, most int) [][]float32 {
	b.Helper()
	tiles := TilesOf(a.start, a.length, a.context, a.Tile, most)
	tile, low, seenAt, seen := b.ints(tiles.Tile), b.ints(tiles.Low), b.ints(tiles.SeenAt), b.ints(tiles.Seen)
	task, taskAt, seenBy := b.ints(tiles.Task), b.ints(tiles.TaskAt), b.ints(tiles.SeenBy)
	qkv, dout, out, lse := b.floats(a.qkv), b.floats(a.dout), b.Alloc(4*a.tokens*a.q()), b.Alloc(4*a.tokens*a.Heads)
	delta, parts, dqkv := b.Alloc(4*a.tokens*a.Heads), b.Alloc(4*a.Parts(tiles.Tasks())), b.Alloc(4*a.tokens*a.width())
	n := tiles.Count()
	b.start(a.Forward(n), tile, low, seenAt, seen, a.scale, qkv, out, lse)
	b.start(a.Delta(a.tokens), a.tokens, out, dout, delta)
	b.start(a.BackwardQ(n), tile, low, seenAt, seen, a.scale, qkv, dout, lse, delta, dqkv)
	b.start(a.BackwardKV(tiles.Tasks()), tile, low, task, seenBy, a.scale, qkv, dout, lse, delta, parts)
	b.start(a.SumKV(n), tile, taskAt, parts, dqkv)
	return [][]float32{b.read(out, a.tokens*a.q()), b.read(lse, a.tokens*a.Heads), b.read(dqkv, a.tokens*a.width())}
}

// nearLargest fails if got and want differ by more than rtol of the largest |want|.
func nearLargest(t testing.TB, what string, got []float32, want []float64, rtol float64) {
	t.Helper()
	largest := 0.0
	for _, w := range want {
		if !math.IsNaN(w) {
			largest = max(largest, math.Abs(w))
		}
	}
	for i, w := range want {
		if math.IsNaN(w) != math.IsNaN(float64(got[i])) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
	near(t, what, got, want, 0, rtol*largest)
}

// openAttention compiles the plan of a shape, with tiles of a size, or 0 for the plan's own. Tests
// share shapes: each takes half a second to compile.
func openAttention(t *testing.T, heads, kvHeads, dim, tile int) (bench, AttentionPlan) {
	t.Helper()
	m := cudaemu.Open(t)
	p, ok := card(m).Attention(heads, kvHeads, dim)
	if !ok {
		t.Fatal("no plan")
	}
	if tile > 0 {
		p.Tile = tile
	}
	return bench{m, m.Compile("attention", p.Module().Source)}, p
}

func TestAttention(t *testing.T) {
	for _, c := range []struct {
		heads, kvHeads, dim, tile int // tile 0: the plan's
		most                      []int
		segments                  [][2]int
	}{
		{7, 1, 8, 16, []int{3, 1, 100}, [][2]int{{-1, 40}, {0, 0}, {1, 17}, {2, 1}, {2, 33}, {0, 150}, {-1, 16}, {6, 5}, {6, 32}}},
		{4, 2, 12, 32, []int{2}, [][2]int{{-1, 1}, {0, 31}, {1, 33}, {1, 64}, {-1, 0}, {4, 97}}},
		{4, 2, 64, 0, []int{2}, [][2]int{{-1, 70}, {0, 20}, {0, 65}}},
		{1, 1, 72, 16, []int{4}, [][2]int{{-1, 20}, {0, 20}}},
		{3, 1, 128, 32, []int{1}, [][2]int{{-1, 33}, {0, 20}, {0, 32}}},
		// Several completions in a tile, but for one that a segment follows; sequences without a context.
		{4, 2, 12, 32, []int{1, 3}, [][2]int{{-1, 5}, {0, 3}, {0, 9}, {0, 0}, {0, 1}, {0, 19}, {0, 1}, {0, 2}, {0, 4}, {8, 3}, {8, 2}, {-1, 3}, {-1, 7}}},
		{1, 1, 256, 0, []int{2}, [][2]int{{-1, 35}, {0, 3}}},
	} {
		t.Run(fmt.Sprintf("%d heads, %d key heads of %d", c.heads, c.kvHeads, c.dim), func(t *testing.T) {
			b, p := openAttention(t, c.heads, c.kvHeads, c.dim, c.tile)
			a := newAttentionCase(p, c.segments...)
			out, lse, dqkv := a.reference()
			check := func(got [][]float32) {
				t.Helper()
				near(t, "outputs", got[0], out, 1e-5, 1e-5)
				near(t, "lse", got[1], lse, 1e-5, 1e-5)
				nearLargest(t, "gradients", got[2], dqkv, 1e-5)
			}
			check(b.everyOrder(func() [][]float32 { return a.onCard(b, c.most[0]) }))
			for _, most := range c.most[1:] {
				check(a.onCard(b, most))
				b.Reset()
			}
		})
	}
}

// Outputs have the same bits where lse is not kept, and scores far from 0 do no harm.
func TestAttentionOfLargeScores(t *testing.T) {
	b, p := openAttention(t, 7, 1, 8, 16)
	// Some of the queries that see two keys have two scores far below 0.
	a := newAttentionCase(p, [][2]int{{-1, 1}, {0, 20}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}...)
	a.scale = 100
	want, _, gradients := a.reference()
	got := a.onCard(b, 4)
	near(t, "outputs", got[0], want, 1e-3, 1e-3)
	nearLargest(t, "gradients", got[2], gradients, 1e-3)
	tiles := TilesOf(a.start, a.length, a.context, a.Tile, 4)
	out := b.Alloc(4 * a.tokens * a.q())
	b.start(a.Forward(tiles.Count()), b.ints(tiles.Tile), b.ints(tiles.Low), b.ints(tiles.SeenAt), b.ints(tiles.Seen), a.scale, b.floats(a.qkv), out, cudaemu.Ptr(0))
	for i, v := range b.read(out, a.tokens*a.q()) {
		if math.Float32bits(v) != math.Float32bits(got[0][i]) {
			t.Fatalf("without lse element %d is %v, with it %v", i, v, got[0][i])
		}
	}
}

func TestAttentionDecode(t *testing.T) {
	for _, s := range [][4]int{{7, 1, 8, 16}, {1, 1, 4, 0}, {4, 2, 12, 32}, {4, 2, 64, 0}, {1, 1, 72, 16}, {3, 1, 128, 32}, {1, 1, 256, 0}} {
		t.Run(fmt.Sprintf("%d heads, %d key heads of %d", s[0], s[1], s[2]), func(t *testing.T) {
			b, p := openAttention(t, s[0], s[1], s[2], s[3])
			for _, place := range []int{0, 1, 40} {
				checkDecode(t, b, p, place)
			}
		})
	}
}

// checkDecode decodes the token at a place of completions of four prompts: with both parts of the
// context, with one of either, and with none.
func checkDecode(t *testing.T, b bench, p AttentionPlan, place int) {
	t.Helper()
	const group, most, rows = 2, 50, 7 // the last group is not whole
	a := attentionCase{AttentionPlan: p}
	r, scale := random(22), float32(0.3)
	ranges := []int32{4, 130, 140, 150, 4, 33, 0, 0, 9, 0, 139, 31, 0, 0, 0, 0}
	ended := []int32{0, 1, 0, 0, 0, 0, 0}
	kv2 := 2 * a.kv()
	context, own, qkv := normal(r, 300*kv2, 1), normal(r, rows*most*kv2, 1), normal(r, rows*a.width(), 1)
	for row := range rows { // what follows must not be read
		for i := (row*most + place) * kv2; i < (row+1)*most*kv2; i++ {
			own[i] = float32(math.NaN())
		}
	}
	got := b.everyOrder(func() [][]float32 {
		cache, out := b.floats(own), b.Alloc(4*rows*a.q())
		b.start(p.Decode(rows), group, most, b.ints([]int32{int32(place)}), b.ints(ranges), scale, b.floats(context), cache,
			b.floats(qkv), b.ints(ended), out)
		return [][]float32{b.read(cache, len(own)), b.read(out, rows*a.q())}
	})

	cache, out := to64(own), nans(rows*a.q())
	for row := range rows {
		if ended[row] != 0 {
			continue
		}
		now := qkv[row*a.width():][:a.width()]
		for i, x := range now[a.q():] {
			cache[(row*most+place)*kv2+i] = float64(x)
		}
		for head := range p.Heads {
			at := head / (p.Heads / p.KVHeads) * p.Dim
			var keys, values [][]float32
			see := func(kv []float32) {
				keys, values = append(keys, kv[at:at+p.Dim]), append(values, kv[a.kv()+at:][:p.Dim])
			}
			for part := range 2 {
				first, n := int(ranges[4*(row/group)+2*part]), int(ranges[4*(row/group)+2*part+1])
				for i := first; i < first+n; i++ {
					see(context[i*kv2:][:kv2])
				}
			}
			for i := range place {
				see(own[(row*most+i)*kv2:][:kv2])
			}
			see(now[a.q():])
			o, _, _ := attend(now[head*p.Dim:][:p.Dim], keys, values, scale)
			copy(out[row*a.q()+head*p.Dim:], o)
		}
	}
	near(t, fmt.Sprintf("own keys and values at place %d", place), got[0], cache, 0, 0)
	near(t, fmt.Sprintf("outputs at place %d", place), got[1], out, 1e-5, 2e-6)
}

func TestAttentionPlans(t *testing.T) {
	for _, c := range []struct {
		shape [3]int
		tiles []int // on each of cards; 0: no plan
	}{
		{[3]int{9, 3, 64}, []int{64, 32, 64, 64, 64, 64, 64}},
		{[3]int{32, 8, 128}, []int{32, 32, 64, 32, 32, 64, 32}},
		{[3]int{32, 1, 256}, []int{16, 0, 32, 16, 16, 32, 16}},
		{[3]int{9, 2, 64}, make([]int, 7)},
		{[3]int{2, 1, 6}, make([]int, 7)},
		{[3]int{2, 1, 260}, make([]int, 7)},
	} {
		for i, card := range cards {
			p, ok := card.Attention(c.shape[0], c.shape[1], c.shape[2])
			if ok != (c.tiles[i] > 0) || ok && p.Tile != c.tiles[i] {
				t.Errorf("sm_%d, %v: a plan %v with tiles of %d, want %d", card.SM, c.shape, ok, p.Tile, c.tiles[i])
			}
			if !ok {
				continue
			}
			for _, l := range []Launch{p.Forward(5), p.Delta(5), p.BackwardQ(5), p.BackwardKV(5), p.SumKV(5), p.Decode(5)} {
				if l.Shared > card.Shared || l.Empty() || l.Block[0] < 32 || l.Block[0] > threads {
					t.Errorf("sm_%d, %v: %+v", card.SM, c.shape, l)
				}
			}
		}
	}
}

func TestTiles(t *testing.T) {
	// A prompt of two tiles, a segment without tokens, and two completions behind both.
	start, length := []int{0, 5, 5, 10}, []int{5, 0, 3, 4}
	context := [][]int{nil, {0}, {0, 1}, {0, 1}}
	got := TilesOf(start, length, context, 4, 3)
	want := &Tiles{
		Tile:   []int32{0, 4, 4, 1, 5, 3, 10, 4},
		Low:    []int32{0, 0, 0, 0, 4, 5, 5, 5, 0, 0, 10, 10, 10, 10},
		SeenAt: []int32{0, 1, 3, 6, 9},
		Seen:   []int32{0, 0, 1, 0, 1, 2, 0, 1, 3},
		Task:   []int32{0, 0, 3, 0, 3, 4, 1, 4, 7, 2, 7, 8, 3, 8, 9},
		TaskAt: []int32{0, 2, 3, 4, 5},
		SeenBy: []int32{0, 1, 2, 3, 1, 2, 3, 2, 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tiles %+v, want %+v", got, want)
	}
	// Behind it neighbours share a tile until it is full or their ancestors differ.
	start, length = []int{0, 2, 3, 5, 6, 7}, []int{2, 1, 2, 1, 1, 1}
	shared := TilesOf(start, length, [][]int{nil, {0}, {0}, {0}, {0}, nil}, 4, 3)
	if want := []int32{0, 2, 2, 4, 6, 1, 7, 1}; !slices.Equal(shared.Tile, want) {
		t.Errorf("tiles %v, want %v", shared.Tile, want)
	}
	if want := []int32{0, 0, 2, 3, 3, 5, 6, 7}; !slices.Equal(shared.Low, want) {
		t.Errorf("lowest rows %v, want %v", shared.Low, want)
	}
	if got.Count() != 4 || got.Tasks() != 5 {
		t.Errorf("%d tiles and %d tasks, want 4 and 5", got.Count(), got.Tasks())
	}
}
