package gsm8k

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

var corpusDefaults = CorpusOptions{Weights: [3]float64{1, 1, 1}, MaxChars: 64}

// styleShare returns the share of a style in the preference corpus among the
// problems of a name.
func styleShare(style, name string) float64 {
	for _, m := range mixture {
		switch {
		case m.Style != style:
		case slices.Contains(textbookNames, name):
			return m.Textbook
		default:
			return m.Most
		}
	}
	return 0
}

// styles lists the styles of the preference corpus.
func styles() []string {
	s := make([]string, len(mixture))
	for i, m := range mixture {
		s[i] = m.Style
	}
	return s
}

func TestMixturesSumToOne(t *testing.T) {
	for _, name := range names {
		sum := 0.0
		for _, style := range styles() {
			sum += styleShare(style, name)
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%s: shares sum to %v", name, sum)
		}
	}
	if len(textbookNames) != 2 || !slices.Contains(names, textbookNames[0]) || !slices.Contains(names, textbookNames[1]) {
		t.Errorf("textbook names %v", textbookNames)
	}
}

func TestCapabilityCorpus(t *testing.T) {
	sft := generate(t, defaults()).SFT
	byQuestion := map[string]Problem{}
	for _, p := range sft {
		byQuestion[p.Question] = p
	}
	corpus := CapabilityCorpus(sft, 20000, 1, corpusDefaults)
	if len(corpus) != 20000 {
		t.Fatalf("%d examples", len(corpus))
	}
	types, questions := map[string]int{}, map[string]int{}
	for _, e := range corpus {
		p, ok := byQuestion[e.Question]
		if !ok {
			t.Fatalf("question %q is of none of the problems", e.Question)
		}
		types[p.Type]++
		questions[e.Question]++
		if e.Completion != p.Answer || !e.Ended || !e.Right || e.Style != StyleAnnotated {
			t.Fatalf("example %+v of problem %+v", e, p)
		}
	}
	for typ, n := range types {
		if n < 6666 || n > 6667 {
			t.Errorf("%d examples of type %s, want a third", n, typ)
		}
	}
	if len(questions) != len(sft) {
		t.Errorf("%d of %d questions occur", len(questions), len(sft))
	}
	for q, n := range questions {
		lo := 6666 / 1160 // the rarest type has at most this many passes
		if byQuestion[q].Type != "add" && n < lo {
			t.Errorf("%q occurs %d times, want at least %d", q, n, lo)
		}
	}
}

func TestPreferenceCorpusReward(t *testing.T) {
	corpus := PreferenceCorpus(generate(t, defaults()).SFT, 20000, 1, corpusDefaults)
	answer, err := lookupReward("answer")
	expect.OK(t, err)
	sum := 0.0
	for _, e := range corpus {
		q, ok := parseQuestion(e.Question)
		if !ok {
			t.Fatalf("question %q", e.Question)
		}
		r := answer(RewardInput{Completion: e.Completion, Ended: e.Ended, Problem: q.problem(0)})
		if (r == 1) != e.Right {
			t.Fatalf("reward %v of %+v", r, e)
		}
		sum += r
	}
	// A standard error is 0.0032; lucky guesses add 0.002.
	if mean := sum / float64(len(corpus)); math.Abs(mean-0.277) > 0.010 {
		t.Errorf("answer reward of the corpus %.4f, want 0.277 within three standard errors", mean)
	}
}

func TestPreferenceCorpusShares(t *testing.T) {
	corpus := PreferenceCorpus(generate(t, defaults()).SFT, 40000, 3, corpusDefaults)
	for _, mix := range []struct {
		name string
		in   func(name string) bool
	}{
		{"Tom", func(n string) bool { return !slices.Contains(textbookNames, n) }},
		{textbookNames[0], func(n string) bool { return slices.Contains(textbookNames, n) }},
	} {
		counts, total := map[string]int{}, 0
		for _, e := range corpus {
			if name, _, _ := strings.Cut(e.Question, " "); mix.in(name) {
				counts[e.Style]++
				total++
			}
		}
		for _, style := range styles() {
			want := styleShare(style, mix.name)
			got := float64(counts[style]) / float64(total)
			tol := 4*math.Sqrt(want*(1-want)/float64(total)) + 0.004 // the fallback of wrong operations
			if math.Abs(got-want) > tol {
				t.Errorf("%s: style %s has share %.4f, want %.3f +- %.4f", mix.name, style, got, want, tol)
			}
		}
	}
}

