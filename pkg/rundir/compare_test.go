package rundir

import (
	"math"
	"testing"

	"grpo/internal/expect"
)

func TestCompareMetrics(t *testing.T) {
	base := func() []Metrics {
		return []Metrics{
			{Step: 1, Loss: 0.5, Rewards: map[string]Stat{"answer": {0.1, 0.2}}},
			{Step: 2, Loss: math.NaN(), LengthRight: ptr(24.5), Rewards: map[string]Stat{}},
		}
	}
	tests := []struct {
		name   string
		change func(m []Metrics) []Metrics
		want   string // "" = equal
	}{
		{"nothing", func(m []Metrics) []Metrics { return m }, ""},
		{"times", func(m []Metrics) []Metrics { m[0].Time.RolloutS = 3; return m }, ""},
		{"the kind of what is not finite", func(m []Metrics) []Metrics { m[1].Loss = math.Inf(1); return m }, ""},
		{"the last bit", func(m []Metrics) []Metrics { m[0].Loss = math.Nextafter(0.5, 1); return m },
			"line 1 (step 1): loss: 0.5 and 0.5000000000000001"},
		{"the sign of zero", func(m []Metrics) []Metrics { m[1].Entropy = math.Copysign(0, -1); return m },
			"line 2 (step 2): entropy: 0 and -0"},
		{"NaN to a number", func(m []Metrics) []Metrics { m[1].Loss = 1; return m }, "line 2 (step 2): loss: null and 1"},
		{"a null", func(m []Metrics) []Metrics { m[1].LengthRight = nil; return m },
			"completion_length_right: 24.5 and null"},
		{"behind a pointer", func(m []Metrics) []Metrics { m[1].LengthRight = ptr(25.0); return m },
			"completion_length_right: 24.5 and 25"},
		{"in a map", func(m []Metrics) []Metrics { m[0].Rewards["answer"] = Stat{0.1, 0.3}; return m },
			"rewards.answer.std: 0.2 and 0.3"},
		{"a key of a map", func(m []Metrics) []Metrics { m[0].Rewards["format"] = Stat{}; return m },
			`rewards.format: null and {"mean":0,"std":0}`},
		{"nested, not the ignored one", func(m []Metrics) []Metrics { m[0].Reward.Std = 1; return m }, "reward.std: 0 and 1"},
		{"a line more", func(m []Metrics) []Metrics { return append(m, Metrics{Step: 3}) }, "2 lines and 3 lines"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CompareMetrics(base(), tt.change(base()))
			if tt.want == "" {
				expect.OK(t, err)
			} else {
				expect.Error(t, err, tt.want)
			}
		})
	}
}

func TestCompareEvalsAndSamples(t *testing.T) {
	a := []Eval{{Step: 10, Split: SplitVal, Greedy: &Counts{N: 4, CorrectNum: 1}}}
	b := []Eval{{Step: 10, Split: SplitVal, Greedy: &Counts{N: 4, CorrectNum: 2}}}
	expect.OK(t, CompareEvals(a, a))
	expect.Error(t, CompareEvals(a, b), "line 1 (step 10): greedy.correct_num: 1 and 2")
	s := []Sample{{Step: 5, Completion: "#### 12"}}
	u := []Sample{{Step: 5, Completion: "#### 13"}}
	expect.OK(t, CompareSamples(s, s))
	expect.Error(t, CompareSamples(s, u), `completion: "#### 12" and "#### 13"`)
}
