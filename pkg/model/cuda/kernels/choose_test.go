//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// choosing are rows of which the kernels choose most tokens, from new logits for each.
type choosing struct {
	rows, vocab, most int
	inv               float32
	opt               model.Sampling
	end               []int32
	uniform           []float64   // (rows, most)
	logits            [][]float32 // of each step, (rows, vocab)
}

// chosenRows is what [Choose] writes.
type chosenRows struct {
	tokens, lengths, ended, next, alive []int32 // alive: after each step
	logps, entropies                    []float32
}

// onCard chooses all tokens. What no launch writes stays -1.
func (c choosing) onCard(b bench) chosenRows {
	b.Helper()
	n := c.rows * c.most
	unset, unsetNumbers := make([]int32, n+c.rows), make([]float32, n)
	for i := range unset {
		unset[i] = -1
	}
	for i := range unsetNumbers {
		unsetNumbers[i] = -1
	}
	tokens, next, lengths, ended := b.ints(unset[:n]), b.ints(unset[:c.rows]), b.ints(make([]int32, c.rows)), b.ints(make([]int32, c.rows))
	logps, entropies, step, alive := b.floats(unsetNumbers), b.floats(unsetNumbers), b.ints([]int32{0}), b.ints([]int32{0})
	end, greedy := b.ints(c.end), 0
	uniform := cudaemu.Ptr(0)
	if c.opt.Greedy {
		greedy = 1
	} else {
		uniform = b.doubles(c.uniform)
	}
	var out chosenRows
	k := card(b.Machine)
	for t, logits := range c.logits {
		if t > 0 {
			b.start(k.NextStep(), step, alive)
		}
		b.start(k.Choose(c.rows, c.vocab), c.rows, c.vocab, b.floats(logits), c.inv, c.opt.MinTokens, c.most, greedy, end, len(c.end), uniform, step,
			tokens, logps, entropies, lengths, ended, next, alive)
		out.alive = append(out.alive, b.readInts(alive, 1)...)
	}
	out.tokens, out.lengths, out.ended, out.next = b.readInts(tokens, n), b.readInts(lengths, c.rows), b.readInts(ended, c.rows), b.readInts(next, c.rows)
	out.logps, out.entropies = b.read(logps, n), b.read(entropies, n)
	return out
}

// inEveryOrder is onCard with the same bits in every order of the threads.
func (c choosing) inEveryOrder(b bench) (out chosenRows) {
	b.Helper()
	b.everyOrder(func() [][]float32 {
		out = c.onCard(b)
		all := [][]float32{out.logps, out.entropies}
		for _, x := range [][]int32{out.tokens, out.lengths, out.ended, out.next, out.alive} {
			y := make([]float32, len(x))
			for i, v := range x {
				y[i] = float32(v)
			}
			all = append(all, y)
		}
		return all
	})
	return out
}