func TestPreferenceCorpusStyles(t *testing.T) {
	const (
		eq   = `(\d+[-+*]\d+)`
		note = eq + `=<<(\d+[-+*]\d+)=(\d+)>>(\d+)`
	)
	solution := []string{eq + `=(\d+)`, note, `\w{3} has ` + note + ` \w{4}\.`}
	var three []*regexp.Regexp
	for _, s := range solution {
		three = append(three, regexp.MustCompile(`^`+s+`\n#### \d+$`))
	}
	forms := map[string][]*regexp.Regexp{
		StyleShort: three[:1], StyleAnnotated: three[1:2], StyleWordy: three[2:],
		StyleWrongOperation: three, StyleWrongArithmetic: three,
		StyleNoMarker:     {regexp.MustCompile(`^The answer is \d+\.$`)},
		StyleNoMarkerWork: {regexp.MustCompile(`^` + eq + `=\d+ \w{4}\.$`)},
		StyleGuess:        {regexp.MustCompile(`^#### \d+$`)},
		StyleRambling:     {regexp.MustCompile(`^(So \w{3} has ` + eq + `=\d+ \w{4}\. )+`)},
	}
	sft := generate(t, defaults()).SFT
	trained := facts(sft)
	used := map[*regexp.Regexp]bool{}
	for _, e := range PreferenceCorpus(sft, 20000, 5, corpusDefaults) {
		checkVocabulary(t, e.Question+e.Completion)
		matched := false
		for _, form := range forms[e.Style] {
			if form.MatchString(e.Completion) {
				matched, used[form] = true, true
			}
		}
		if !matched {
			t.Fatalf("style %s: %q", e.Style, e.Completion)
		}
		q, _ := parseQuestion(e.Question)
		switch e.Style {
		case StyleShort, StyleAnnotated, StyleWordy:
			if !e.Right {
				t.Fatalf("not right: %+v", e)
			}
		case StyleWrongOperation, StyleWrongArithmetic:
			shown := regexp.MustCompile(eq).FindString(e.Completion)
			if e.Right || (shown == q.fact.String()) != (e.Style == StyleWrongArithmetic) {
				t.Fatalf("%s shows %s: %+v", q.fact, shown, e)
			}
			checkHeldOut(t, shown, trained)
			value, _ := ParseFinalAnswer(e.Completion)
			if !strings.Contains(e.Completion, "="+value) || strings.HasPrefix(value, "-") {
				t.Fatalf("the work does not lead to %s: %q", value, e.Completion)
			}
		case StyleRambling:
			if e.Ended || len(e.Completion) != 64 {
				t.Fatalf("rambling of %d characters, ended %v", len(e.Completion), e.Ended)
			}
		case StyleNoMarker, StyleNoMarkerWork:
			if e.Right || !strings.Contains(e.Completion, q.problem(0).Gold) {
				t.Fatalf("%+v", e)
			}
		}
		if e.Style != StyleRambling && !e.Ended {
			t.Fatalf("style %s does not end", e.Style)
		}
		if e.Ended && len(e.Completion)+1 > 64 {
			t.Fatalf("%q does not fit into 64 tokens", e.Completion)
		}
	}
	for style, fs := range forms {
		for _, f := range fs {
			if !used[f] {
				t.Errorf("style %s: no completion of form %s", style, f)
			}
		}
	}
}

