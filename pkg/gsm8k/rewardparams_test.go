package gsm8k

import (
	"math"
	"testing"

	"grpo/internal/expect"
)

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
