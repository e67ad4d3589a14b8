package task

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

func TestMain(m *testing.M) {
	// A draw makes hundreds of problems, three times. -rapid.checks overrides it.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// optionsOf draws a task and options for it, with splits that its difficulties have.
func optionsOf(r *rapid.T) (*Task, Options) {
	t := rapid.SampledFrom(slices.Concat(tasks, tasks[1:], tasks[1:])).Draw(r, "task") // arithmetic takes longest
	o := Options{
		Seed: rapid.Uint64Range(0, 1000).Draw(r, "seed"), Difficulty: rapid.IntRange(t.Default, t.Max).Draw(r, "difficulty"),
		Arithmetic: gsm8k.GenOptions{WeightAdd: 1, WeightSub: 1, WeightMul: 1},
		SFTSize:    100, TrainSize: rapid.IntRange(1, 200).Draw(r, "train"), ValSize: rapid.IntRange(1, 50).Draw(r, "val"),
		TestSize: rapid.IntRange(0, 50).Draw(r, "test"), UnseenSize: rapid.IntRange(0, 20).Draw(r, "unseen"),
	}
	if rapid.Bool().Draw(r, "mixed") {
		o.MinDifficulty = max(t.Min, o.Difficulty-rapid.IntRange(0, 1).Draw(r, "levels"))
	}
	if t.Words {
		o.Symbols = rapid.SampledFrom([]string{"", "0123456789", "abcdefABCDEF"}).Draw(r, "symbols")
	}
	if t.Numbers {
		o.Largest = rapid.SampledFrom([]int{0, 30, 99}).Draw(r, "largest")
		o.Operators = rapid.SampledFrom([]string{"", "+-*/", "+-"}).Draw(r, "operators")
	}
	return t, o
}

type split struct {
	name     string
	problems []gsm8k.Problem
}

func splitsOf(s gsm8k.Splits) []split {
	return []split{{"SFT", s.SFT}, {"Train", s.Train}, {"Val", s.Val}, {"Test", s.Test}, {"Unseen", s.Unseen}}
}

// TestGenerate: the same options give the same problems, all different, in TinyLM's characters; each problem's own answer is
// right; no other split has the facts of Unseen; sizes choose the beginning of a split.
func TestGenerate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		task, o := optionsOf(r)
		s, err := task.Generate(o)
		if err != nil {
			r.Fatal(err)
		}
		again, err := task.Generate(o)
		if err != nil || !reflect.DeepEqual(s, again) {
			r.Fatalf("the same options give other problems (%v)", err)
		}
		answers := answersOf(r, task)
		seen, facts := map[string]string{}, map[string]bool{}
		for _, sp := range splitsOf(s) {
			for _, p := range sp.problems {
				if in := seen[p.Question]; in != "" {
					r.Fatalf("%q is in %s and in %s", p.Question, in, sp.name)
				}
				seen[p.Question] = sp.name
				if !answers.Grade(p.Answer, true, p).Right {
					r.Fatalf("its own answer is wrong: %+v", p)
				}
				if i := strings.IndexFunc(p.Question+p.Answer, func(c rune) bool { return c != '\n' && (c < 32 || c > 126) }); i >= 0 {
					r.Fatalf("a character that TinyLM lacks: %+v", p)
				}
				if sp.name != "Unseen" {
					facts[p.Fact] = true
				} else if facts[p.Fact] {
					r.Fatalf("%s is not unseen", p.Fact)
				}
			}
		}
		for i, want := range []int{o.SFTSize, o.TrainSize, o.ValSize, o.TestSize, o.UnseenSize} {
			if n := len(splitsOf(s)[i].problems); (i > 0 || task.questions != nil) && n != want {
				r.Fatalf("%s has %d problems, want %d", splitsOf(s)[i].name, n, want)
			}
		}
		levels := task.Max
		if o.MinDifficulty > 0 {
			levels = o.Difficulty - o.MinDifficulty + 1
		}
		smaller := o
		smaller.ValSize, smaller.TestSize = max(1, o.ValSize-levels), 0
		sft := s.SFT
		if rapid.Bool().Draw(r, "without SFT") {
			smaller.WithoutSFT, sft = true, nil
		}
		if levels = o.ValSize - smaller.ValSize; o.MinDifficulty == 0 || levels > 0 {
			less, err := task.Generate(smaller)
			if err != nil || !slices.Equal(less.Val, s.Val[:len(less.Val)]) || !slices.Equal(less.Train, s.Train) || !slices.Equal(less.SFT, sft) {
				r.Fatalf("with smaller sizes the problems are others (%v)", err)
			}
		}
	})
}

// TestMixedDifficulties: a base model that was trained on several difficulties has seen no question of the other splits of
// any of them.
func TestMixedDifficulties(t *testing.T) {
	for _, task := range tasks {
		top := min(task.Default+1, task.Max)
		weights := gsm8k.GenOptions{WeightAdd: 1, WeightSub: 1, WeightMul: 1}
		base, err := task.Generate(Options{Seed: 1, Difficulty: top, MinDifficulty: task.Default, SFTSize: 400, ValSize: 10, Arithmetic: weights})
		expect.OK(t, err)
		types := map[string]int{}
		for _, p := range base.Val {
			types[p.Type]++
		}
		if len(types) != 2 || types[levelType(task.Name, top)] != 5 {
			t.Errorf("%s: %v, want 5 of each difficulty", task.Name, types)
		}
		for d := task.Default; d <= top; d++ {
			s, err := task.Generate(Options{Seed: 1, Difficulty: d, SFTSize: 10, TrainSize: 100, ValSize: 60, TestSize: 60, UnseenSize: 30, Arithmetic: weights})
			expect.OK(t, err)
			for _, sp := range splitsOf(s)[1:] {
				if n := gsm8k.Overlap(base.SFT, sp.problems); n > 0 {
					t.Errorf("%s: the base was trained on %d questions of %s", task.Name, n, sp.name)
				}
			}
		}
	}
}

