//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// chosen is the rule by its definition, in float64: of the tokens that top-k, top-p and the minimum
// length keep, the first at which the sum of probabilities exceeds u times their total. near means
// that rounding might choose another one.
func chosen(logits []float64, topK int, topP float64, noEnd, greedy bool, eos int, u float64) (id int, logp []float64, near bool) {
	const slack = 1e-6
	peak := slices.Max(logits)
	var sum float64
	for _, x := range logits {
		sum += math.Exp(x - peak)
	}
	p := make([]float64, len(logits))
	logp = make([]float64, len(logits))
	for i, x := range logits {
		logp[i] = x - peak - math.Log(sum)
		p[i] = math.Exp(logp[i])
	}
	if noEnd && eos < len(p) {
		p[eos] = 0
	}
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] > p[b]:
			return -1
		case p[a] < p[b]:
			return 1
		}
		return 0
	})
	for k := 1; k < len(order); k++ { // another order is possible where two are close but not equal
		if d := p[order[k-1]] - p[order[k]]; d != 0 && d < slack*p[order[k-1]] {
			near = true
		}
	}
	if greedy {
		return order[0], logp, near
	}
	keep := len(order)
	if topK > 0 {
		keep = min(keep, topK)
	}
	var total, run float64
	for _, i := range order[:keep] {
		total += p[i]
	}
	if topP < 1 {
		for k, i := range order[:keep] {
			run += p[i]
			near = near || math.Abs(run-topP*total) < slack
			if run >= topP*total {
				keep = k + 1
				break
			}
		}
	}
	for _, i := range order[keep:] {
		p[i] = 0
	}
	total, run = 0, 0
	for _, v := range p {
		total += v
	}
	id = -1
	for i, v := range p {
		if v == 0 {
			continue
		}
		run += v
		near = near || math.Abs(run-u*total) < slack
		if id = i; run > u*total {
			break
		}
	}
	return id, logp, near
}