// check compares with [model.Chooser] and [kernel.Softmax]. Where the sums of probabilities come near
// the uniform number, rounding may make another choice.
func (c choosing) check(t *testing.T, got chosenRows) {
	t.Helper()
	end := toInts(c.end)
	chooser := model.NewChooser(c.vocab, end)
	probs, others := make([]float32, c.vocab), 0
	alive := make([]int32, len(c.logits))
	for r := range c.rows {
		last := int32(0)
		for step, logits := range c.logits {
			at, x := r*c.most+step, logits[r*c.vocab:(r+1)*c.vocab]
			id := got.tokens[at]
			if last != 0 {
				if id != -1 || got.logps[at] != -1 || got.entropies[at] != -1 {
					t.Fatalf("row %d has ended before token %d, which is %d", r, step, id)
				}
				continue
			}
			peak, logSum, entropy := kernel.Softmax(c.vocab, x, c.inv, probs)
			want := int32(chooser.Choose(probs, x, c.opt, step, c.uniform[at]))
			if id != want {
				if others++; id < 0 || int(id) >= c.vocab || probs[id] == 0 || c.opt.Greedy {
					t.Fatalf("row %d, token %d is %d, want %d", r, step, id, want)
				}
				var total, upTo float64
				for j, p := range probs {
					if total += float64(p); j == int(min(id, want)) {
						upTo = total
					}
				}
				if math.Abs(upTo-c.uniform[at]*total) > 1e-6*total {
					t.Fatalf("row %d, token %d is %d, want %d for %v: the sum is %v of %v", r, step, id, want, c.uniform[at], upTo, total)
				}
			}
			logp := kernel.LogProb(x[id], peak, c.inv, logSum)
			near(t, "log-probability", got.logps[at:at+1], []float64{float64(logp)}, 1e-5, 1e-5)
			near(t, "entropy", got.entropies[at:at+1], []float64{float64(entropy)}, 1e-5, 1e-5)
			if step+1 == c.most {
				last = 1
			}
			for _, e := range c.end {
				if id == e {
					last = 1
				}
			}
			if got.lengths[r] != int32(step+1) && (last != 0 || step+1 == len(c.logits)) || got.next[r] != id && last != 0 {
				t.Fatalf("row %d: %d tokens, the last %d; want %d, %d", r, got.lengths[r], got.next[r], step+1, id)
			}
			alive[step] += 1 - last
		}
		if got.ended[r] != last {
			t.Fatalf("row %d: ended is %d, want %d", r, got.ended[r], last)
		}
	}
	for step, n := range alive {
		if got.alive[step] != n {
			t.Errorf("after step %d %d rows continue, want %d", step, got.alive[step], n)
		}
	}
	if others > 1+c.rows/10 {
		t.Errorf("%d tokens of %d rows are not those of the host", others, c.rows)
	}
}

func TestChoose(t *testing.T) {
	b := newBench(t, Decoder())
	for _, size := range []struct{ rows, vocab, most, steps int }{{3, 1, 2, 2}, {40, 7, 5, 5}, {9, 1000, 4, 3}, {2, 2050, 3, 3}, {2, 49152, 2, 2}} {
		for _, greedy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v greedy %v", size, greedy), func(t *testing.T) {
				r := random(uint64(size.vocab))
				c := choosing{
					rows: size.rows, vocab: size.vocab, most: size.most, inv: float32(1 / 0.7),
					opt: model.Sampling{TopP: 1, Temperature: 0.7, MinTokens: 1, Greedy: greedy}, end: []int32{int32(size.vocab) / 2, int32(size.vocab) - 1, int32(size.vocab) + 5},
				}
				if greedy {
					c.inv = 1
				}
				for i := range size.rows * size.most {
					u := []float64{0, 1 - 1.0/(1<<53), r.Float64(), r.Float64()}[i%4]
					c.uniform = append(c.uniform, u)
				}
				for range size.steps {
					x := normal(r, size.rows*size.vocab, 2)
					for i := range size.rows {
						row := x[i*size.vocab : (i+1)*size.vocab]
						switch i % 5 {
						case 0: // ends as soon as it may
							row[size.vocab/2] = 30
						case 1: // ties
							for j := range row {
								row[j] = float32(math.Round(float64(row[j])))
							}
						case 2:
							row[0] = float32(math.Inf(-1))
						case 3: // beside which all others have the probability 0
							row[size.vocab/2] = 300
						}
					}
					c.logits = append(c.logits, x)
				}
				b.TB = t
				c.check(t, c.inEveryOrder(b))
			})
		}
	}
}

