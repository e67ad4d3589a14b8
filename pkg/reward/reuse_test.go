package reward

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// A memory changes no score, whatever it knows, has forgotten or may not keep, and asks once for equal completions.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
		asked := map[string]int{}
		ask := func(b Batch) Scores {
			s := nulls(len(b.Completions))
			for i, c := range b.Completions {
				if n := len(c.Completion); n > 0 {
					s.Rewards[i] = float64(n) + float64(len(c.Tokens))/8
				}
				if s.Columns == nil {
					s.Columns = map[string][]any{"text": make([]any, len(b.Completions))}
				}
				if c.Ended {
					s.Columns["text"][i] = c.Problem.ID
				}
			}
			return s
		}
		for step := range rapid.IntRange(1, 4).Draw(t, "steps") {
			b := Batch{Step: step, MaxTokens: 64, GroupSize: 2}
			for range 2 * rapid.IntRange(0, 6).Draw(t, "groups") {
				b.Completions = append(b.Completions, Completion{
					Completion: rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 2, -1).Draw(t, "text"),
					Tokens:     make([]int, rapid.IntRange(0, 1).Draw(t, "tokens")), Ended: rapid.Bool().Draw(t, "ended"),
					Problem: Problem{ID: rapid.SampledFrom([]string{"", "x"}).Draw(t, "problem")},
				})
			}
			keep, forget := rapid.Bool().Draw(t, "keep"), rapid.Bool().Draw(t, "forget")
			if forget {
				m.bytes = maxMemory
			}
			got, err := m.score(b, func(fresh Batch) (Scores, bool, error) {
				for _, c := range fresh.Completions {
					key := fmt.Sprint(c)
					if asked[key]++; asked[key] > 1 {
						t.Fatalf("%s was asked before", key)
					}
				}
				if !keep || forget {
					clear(asked)
				}
				return ask(fresh), keep, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want := ask(b)
			if !equal(got.Rewards, want.Rewards) {
				t.Fatalf("rewards %v, want %v", got.Rewards, want.Rewards)
			}
			for i := range b.Completions {
				if a, b := got.of(i), want.of(i); !reflect.DeepEqual(a.columns, b.columns) {
					t.Fatalf("columns of %d: %v, want %v", i, a.columns, b.columns)
				}
			}
			if forget { // what is known now is less than what was asked
				clear(asked)
				m = newMemory()
			}
		}
	})
}

// A command with reuse gets requests with completions that are new to it, and what it could not score comes again.
func TestCommandReuse(t *testing.T) {
	s := spec("size")
	s.Reuse = true
	f, _ := open(t, t.Context(), s)
	for step, want := range []float64{3, 3, 1} {
		b := batch(step, 2, "1", "2", "3", "2")
		b.Completions[3] = b.Completions[1]
		if step == 2 {
			b.Completions[0].Completion = "another"
		}
		got, err := f.Score(b)
		expect.OK(t, err)
		if want := []float64{1, 2, 3, 2}; !equal(got.Rewards, want) {
			t.Errorf("step %d: rewards %v, want %v", step, got.Rewards, want)
		}
		if n := got.Columns["n"][0]; n != want {
			t.Errorf("step %d: asked for %v completions, want %v", step, n, want)
		}
	}

	s = spec("midway", t.TempDir()+"/once")
	s.Reuse, s.NullOnError = true, true
	f, notes := open(t, t.Context(), s)
	for step, want := range []float64{1, math.NaN(), 7} {
		b := batch(step+1, 1, fmt.Sprint([]int{1, 7, 7}[step]))
		b.Completions[0].Completion = b.Completions[0].Answer
		got, err := f.Score(b)
		expect.OK(t, err)
		if !equal(got.Rewards, []float64{want}) {
			t.Errorf("step %d: rewards %v, want %v", step+1, got.Rewards, want)
		}
	}
	if len(*notes) != 1 {
		t.Errorf("notes %q", *notes)
	}
}
