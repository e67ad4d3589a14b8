package gsm8k

import (
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func defaults() GenOptions {
	return GenOptions{Seed: 1, WeightAdd: 1, WeightSub: 1, WeightMul: 1, ValSize: 1024, TestSize: 1024, UnseenSize: 512}
}

// defaultSplits are shared by the tests that only read them.
var defaultSplits = sync.OnceValues(func() (Splits, error) { return Generate(defaults()) })

func generate(t testing.TB, opt GenOptions) Splits {
	t.Helper()
	if opt == defaults() {
		s, err := defaultSplits()
		expect.OK(t, err)
		return s
	}
	s, err := Generate(opt)
	expect.OK(t, err)
	return s
}

type split struct {
	name     string
	problems []Problem
}

func (s Splits) all() []split {
	return []split{{"SFT", s.SFT}, {"Train", s.Train}, {"Val", s.Val}, {"Test", s.Test}, {"Unseen", s.Unseen}}
}

func facts(ps []Problem) map[string]bool {
	m := map[string]bool{}
	for _, p := range ps {
		m[p.Fact] = true
	}
	return m
}

func TestProblemTexts(t *testing.T) {
	for _, c := range []struct {
		name string
		q    question
		want Problem
	}{
		{"add", question{"Tom", "pens", fact{'+', 7, 5}}, Problem{
			Question: "Tom has 7 pens and gets 5 more. How many?", Answer: "7+5=<<7+5=12>>12\n#### 12", Gold: "12", Type: "add", Fact: "7+5"}},
		{"sub", question{"Tom", "pens", fact{'-', 9, 4}}, Problem{
			Question: "Tom has 9 pens and loses 4. How many?", Answer: "9-4=<<9-4=5>>5\n#### 5", Gold: "5", Type: "sub", Fact: "9-4"}},
		{"mul", question{"Tom", "pens", fact{'*', 6, 4}}, Problem{
			Question: "Tom has 6 bags of 4 pens. How many?", Answer: "6*4=<<6*4=24>>24\n#### 24", Gold: "24", Type: "mul", Fact: "6*4"}},
		{"zero", question{"Ann", "cups", fact{'-', 4, 4}}, Problem{
			Question: "Ann has 4 cups and loses 4. How many?", Answer: "4-4=<<4-4=0>>0\n#### 0", Gold: "0", Type: "sub", Fact: "4-4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.ID = "gen-" + c.name + "-00007"
			if c.name == "zero" {
				c.want.ID = "gen-sub-00007"
			}
			if got := c.q.problem(7); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestParseQuestionInvertsText(t *testing.T) {
	for typ := range types {
		for _, f := range factsOf(typ) {
			want := question{names[f.a%len(names)], items[f.b%len(items)], f}
			if got, ok := parseQuestion(want.text()); !ok || got != want {
				t.Fatalf("parseQuestion(%q) = %+v, %v; want %+v", want.text(), got, ok, want)
			}
		}
	}
	for _, s := range []string{
		"", "Tom has 07 pens and gets 5 more. How many?", "Tom has 7 pens and gets 5 more. How many? ",
		"Tom has 7 pens and eats 5. How many?", "Tom has 99999999999999999999 pens and loses 4. How many?",
	} {
		if q, ok := parseQuestion(s); ok {
			t.Errorf("parseQuestion(%q) = %+v", s, q)
		}
	}
}

func TestGenerateDefault(t *testing.T) {
	s := generate(t, defaults())
	if len(s.Val) != 1024 || len(s.Test) != 1024 || len(s.Unseen) != 512 {
		t.Errorf("sizes val %d, test %d, unseen %d", len(s.Val), len(s.Test), len(s.Unseen))
	}
	if len(s.SFT) < 4400 || len(s.Train) < 2600 {
		t.Errorf("sizes sft %d, train %d", len(s.SFT), len(s.Train))
	}
	checkSplits(t, s)

	trained := facts(s.SFT)
	for _, sp := range s.all()[1:4] {
		if !reflect.DeepEqual(facts(sp.problems), trained) {
			t.Errorf("%s asks for %d facts, SFT for %d: want the same", sp.name, len(facts(sp.problems)), len(trained))
		}
	}
	if n := len(trained) + len(facts(s.Unseen)); n != 251 {
		t.Errorf("%d trained and %d unseen facts, want 251 in all", len(trained), len(facts(s.Unseen)))
	}
	for _, sp := range s.all() {
		length := 0
		for _, p := range sp.problems {
			checkVocabulary(t, p.Question+p.Answer)
			if !(Answers{}).Grade(p.Answer, true, p).Right {
				t.Errorf("%s: the worked answer %q does not earn its reward", p.ID, p.Answer)
			}
			length += len(p.Question) + 1
		}
		if mean := float64(length) / float64(len(sp.problems)); mean < 36 || mean > 44 {
			t.Errorf("%s: prompts of %.1f characters, want about 40", sp.name, mean)
		}
	}
}

// checkSplits checks properties for any options.
func checkSplits(t *testing.T, s Splits) {
	t.Helper()
	questions, ids := map[string]string{}, map[string]string{}
	for _, sp := range s.all() {
		for _, p := range sp.problems {
			if other, ok := questions[p.Question]; ok {
				t.Errorf("%q is in %s and in %s", p.Question, other, sp.name)
			}
			if other, ok := ids[p.ID]; ok {
				t.Errorf("ID %s is in %s and in %s", p.ID, other, sp.name)
			}
			questions[p.Question], ids[p.ID] = sp.name, sp.name
		}
	}
	trained := facts(s.SFT)
	for _, sp := range s.all()[1:4] {
		for f := range facts(sp.problems) {
			if !trained[f] {
				t.Errorf("fact %s of %s is not in SFT", f, sp.name)
			}
		}
	}
	for _, p := range s.Unseen {
		q, _ := parseQuestion(p.Question)
		mirror := fact{q.fact.op, q.fact.b, q.fact.a}
		if trained[p.Fact] || q.fact.op != '-' && trained[mirror.String()] {
			t.Errorf("fact %s of Unseen, or its mirror image, is in SFT", p.Fact)
		}
	}
}

// genOptions draws options that Generate must accept.
var genOptions = rapid.Custom(func(t *rapid.T) GenOptions {
	return GenOptions{
		Seed:      rapid.Uint64().Draw(t, "seed"),
		WeightAdd: rapid.Float64Range(0, 2).Draw(t, "add"),
		WeightSub: rapid.Float64Range(0, 2).Draw(t, "sub"),
		WeightMul: rapid.Float64Range(0.1, 2).Draw(t, "mul"),
		ValSize:   rapid.IntRange(0, 300).Draw(t, "val"), TestSize: rapid.IntRange(0, 300).Draw(t, "test"),
		UnseenSize: rapid.IntRange(0, 200).Draw(t, "unseen"), TrainSize: rapid.IntRange(0, 500).Draw(t, "train"),
	}
})

func TestGenerateLaws(t *testing.T) {
	// Rapid's usual hundred cases would take seconds: each makes 12048 problems.
	for i := range 20 {
		opt := genOptions.Example(i)
		s := generate(t, opt)
		checkSplits(t, s)
		sum := opt.WeightAdd + opt.WeightSub + opt.WeightMul
		for _, sp := range s.all()[1:] {
			counts := map[string]int{}
			for _, p := range sp.problems {
				counts[p.Type]++
			}
			for i, w := range opt.weights() {
				want := w / sum * float64(len(sp.problems))
				if got := counts[types[i]]; math.Abs(float64(got)-want) > 1.5 {
					t.Errorf("%+v: %s: %d of type %s, want about %.1f", opt, sp.name, got, types[i], want)
				}
			}
		}
	}
}

func TestGenerateHoldsOutEachType(t *testing.T) {
	for seed := range uint64(8) {
		opt := defaults()
		opt.Seed = seed
		s := generate(t, opt)
		held := map[string]int{}
		for _, p := range s.Unseen {
			if p.Gold == "0" {
				t.Fatalf("seed %d: %s is held out", seed, p.Fact)
			}
		}
		for f := range facts(s.Unseen) {
			held[string(strings.TrimLeft(f, "0123456789")[0])]++
		}
		for op, want := range map[string]int{"+": 12, "-": 7, "*": 6} {
			// A mirror image can raise the count by one.
			if n := held[op]; n != want && (op == "-" || n != want+1) {
				t.Errorf("seed %d: %d facts with %s held out, want %d", seed, n, op, want)
			}
		}
	}
}

func TestGenerateLeavesOutTypes(t *testing.T) {
	opt := GenOptions{Seed: 1, WeightMul: 2, ValSize: 300}
	s := generate(t, opt)
	for _, sp := range s.all() {
		for _, p := range sp.problems {
			if p.Type != "mul" {
				t.Fatalf("%s has %s", sp.name, p.ID)
			}
		}
	}
	if len(s.Val) != 300 || s.Test != nil && len(s.Test) != 0 || len(s.Train) == 0 {
		t.Errorf("sizes val %d, test %d, train %d", len(s.Val), len(s.Test), len(s.Train))
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*GenOptions)
		want string
	}{
		{"val too large", func(o *GenOptions) { o.ValSize = 5000 }, "val_size 5000: there are only 10"},
		{"test too large", func(o *GenOptions) { o.TestSize = 5000 }, "test_size 5000: there are only 10"},
		{"unseen too large", func(o *GenOptions) { o.UnseenSize = 5000 }, "unseen_size 5000: there are only 8"},
		{"train too large", func(o *GenOptions) { o.TrainSize = 50000 }, "train_size 50000: there are only 2"},
		{"weights that leave too few", func(o *GenOptions) { o.WeightAdd = 0; o.WeightSub = 0 }, "with weights add 0, sub 0, mul 1"},
		{"negative size", func(o *GenOptions) { o.TestSize = -1 }, "test_size -1: want at least 0"},
		{"negative weight", func(o *GenOptions) { o.WeightSub = -1 }, "weight_sub -1: want a finite number"},
		{"infinite weight", func(o *GenOptions) { o.WeightMul = math.Inf(1) }, "weight_mul +Inf"},
		{"weight that is not a number", func(o *GenOptions) { o.WeightAdd = math.NaN() }, "weight_add NaN"},
		{"no weight", func(o *GenOptions) { o.WeightAdd, o.WeightSub, o.WeightMul = 0, 0, 0 }, "are all 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := defaults()
			c.set(&opt)
			_, err := Generate(opt)
			if err == nil || !strings.HasPrefix(err.Error(), "generate problems: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	a, b := Problem{Question: "a"}, Problem{Question: "b"}
	if n := Overlap([]Problem{a}, []Problem{a, b, a}); n != 2 {
		t.Errorf("Overlap = %d, want 2", n)
	}
}