// With weights of 0 and 1 every sum is exact: the number of the token among the possible ones is
// u times their number, rounded down, and the last one where no sum exceeds the target.
func TestChooseIsExact(t *testing.T) {
	b := newBench(t, Decoder())
	hard := []float64{0, 0.25, 0.5, 1 - 1.0/(1<<53), 1, 0.9, 1.0 / 3}
	every := make([]float64, 300) // of three tokens in four
	for i := range every {
		every[i] = (float64(i) + 0.5) / float64(len(every))
	}
	for _, size := range []struct {
		vocab int
		us    []float64
	}{{1, hard}, {4, hard}, {127, hard}, {512, hard}, {513, hard}, {600, every}, {49152, hard}, {260001, hard[2:5]}} {
		for _, minTokens := range []int{0, 1} {
			vocab, r := size.vocab, random(3)
			c := choosing{rows: len(size.us), vocab: vocab, most: 1, inv: 1, opt: model.Sampling{MinTokens: minTokens}, uniform: size.us}
			if vocab > 1 {
				c.end = []int32{int32(vocab - 1), 0, int32(vocab / 2)}
			}
			x := make([]float32, c.rows*vocab)
			for i := range x {
				j, tail := i%vocab, size.us[i/vocab] == 1 && i%vocab > 24000
				if (tail || r.IntN(3) == 0) && j != vocab/3 { // one is always possible
					x[i] = float32(math.Inf(-1))
				}
			}
			c.logits = [][]float32{x}
			got := c.onCard(b)
			for i, u := range size.us {
				var possible []int
				for j := range vocab {
					isEnd := minTokens > 0 && vocab > 1 && (j == vocab-1 || j == 0 || j == vocab/2)
					if x[i*vocab+j] == 0 && !isEnd {
						possible = append(possible, j)
					}
				}
				want := 0
				if n := len(possible); n > 0 {
					want = possible[min(n-1, int(u*float64(n)))]
				}
				if int(got.tokens[i]) != want {
					t.Errorf("vocabulary %d, at least %d tokens, u = %v: token %d, want %d", vocab, minTokens, u, got.tokens[i], want)
				}
			}
			b.Reset()
		}
	}
}

// Rows of NaN and +Inf get a token of the vocabulary, and the others are as without them.
func TestChooseFromNaN(t *testing.T) {
	b := newBench(t, Decoder())
	for _, vocab := range []int{1, 5, 3000} {
		for _, greedy := range []bool{false, true} {
			const rows = 5
			x := normal(random(5), rows*vocab, 1)
			for j := range vocab {
				x[j] = float32(math.NaN())
				x[vocab+j] = float32(math.Inf(1))
				x[2*vocab+j] = float32(math.Inf(-1))
			}
			x[3*vocab+vocab/2] = float32(math.NaN())
			c := choosing{
				rows: rows, vocab: vocab, most: 1, inv: 1, opt: model.Sampling{TopP: 1, Greedy: greedy},
				uniform: []float64{0.5, 0.5, 0.5, 0.9, 0.5}, logits: [][]float32{x},
			}
			got := c.onCard(b)
			for i, id := range got.tokens {
				if id < 0 || int(id) >= vocab || math.IsNaN(float64(got.logps[i])) != (i < 4) {
					t.Errorf("vocabulary %d, row %d: token %d of log-probability %v", vocab, i, id, got.logps[i])
				}
			}
			b.Reset()
		}
	}
}

// The log-probabilities and entropies of the choice have the bits that the head of a large vocabulary
// computes for the chosen tokens.
func TestChooseHasTheBitsOfTheHead(t *testing.T) {
	b := newBench(t, Decoder())
	base := bench{b.Machine, b.Machine.Compile("base.cu", Base().Source)}
	const rows, vocab = 3, 5001
	x := normal(random(6), rows*vocab, 3)
	c := choosing{
		rows: rows, vocab: vocab, most: 1, inv: 1.25, opt: model.Sampling{TopP: 1}, uniform: []float64{0.1, 0.5, 0.8},
		logits: [][]float32{x},
	}
	got := c.onCard(b)
	logp, entropy := b.Alloc(4*rows), b.Alloc(4*rows)
	base.start(card(b.Machine).Head(HeadForward, rows, vocab), rows, vocab, b.floats(x), cudaemu.Ptr(0), c.inv, b.ints(got.tokens), logp, entropy, cudaemu.Ptr(0))
	near(t, "log-probabilities", got.logps, to64(b.read(logp, rows)), 0, 0)
	near(t, "entropies", got.entropies, to64(b.read(entropy, rows)), 0, 0)
}
