package gsm8k

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

// defaultParams are the defaults of the configuration.
func defaultParams() RewardParams {
	return RewardParams{
		RepetitionNGrams: 3, RepetitionMaxPenalty: -1, CosineCorrect: "answer",
		CosineMinCorrect: 0.5, CosineMaxCorrect: 1, CosineMinWrong: -1, CosineMaxWrong: -0.5,
	}
}

// lookupReward returns the reward function of a name with the default
// parameters.
func lookupReward(name string) (RewardFunc, error) { return NewReward(name, defaultParams(), "") }

func TestRewards(t *testing.T) {
	p, tested := Problem{Gold: "12"}, map[string]bool{}
	for _, c := range []struct {
		reward, name string
		in           RewardInput
		want         float64
	}{
		{"answer", "right", RewardInput{Completion: "#### 12", Ended: true, Problem: p}, 1},
		{"answer", "wrong", RewardInput{Completion: "#### 13", Ended: true, Problem: p}, 0},
		{"format", "right", RewardInput{Completion: "#### 12", Ended: true, Problem: p}, 1},
		{"format", "wrong", RewardInput{Completion: "#### 13", Ended: true, Problem: p}, 1},
		{"format", "no marker", RewardInput{Completion: "12", Ended: true, Problem: p}, 0},
		{"r1_zero", "right", RewardInput{Completion: "7+5 </think> <answer> 12 </answer>", Problem: p}, 1},
		{"r1_zero", "wrong", RewardInput{Completion: "7+5 </think> <answer> 13 </answer>", Ended: true, Problem: p}, 0},
		{"question_only", "right", RewardInput{Completion: `so \boxed{12}`, Problem: p}, 1},
		{"last_number", "right", RewardInput{Completion: "7+5 is 12, so there.", Problem: p}, 1},
		{"last_number", "wrong", RewardInput{Completion: "12 or 13", Ended: true, Problem: p}, 0},
		{"think_format", "tag written", RewardInput{Completion: "<think>a</think>b", Problem: p}, 1},
		{"think_format", "tag missing", RewardInput{Completion: "a</think>b", Problem: p}, 0},
		{"soft_overlong", "short", RewardInput{Tokens: 80, MaxTokens: 100, Problem: p}, 0},
		{"soft_overlong", "on the ramp of a fifth", RewardInput{Tokens: 90, MaxTokens: 100, Problem: p}, -0.5},
		{"soft_overlong", "at the limit", RewardInput{Tokens: 100, MaxTokens: 100, Problem: p}, -1},
		{"soft_overlong", "limit below five", RewardInput{Tokens: 3, MaxTokens: 3, Problem: p}, -1},
		{"repetition", "3-grams of the characters", RewardInput{Completion: "aaaaa", Problem: p}, -2. / 3},
		{"repetition", "the end is a token", RewardInput{Completion: "aaaaa", Ended: true, Problem: p}, -2. / 4},
		{"repetition", "tokens go first", RewardInput{Completion: "aaaaa", TokenIDs: []int{1, 2, 3, 4}, Problem: p}, 0},
		{"countdown", "right", RewardInput{Completion: "#### 3 * 4", Ended: true, Problem: Problem{Gold: "12 from 3 4"}}, 1},
		{"countdown", "another value, cut", RewardInput{Completion: "#### 3+4", Problem: Problem{Gold: "12 from 3 4"}}, 0.1},
		{"countdown", "no expression", RewardInput{Completion: "#### none", Problem: Problem{Gold: "12 from 3 4"}}, 0.1},
		{"countdown", "unmarked", RewardInput{Completion: "3*4", Ended: true, Problem: Problem{Gold: "12 from 3 4"}}, 0},
		{"cosine", "right and short", RewardInput{Completion: "#### 12", Ended: true, Tokens: 0, MaxTokens: 64, Problem: p}, 1},
		{"cosine", "right and long", RewardInput{Completion: "#### 12", Ended: true, Tokens: 64, MaxTokens: 64, Problem: p}, 0.5},
		{"cosine", "wrong and short", RewardInput{Completion: "#### 13", Ended: true, Tokens: 0, MaxTokens: 64, Problem: p}, -1},
		{"cosine", "wrong and long", RewardInput{Completion: "#### 13", Ended: true, Tokens: 64, MaxTokens: 64, Problem: p}, -0.5},
		{"random", "low noise, wrong", RewardInput{Noise: 0.25, Problem: p}, 1},
		{"random", "high noise, right", RewardInput{Completion: "#### 12", Ended: true, Noise: 0.5, Problem: p}, 0},
	} {
		tested[c.reward] = true
		t.Run(c.reward+"/"+c.name, func(t *testing.T) {
			fn, err := lookupReward(c.reward)
			expect.OK(t, err)
			if got := fn(c.in); math.Abs(got-c.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	for _, name := range Rewards() {
		if !tested[name] {
			t.Errorf("no case for the reward %s", name)
		}
	}
}

// In the places of the assignment's graders, texts and choices are compared as the kind of answers says.
func TestAssignmentRewardsOfOtherAnswers(t *testing.T) {
	text, choice := AnswerOptions{Kind: KindText}, AnswerOptions{Kind: KindChoice}
	for _, c := range []struct {
		o            AnswerOptions
		gold, answer string
		want         float64
	}{
		{text, "on", "no", 0}, {text, "5 miles", "5 km", 0}, {text, "ab", "ba", 0}, {text, "ab", " ab ", 1}, {text, "yes", "Yes", 0},
		{AnswerOptions{Kind: KindText, IgnoreCase: true}, "yes", "Yes", 1},
		{choice, "B", "B.", 1}, {choice, "B", "(b)", 1}, {choice, "B", "C", 0},
		{AnswerOptions{Kind: KindMath}, "ab", "ba", 1}, {AnswerOptions{}, "72", "72 km", 1},
	} {
		in := RewardInput{Problem: Problem{Gold: c.gold}, Answers: answersOf(t, c.o)}
		for name, completions := range map[string][]string{
			"r1_zero":       {"</think> <answer>" + c.answer + "</answer>", `</think> <answer>\boxed{` + c.answer + "}</answer>"},
			"question_only": {`\boxed{` + c.answer + "}"},
		} {
			f, err := lookupReward(name)
			expect.OK(t, err)
			for _, in.Completion = range completions {
				if got := f(in); got != c.want {
					t.Errorf("%s of %q for %q, %+v: %v, want %v", name, in.Completion, c.gold, c.o, got, c.want)
				}
			}
		}
	}
}

func TestRewardNoise(t *testing.T) {
	base := RewardNoise(1, 2, 3, 4)
	if base != RewardNoise(1, 2, 3, 4) {
		t.Fatal("the same coordinates give different noise")
	}
	for name, other := range map[string]float64{
		"seed": RewardNoise(2, 2, 3, 4), "step": RewardNoise(1, 3, 3, 4),
		"prompt": RewardNoise(1, 2, 4, 4), "sample": RewardNoise(1, 2, 3, 5),
	} {
		if other == base {
			t.Errorf("the noise does not depend on the %s", name)
		}
	}
	random, err := lookupReward("random")
	expect.OK(t, err)
	const n = 10000
	sum := 0.0
	for i := range n {
		sum += random(RewardInput{Noise: RewardNoise(7, i/256, i%256/8, i%8)})
	}
	if mean := sum / n; math.Abs(mean-0.5) > 4*0.5/math.Sqrt(n) {
		t.Errorf("mean random reward %.4f, want 0.5 within four standard errors", mean)
	}
}

// TestNoisyVerifier: the errors are those of the draw, at their rates, in every function that decides right or wrong
// and in cosine; other functions and a completion that can't be scored keep their rewards.
func TestNoisyVerifier(t *testing.T) {
	reward := func(name string, n rl.VerifierNoise, in RewardInput) float64 {
		t.Helper()
		p := defaultParams()
		p.Noise, in.MaxTokens = n, 64
		f, err := NewReward(name, p, "")
		expect.OK(t, err)
		return f(in)
	}
	always := rl.VerifierNoise{FalsePositive: 1, FalseNegative: 1}
	right := RewardInput{Completion: "<answer> 12 </answer> \\boxed{12}\n#### 12", Ended: true, Tokens: 20,
		Problem: Problem{Gold: "12"}, VerdictDraw: 1}
	for _, name := range Rewards() {
		wrong := right
		wrong.Problem.Gold = "7"
		if name == "countdown" { // its problems are others
			continue
		}
		changed := reward(name, always, right) != reward(name, rl.VerifierNoise{}, right) ||
			reward(name, always, wrong) != reward(name, rl.VerifierNoise{}, wrong)
		if want := name == "cosine" || slices.Contains(Verifiers(), name); changed != want {
			t.Errorf("noise changes %s: %v, want %v", name, changed, want)
		}
	}
	if got := reward("last_number", always, RewardInput{VerdictDraw: 1}); !math.IsNaN(got) {
		t.Errorf("a problem without a number: %v, want NaN", got)
	}
	const n = 20000
	rates := rl.VerifierNoise{FalsePositive: 0.1, FalseNegative: 0.3}
	for gold, want := range map[string]float64{"12": 0.7, "7": 0.1} {
		in, sum := right, 0.0
		in.Problem.Gold = gold
		for i := range n {
			in.VerdictDraw = VerdictDraw(7, i/256, i%256/8, i%8)
			sum += reward("answer", rates, in)
		}
		if mean := sum / n; math.Abs(mean-want) > 4*math.Sqrt(want*(1-want)/n) {
			t.Errorf("gold %s: mean reward %.4f, want %v within four standard errors", gold, mean, want)
		}
	}
}

// Rewards use the verdict of a completion that has been graded already.
func TestRewardsUseTheVerdict(t *testing.T) {
	for _, name := range []string{"answer", "format"} {
		f, err := NewReward(name, defaultParams(), "")
		expect.OK(t, err)
		in := RewardInput{Completion: "no answer", Ended: true, Problem: Problem{Gold: "12"}}
		if got := f(in); got != 0 {
			t.Errorf("%s without a verdict: %v, want 0", name, got)
		}
		in.Verdict = &Verdict{Formatted: true, Right: true}
		if got := f(in); got != 1 {
			t.Errorf("%s with a verdict: %v, want 1", name, got)
		}
	}
}

func TestNewRewardErrors(t *testing.T) {
	for _, c := range []struct {
		name, reward string
		change       func(*RewardParams)
		want         string
	}{
		{"unknown name", "anser", func(*RewardParams) {}, `did you mean "answer"?`},
		{"negative cache", "soft_overlong", func(p *RewardParams) { p.OverlongCache = -1 }, "make reward function soft_overlong: the cache is -1"},
		{"no n-gram", "repetition", func(p *RewardParams) { p.RepetitionNGrams = 0 }, "n-grams of 0 tokens"},
		{"a penalty that rewards", "repetition", func(p *RewardParams) { p.RepetitionMaxPenalty = 0.5 }, "at most 0"},
		{"penalty NaN", "repetition", func(p *RewardParams) { p.RepetitionMaxPenalty = math.NaN() }, "at most 0"},
		{"infinite penalty", "repetition", func(p *RewardParams) { p.RepetitionMaxPenalty = math.Inf(-1) }, "finite"},
		{"unknown base", "cosine", func(p *RewardParams) { p.CosineCorrect = "r1zero" }, `did you mean "r1_zero"?`},
		{"base without right and wrong", "cosine", func(p *RewardParams) { p.CosineCorrect = "cosine" }, "unknown name"},
		{"negative length", "cosine", func(p *RewardParams) { p.CosineMaxLen = -1 }, "length limit is -1"},
		{"value NaN", "cosine", func(p *RewardParams) { p.CosineMaxWrong = math.NaN() }, "must be finite"},
		{"wrong range upside down", "cosine", func(p *RewardParams) { p.CosineMinWrong = 0 }, "minimum above its maximum"},
		{"right range upside down", "cosine", func(p *RewardParams) { p.CosineMaxCorrect = 0 }, "minimum above its maximum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := defaultParams()
			c.change(&p)
			expect.Error(t, expect.Err(NewReward(c.reward, p, "")), c.want)
			// Parameters are checked only by the rewards that use them.
			if _, err := NewReward("answer", p, ""); err != nil {
				t.Errorf("answer reads the parameters of %s: %v", c.reward, err)
			}
		})
	}
}

func TestNotScorable(t *testing.T) {
	right := RewardInput{Completion: "#### 12", Ended: true, Tokens: 8, MaxTokens: 64, Problem: Problem{Gold: "12"}}
	params := defaultParams()
	lastNumber := params
	lastNumber.CosineCorrect = "last_number"
	for _, c := range []struct {
		name, reward string
		p            RewardParams
		change       func(*RewardInput)
	}{
		{"r1_zero without gold", "r1_zero", params, func(in *RewardInput) { in.Problem.Gold = "" }},
		{"question_only without gold", "question_only", params, func(in *RewardInput) { in.Problem.Gold = "" }},
		{"last_number and a gold that is not a number", "last_number", params, func(in *RewardInput) { in.Problem.Gold = "x+1" }},
		{"soft_overlong without a limit", "soft_overlong", params, func(in *RewardInput) { in.MaxTokens = 0 }},
		{"cosine without a limit", "cosine", params, func(in *RewardInput) { in.MaxTokens = 0 }},
		{"cosine of what is not scorable", "cosine", lastNumber, func(in *RewardInput) { in.Problem.Gold = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fn, err := NewReward(c.reward, c.p, "")
			expect.OK(t, err)
			if got := fn(right); math.IsNaN(got) {
				t.Fatal("a good input is not scorable")
			}
			in := right
			c.change(&in)
			if got := fn(in); !math.IsNaN(got) {
				t.Errorf("got %v, want NaN", got)
			}
		})
	}
}

func TestOpening(t *testing.T) {
	for name, want := range map[string]string{"plain": "", "question_only": "", "r1_zero": "<think>"} {
		tpl, err := LookupTemplate(name)
		expect.OK(t, err)
		if got := tpl.Opening(); got != want {
			t.Errorf("template %s opens the completion with %q, want %q", name, got, want)
		}
		fn, err := NewReward("think_format", RewardParams{}, tpl.Opening())
		expect.OK(t, err)
		written := fn(RewardInput{Completion: "<think>a</think>b"})
		continued := fn(RewardInput{Completion: "a</think>b"})
		if wantWritten := indicator(want == ""); written != wantWritten || continued != 1-wantWritten {
			t.Errorf("template %s: the tag written scores %v, continued %v", name, written, continued)
		}
	}
}

func TestCosineFollowsItsBase(t *testing.T) {
	in := RewardInput{Completion: "</think> <answer>12</answer>", Tokens: 64, MaxTokens: 64, Problem: Problem{Gold: "12"}}
	for base, want := range map[string]float64{"answer": -0.5, "question_only": -0.5, "r1_zero": 0.5, "last_number": 0.5} {
		p := defaultParams()
		p.CosineCorrect = base
		fn, err := NewReward("cosine", p, "")
		expect.OK(t, err)
		if got := fn(in); math.Abs(got-want) > 1e-12 {
			t.Errorf("cosine of %s = %v, want %v", base, got, want)
		}
		p.CosineMaxLen = 128
		fn, err = NewReward("cosine", p, "")
		expect.OK(t, err)
		if got, mid := fn(in), want+math.Copysign(0.25, want); math.Abs(got-mid) > 1e-12 {
			t.Errorf("cosine of %s half-way = %v, want %v", base, got, mid)
		}
	}
}
