package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"grpo/pkg/model/tokenizer"
)

// Parts cover every sequence once, in order, in chunks that fit the working
// memory, and no more parts than memory is reserved for.
func TestCutSums(t *testing.T) {
	for _, elements := range []int{100, 1 << 20, 1 << 21, 1 << 30} {
		for n := 1; n <= 700; n++ {
			c := cutSums(n, elements)
			at, chunk := 0, 0
			for p := range c.parts {
				lo, hi := c.part(p)
				if lo != chunk || hi <= lo {
					t.Fatalf("%d sequences: part %d is chunks %d to %d, want them to begin at %d", n, p, lo, hi, chunk)
				}
				for ; chunk < hi; chunk++ {
					lo, hi := c.chunk(chunk)
					if lo != at || hi < lo || hi-lo > maxChunk {
						t.Fatalf("%d sequences: chunk %d is %d to %d, want it to begin at %d", n, chunk, lo, hi, at)
					}
					at = hi
				}
			}
			if at != n || chunk != c.chunks || c.parts > mostParts(n, elements) {
				t.Fatalf("%d sequences: %d of them in %d of %d chunks, %d parts", n, at, chunk, c.chunks, c.parts)
			}
		}
	}
}

// Lengths of all kinds, more sequences than parts have chunks, and chunks that
// take no step at all: still the same bits for any number of threads.
func TestRaggedGradientsDoNotDependOnThreads(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 20, 2}, 1)
	r := rand.New(rand.NewPCG(3, 4))
	tokens := func(n int) []int {
		x := make([]int, n)
		for i := range x {
			x[i] = r.IntN(tokenizer.VocabSize)
		}
		return x
	}
	for _, c := range []struct{ prompts, rows int }{{1, 1}, {17, 63}, {70, 650}} {
		b := &Batch{}
		for range c.prompts {
			b.Prompts = append(b.Prompts, tokens(1+r.IntN(30)))
		}
		for i := range c.rows {
			n := 1
			if i%2 == 0 { // the other half is done after its first token
				n += r.IntN(1 + r.IntN(25))
			}
			b.Rows = append(b.Rows, Row{r.IntN(c.prompts), tokens(n)})
		}
		want := gradients(t, p, 1, b)
		for _, threads := range []int{2, 3, 5} {
			if !slices.Equal(gradients(t, p, threads, b), want) {
				t.Errorf("%d prompts, %d completions: gradients differ between 1 and %d threads", c.prompts, c.rows, threads)
			}
		}
	}
}
