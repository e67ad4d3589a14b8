package gsm8k

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// Every verdict of the assignment's grader, quirks included; none differs.
func TestGoldenAssignmentGrader(t *testing.T) {
	const file = "drgrpo_grader_cases.json"
	var data struct {
		Cases []struct {
			Fn          string          `json:"fn"`
			Response    string          `json:"response"`
			GroundTruth json.RawMessage `json:"ground_truth"`
			R1Verdict
		} `json:"cases"`
	}
	golden.Decode(t, file, golden.File(t, "golden", file), &data)
	if len(data.Cases) == 0 {
		t.Fatal("no cases")
	}
	graders := map[string]func(string, ...string) R1Verdict{
		"r1_zero_reward_fn":       GradeR1Zero,
		"question_only_reward_fn": GradeQuestionOnly,
	}
	for i, c := range data.Cases {
		t.Run(fmt.Sprintf("%s/%d", c.Fn, i), func(t *testing.T) {
			golds, err := GoldAnswers(c.GroundTruth)
			expect.OK(t, err)
			grade := graders[c.Fn]
			if grade == nil {
				t.Fatalf("unknown function %q", c.Fn)
			}
			if got := grade(c.Response, golds...); got != c.R1Verdict {
				t.Errorf("%s(%q, %s) = %+v, want %+v", c.Fn, c.Response, c.GroundTruth, got, c.R1Verdict)
			}
			// The reward function gives the same, in its own form.
			if name := map[string]string{"r1_zero_reward_fn": "r1_zero", "question_only_reward_fn": "question_only"}[c.Fn]; len(golds) == 1 {
				fn, err := lookupReward(name)
				expect.OK(t, err)
				if got := fn(RewardInput{Completion: c.Response, Problem: Problem{Gold: golds[0]}}); got != c.Reward {
					t.Errorf("reward %s of %q = %v, want %v", name, c.Response, got, c.Reward)
				}
			}
		})
	}
}

func TestGoldenTRLRewards(t *testing.T) {
	const file = "trl_reward_cases.json"
	var data struct {
		SoftOverlong []struct {
			MaxCompletionLen int     `json:"max_completion_len"`
			SoftPunishCache  int     `json:"soft_punish_cache"`
			Length           int     `json:"length"`
			Reward           float64 `json:"reward"`
		} `json:"soft_overlong"`
		Repetition []struct {
			NGramSize  int     `json:"ngram_size"`
			MaxPenalty float64 `json:"max_penalty"`
			IDs        []int   `json:"ids"`
			Reward     float64 `json:"reward"`
		} `json:"repetition"`
		ThinkFormat []struct {
			Text   string  `json:"text"`
			Reward float64 `json:"reward"`
		} `json:"think_format"`
	}
	golden.ReadJSON(t, filepath.Join("testdata", file), &data)
	if len(data.SoftOverlong) == 0 || len(data.Repetition) == 0 || len(data.ThinkFormat) == 0 {
		t.Fatal("a section of the file is empty")
	}
	// Each case uses the named reward function, as in a run.
	check := func(t *testing.T, name string, p RewardParams, opening string, in RewardInput, want float64) {
		t.Helper()
		fn, err := NewReward(name, p, opening)
		expect.OK(t, err)
		if got := fn(in); math.Abs(got-want) > 1e-6+1e-5*math.Abs(want) {
			t.Errorf("%s of %+v with %+v = %v, want %v", name, in, p, got, want)
		}
	}
	for i, c := range data.SoftOverlong {
		t.Run(fmt.Sprintf("soft_overlong/%d", i), func(t *testing.T) {
			p := RewardParams{OverlongCache: c.SoftPunishCache}
			check(t, "soft_overlong", p, "", RewardInput{Tokens: c.Length, MaxTokens: c.MaxCompletionLen}, c.Reward)
		})
	}
	for i, c := range data.Repetition {
		t.Run(fmt.Sprintf("repetition/%d", i), func(t *testing.T) {
			p := RewardParams{RepetitionNGrams: c.NGramSize, RepetitionMaxPenalty: c.MaxPenalty}
			ids := append([]int{}, c.IDs...)
			check(t, "repetition", p, "", RewardInput{TokenIDs: ids, Tokens: len(ids)}, c.Reward)
		})
	}
	for i, c := range data.ThinkFormat {
		t.Run(fmt.Sprintf("think_format/%d", i), func(t *testing.T) {
			check(t, "think_format", RewardParams{}, "", RewardInput{Completion: c.Text}, c.Reward)
			if rest, ok := strings.CutPrefix(c.Text, thinkOpen); ok { // the tag in the prompt instead
				check(t, "think_format", RewardParams{}, thinkOpen, RewardInput{Completion: rest}, c.Reward)
			}
		})
	}
}