// TestMixedOperations: each difficulty of a mixture has all operations.
func TestMixedOperations(t *testing.T) {
	s, err := Of("task:arithmetic").Generate(Options{Seed: 1, Difficulty: 3, MinDifficulty: 1, ValSize: 27,
		Arithmetic: gsm8k.GenOptions{WeightAdd: 1, WeightSub: 1, WeightMul: 1}})
	expect.OK(t, err)
	n := map[string]int{}
	for _, p := range s.Val {
		n[strconv.Itoa(strings.Count(p.Question, ","))+strings.Trim(p.Fact, "0123456789")]++
	}
	for _, kind := range []string{"0+", "0-", "0*", "1+", "1-", "1*", "2+", "2-", "2*"} {
		if n[kind] != 3 {
			t.Errorf("%v, want 3 of each number of further steps and operation", n)
			break
		}
	}
}

// TestArithmeticOfOneStep: difficulty 1 is exactly the problems of data.source generated.
func TestArithmeticOfOneStep(t *testing.T) {
	o := gsm8k.GenOptions{Seed: 3, WeightAdd: 1, WeightSub: 2, WeightMul: 1, ValSize: 64, TestSize: 32, UnseenSize: 16}
	want, err := gsm8k.Generate(o)
	expect.OK(t, err)
	got, err := Of("task:arithmetic").Generate(Options{Seed: 3, Difficulty: 1, ValSize: 64, TestSize: 32, UnseenSize: 16, Arithmetic: o})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("other problems (%v)", err)
	}
}

func TestGenerateErrors(t *testing.T) {
	for _, c := range []struct {
		task string
		o    Options
		want string
	}{
		{"sort", Options{Difficulty: 2, ValSize: 500}, "val_size: 500 problems of difficulty 2 are asked for, and there are only 1"},
		{"parity", Options{Difficulty: 4, MinDifficulty: 3, TestSize: 50}, "test_size: 25 problems of difficulty 3 are asked for"},
		{"sort", Options{Difficulty: 13}, "difficulty 13: the task sort has 2 to 12 letters"},
		{"sort", Options{Difficulty: 3, MinDifficulty: 4}, "min_difficulty 4 is above the difficulty, 3"},
		{"sort", Options{Symbols: "aba"}, "'a' appears twice"},
		{"copy", Options{Symbols: "a b"}, "want letters"},
		{"countdown", Options{Operators: "+^"}, "want some of +-*/"},
		{"reverse", Options{ValSize: -3}, "val_size -3: want at least 0"},
		{"arithmetic", Options{ValSize: 9999999, Arithmetic: gsm8k.GenOptions{WeightAdd: 1}}, "there are only"},
	} {
		_, err := Of(Prefix + c.task).Generate(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %s", c.task, c.o, err, c.want)
		}
	}
	if _, err := Find("sorting"); err == nil || !strings.Contains(err.Error(), `did you mean "sort"`) {
		t.Error(err)
	}
}

func TestPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 16, 100, 677} {
		seen := map[uint64]bool{}
		p := permutation{rng.New(1, rng.Problems), 4, n}
		fixed := 0
		for i := range n {
			x := p.at(i)
			if x >= n || seen[x] {
				t.Fatalf("%d of %d goes to %d, which is taken or outside", i, n, x)
			}
			if seen[x] = true; x == i {
				fixed++
			}
		}
		if n > 10 && fixed > 5 {
			t.Errorf("%d of %d stay in place", fixed, n)
		}
	}
}

func TestMultisets(t *testing.T) {
	seen := map[string]bool{}
	for i := range multisets(3, 6) {
		m := multiset(i, 3, 6)
		if !slices.IsSorted(m) || len(m) != 3 || m[0] < 1 || m[2] > 6 {
			t.Fatalf("%d is %v", i, m)
		}
		seen[string([]byte{byte(m[0]), byte(m[1]), byte(m[2])})] = true
	}
	if len(seen) != 56 {
		t.Errorf("%d multisets, want 56", len(seen))
	}
}

// TestExamples: what a problem of each task looks like.
func TestExamples(t *testing.T) {
	for name, want := range map[string]string{
		"sort": "sort: x f w t -> #### ftwx", "reverse": "reverse: x f w t -> #### twfx", "copy": "copy: x f w t -> #### xfwt",
		"parity":     "parity: 0 1 1 0 0 0 1 0 0 1 1 1 1 0 0 0 -> 0100001110101111\n#### 1",
		"countdown":  "make 10 from: 12 12 14 -> #### 12-(14-12)",
		"arithmetic": "Kim has 9 figs and gets 4 more, gets 2 more. How many? -> 9+4=13\n13+2=15\n#### 15",
	} {
		s, err := Of(Prefix + name).Generate(Options{Seed: 1, SFTSize: 1, TrainSize: 1, Arithmetic: gsm8k.GenOptions{WeightAdd: 1, WeightSub: 1, WeightMul: 1}})
		expect.OK(t, err)
		if got := s.Train[0].Question + " -> " + s.Train[0].Answer; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