// checkHeldOut checks that an example does not show a fact in the generator's range that is not in
// the training problems.
func checkHeldOut(t *testing.T, shown string, trained map[string]bool) {
	t.Helper()
	for typ := range types {
		for _, f := range factsOf(typ) {
			if f.String() == shown && !trained[shown] {
				t.Fatalf("the held-out fact %s is shown", shown)
			}
		}
	}
}

func TestWrongArithmeticAndOperation(t *testing.T) {
	r := newSequence(1)
	for gold := range 150 {
		for range 40 {
			if w := wrongArithmetic(gold, r); w == gold || w < 0 || w < gold-2 || w > gold+2 {
				t.Fatalf("wrong answer %d for %d", w, gold)
			}
		}
	}
	all := factSet{map[fact]bool{}, map[byte]bool{'+': true, '-': true, '*': true}}
	for typ := range types {
		for _, f := range factsOf(typ) {
			all.facts[f] = true
		}
	}
	for f := range all.facts {
		for range 20 {
			g := wrongOperation(f, all, r)
			if g.op == f.op || g.a != f.a || g.b != f.b || g.value() == f.value() || g.value() < 0 {
				t.Fatalf("wrong operation %s for %s", g, f)
			}
		}
	}
	few := factSet{map[fact]bool{{'+', 2, 3}: true}, all.operators}
	if f := (fact{'+', 2, 3}); wrongOperation(f, few, r) != f {
		t.Error("a held-out fact is shown where no other operation remains")
	}
}

func TestCorpusOptions(t *testing.T) {
	sft := generate(t, defaults()).SFT
	corpus := PreferenceCorpus(sft, 3000, 1, CorpusOptions{Weights: [3]float64{0, 2, 1}, MaxChars: 100})
	types, rambling := map[string]int{}, 0
	for _, e := range corpus {
		q, ok := parseQuestion(e.Question)
		if !ok {
			t.Fatalf("question %q", e.Question)
		}
		types[q.problem(0).Type]++
		if e.Style == StyleRambling {
			rambling++
			if len(e.Completion) != 100 {
				t.Fatalf("rambling of %d characters, want 100", len(e.Completion))
			}
		}
	}
	if want := map[string]int{"sub": 2000, "mul": 1000}; !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if rambling == 0 {
		t.Error("no rambling")
	}
}

func TestCorpusIsDeterministic(t *testing.T) {
	sft := generate(t, defaults()).SFT
	for name, make := range map[string]func(seed uint64) []Example{
		"capability": func(seed uint64) []Example { return CapabilityCorpus(sft, 500, seed, corpusDefaults) },
		"preference": func(seed uint64) []Example { return PreferenceCorpus(sft, 500, seed, corpusDefaults) },
	} {
		if !slices.Equal(make(1), make(1)) {
			t.Errorf("%s: the same seed gives different examples", name)
		}
		if slices.Equal(make(1), make(2)) {
			t.Errorf("%s: another seed gives the same examples", name)
		}
	}
}

func TestCorpusOfForeignProblems(t *testing.T) {
	foreign := []Problem{{Question: "What is 2+2?", Answer: "It is 4.\n#### 4", Gold: "4"}}
	if c := CapabilityCorpus(foreign, 5, 1, corpusDefaults); c != nil {
		t.Errorf("capability corpus %+v", c)
	}
	if c := PreferenceCorpus(foreign, 5, 1, corpusDefaults); c != nil {
		t.Errorf("preference corpus %+v", c)
	}
	mixed := append(foreign, question{"Tom", "pens", fact{'+', 7, 5}}.problem(0))
	if c := CapabilityCorpus(mixed, 5, 1, corpusDefaults); len(c) != 5 {
		t.Errorf("%d examples of the one problem in form", len(c))
	}
	want := []Example{{Question: "What is 2+2?", Completion: "It is 4.\n#### 4", Ended: true, Style: StyleAnswer, Right: true}}
	if c := AnswerCorpus(foreign, Answers{}); !slices.Equal(c, want) {
		t.Errorf("answer corpus %+v, want %+v", c, want)
	}
}
