package gsm8k

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
)

// gradeLimit is the maximum cost of grading, which compares polynomials.
var gradeLimit = untrusted.Limit{Base: 512 << 20, PerByte: 64 << 10, Time: untrusted.Reader.Time}

func FuzzGradeR1Zero(f *testing.F) {
	for _, p := range [][2]string{
		{"a </think> <answer> 72 </answer>", "72"}, {`</think> <answer>\boxed{1/2}</answer>`, "0.5"}, {"</answer></think> <answer>", ""},
		{`so \boxed{\frac12}`, `\boxed{0.5}`}, {"</think> <answer><answer></answer>", "\xff"},
	} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, response, gold string) {
		gradeLimit.Check(t, len(response)+len(gold), func() { checkGraders(t, response, gold) })
	})
}

// checkGraders checks properties of the graders and of every reward function.
func checkGraders(t *testing.T, response, gold string) {
	for _, v := range []R1Verdict{GradeR1Zero(response, gold), GradeQuestionOnly(response, gold)} {
		if v != unformatted && v != formattedWrong && v != formattedRight {
			t.Fatalf("verdict %+v", v)
		}
	}
	// The tag at the end of the prompt does not affect the verdict.
	if a, b := GradeR1Zero(response, gold), GradeR1Zero(thinkOpen+response, gold); a != b {
		t.Fatalf("%+v, but %+v with the prompt's tag", a, b)
	}
	// Every reward function accepts every input.
	in := RewardInput{Completion: response, Tokens: len(response), MaxTokens: 64, Problem: Problem{Gold: gold}}
	for _, name := range Rewards() {
		fn, err := lookupReward(name)
		expect.OK(t, err)
		r := fn(in)
		if math.IsInf(r, 0) || r < -1 || r > 1 {
			t.Fatalf("%s = %v", name, r)
		}
		if again := fn(in); math.Float64bits(again) != math.Float64bits(r) {
			t.Fatalf("%s = %v, and then %v", name, r, again)
		}
	}
}

func FuzzLastNumber(f *testing.F) {
	for _, s := range []string{"12", "-$1,234.50.", "1,2,3", "..5", "1.2.3", "a-7", "\u0661", "9,999,9999", "--,-.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		value, ok := LastNumber(s)
		if ok && !strings.ContainsFunc(s, unicode.IsNumber) || !ok && value != "" {
			t.Fatalf("LastNumber(%q) = %q, %v", s, value, ok)
		}
		if !ok {
			return
		}
		if again, ok := LastNumber("is " + value); !ok || again != value {
			t.Fatalf("%q reads back as %q", value, again)
		}
		if !SameNumber(value, value) {
			t.Fatalf("%q is not a number", value)
		}
	})
}

func FuzzThinkFormat(f *testing.F) {
	for _, s := range []string{
		"<think>a</think>b", "<think>\na\n</think>\nb", "<think></think>", "<think>a</think>b</think>c", "<think>a", "a</think>b",
		"<think>a</think><think>b</think>", "<think>a</think>b<think>", " <think>a</think>b", "</think><think>", "<THINK>a</THINK>b", "",
		"<think><think></think>", "</think>", "<think>", "<think></thin",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts := strings.Split(s, thinkOpen)
		want := len(parts) == 2 && parts[0] == "" && strings.Contains(parts[1], thinkClose)
		if got := ThinkFormat(s); got != want {
			t.Fatalf("ThinkFormat(%q) = %v", s, got)
		}
	})
}

func FuzzGoldAnswers(f *testing.F) {
	for _, s := range []string{`"72"`, `72`, `["a",1e9]`, `[]`, `[[`, `"\ud800"`, ` 1 `, `1 1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		golds, err := GoldAnswers(data)
		if (err == nil) != (len(golds) > 0) {
			t.Fatalf("%q, %v", golds, err)
		}
		if err == nil && !json.Valid(data) {
			t.Fatalf("%q is not JSON, but read as %q", data, golds)
		}
	})
}