func TestSamplePick(t *testing.T) {
	b := newBench(t, Base())
	type options struct {
		topK, minTokens, greedy int
		topP, temperature       float64
	}
	for _, vocab := range []int{1, 3, 16, 100, 600, 1100} {
		for name, o := range map[string]options{
			"plain":          {topP: 1, temperature: 1},
			"warm":           {topP: 1, temperature: 1.7},
			"top-k":          {topP: 1, topK: 5, temperature: 1},
			"top-p":          {topP: 0.6, temperature: 1},
			"both":           {topP: 0.8, topK: 4, temperature: 0.7},
			"without an end": {topP: 1, minTokens: 3, temperature: 1},
			"greedy":         {topP: 1, greedy: 1, temperature: 1, minTokens: 3},
		} {
			if o.minTokens > 0 && vocab == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s of %d", name, vocab), func(t *testing.T) {
				const rows, group, maxTokens, eos, at = 23, 4, 5, 2, 2
				r := rand.New(rand.NewPCG(14, uint64(vocab)))
				logits, bias := normal(r, rows*vocab, 2), normal(r, vocab, 1)
				for i := range vocab { // a row of ties
					bias[i] = float32(math.Round(float64(bias[i])*64)) / 64
					logits[i] = 1 - bias[i]
				}
				if o.minTokens > 0 { // beside which all others have the probability 0
					logits[8*vocab+eos] = 115
				}
				uniform := make([]float64, rows*maxTokens)
				for i := range uniform {
					uniform[i] = r.Float64()
				}
				uniform[1*maxTokens+at], uniform[2*maxTokens+at] = 0, 1-0x1p-53
				lengths, ended := make([]int32, rows), make([]int32, rows)
				for i := range lengths {
					lengths[i] = at
				}
				lengths[3], lengths[5], ended[5], ended[6] = 1, 1, 1, 1 // finished rows
				next := make([]int32, rows)
				for i := range next {
					next[i] = -7
				}
				if o.greedy == 1 {
					o.temperature = 1
				}
				var tokens, ends, nexts, sizes []int32
				var logps []float32
				var alive int32
				b.everyOrder(func() [][]float32 {
					pt, pl, pn := b.Alloc(4*rows*maxTokens), b.Alloc(4*rows*maxTokens), b.ints(next)
					plen, pend, palive := b.ints(lengths), b.ints(ended), b.ints([]int32{0})
					b.start(card(b.Machine).Pick(rows, vocab), rows, group, vocab, b.floats(logits), b.floats(bias),
						float32(1/o.temperature), o.topP, o.topK, o.minTokens, maxTokens, o.greedy, eos,
						b.doubles(uniform), uint32(0), uint32(0), uint32(0), uint32(0), uint32(0),
						at, pt, pl, plen, pend, pn, palive)
					tokens, logps, alive = b.readInts(pt, rows*maxTokens), b.read(pl, rows*maxTokens), b.readInts(palive, 1)[0]
					ends, nexts, sizes = b.readInts(pend, rows), b.readInts(pn, rows), b.readInts(plen, rows)
					var ids []float32
					for _, id := range append(slices.Clone(tokens), nexts...) {
						ids = append(ids, float32(id))
					}
					return [][]float32{ids, logps}
				})
				going, compared := 0, 0
				for i := range rows {
					for k := range maxTokens {
						if k != at && tokens[i*maxTokens+k] != -1 {
							t.Fatalf("row %d: token %d was written", i, k)
						}
					}
					got := tokens[i*maxTokens+at]
					if lengths[i] != at || ended[i] != 0 {
						if got != -1 || nexts[i] != -7 || sizes[i] != lengths[i] || ends[i] != ended[i] {
							t.Fatalf("the finished row %d was changed", i)
						}
						continue
					}
					x := make([]float64, vocab)
					for j := range x {
						x[j] = float64(logits[i*vocab+j]+bias[j]) / o.temperature
					}
					want, logp, near := chosen(x, o.topK, o.topP, at < o.minTokens, o.greedy == 1, eos, uniform[i*maxTokens+at])
					if near {
						continue
					}
					compared++
					if int(got) != want {
						t.Errorf("row %d: token %d, want %d", i, got, want)
					}
					if d := float64(logps[i*maxTokens+at]) - logp[got]; math.Abs(d) > 2e-5 {
						t.Errorf("row %d: log-probability off by %v", i, d)
					}
					if sizes[i] != at+1 || nexts[i] != got || (ends[i] == 1) != (got == eos) {
						t.Errorf("row %d: length %d, next %d, ended %d after token %d", i, sizes[i], nexts[i], ends[i], got)
					}
				}
				for i := range rows {
					if lengths[i] == at && ended[i] == 0 && ends[i] == 0 {
						going++
					}
				}
				if int(alive) != going {
					t.Errorf("%d unfinished rows, counted %d", going, alive)
				}
				if compared < rows/2 {
					t.Errorf("only %d rows could be compared", compared)
				}
			})
		}
	}
}

// A row of NaN chooses some token of the vocabulary.
func TestSamplePickOfNaN(t *testing.T) {
	b := newBench(t, Base())
	for _, vocab := range []int{3, 100, 600} {
		for _, greedy := range []int{0, 1} {
			for _, topK := range []int{0, 3} {
				logits := make([]float32, vocab)
				for i := range logits {
					logits[i] = float32(math.NaN())
				}
				pt := b.Alloc(4)
				b.start(card(b.Machine).Pick(1, vocab), 1, 1, vocab, b.floats(logits), b.floats(make([]float32, vocab)),
					float32(1), 1.0, topK, 0, 1, greedy, 2, b.doubles([]float64{0.5}), uint32(0), uint32(0), uint32(0), uint32(0), uint32(0),
					0, pt, b.Alloc(4), b.ints([]int32{0}), b.ints([]int32{0}), b.Alloc(4), b.ints([]int32{0}))
				if id := b.readInts(pt, 1)[0]; id < 0 || int(id) >= vocab {
					t.Errorf("vocabulary of %d: token %d", vocab, id)
				}
			}
		}
	}
}
