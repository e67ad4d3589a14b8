package rl

import (
	"slices"
	"testing"

	"grpo/internal/expect"
)

func TestTokenAdvantages(t *testing.T) {
	s := Shape{2, 3}
	mask := []bool{true, true, true, true, true, false}
	r := []float64{0, 0, 1, 1, 2, nan}
	check := func(name string, got []float64, err error, want ...float64) {
		t.Helper()
		expect.OK(t, err)
		sameValues(t, name, got, want)
	}
	got, err := ReturnsToGo(s, r, mask, 0.5)
	check("returns", got, err, 0.25, 0.5, 1, 2, 2, 0)
	teacher := []float64{-1, -1, -1, -1, -1, nan}
	student := []float64{-2, -1, -3, -1, -2, nan} // rewards 1 0 2, 0 1
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, false)
	check("minillm", got, err, 1.5, 1, 2, 0.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, true)
	check("minillm, by length", got, err, 1.5/1.75, 1/1.5, 2, 0.5/1.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0, true)
	check("minillm, gamma 0", got, err, 1, 0, 2, 0, 1, 0)
	got, err = KLInReward(s, []float64{10, 20}, student, teacher, mask, K1, 2)
	check("kl in reward", got, err, 10+2*3, 20+2*1)
	got, err = WhitenTokens(s, []float64{1, 1, 3, 3, 2, 99}, mask, 0)
	check("whiten", got, err, -1, -1, 1, 1, 0, 0)
	got, err = WhitenTokens(s, []float64{.1, .1, .1, .1, .1, nan}, mask, 1e-8)
	check("whiten equal values", got, err, 0, 0, 0, 0, 0, 0)
}

func TestPassKAdvantages(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		std     bool
		want    []float64
	}{
		{"best minus second", []float64{1, 4, 2, 3}, false, []float64{0, 1, 0, 0}},
		{"over the std", []float64{1, 0, 0, 0}, true, []float64{2, 0, 0, 0}},
		{"two best", []float64{1, 0, 1, 0}, false, []float64{0, 0, 0, 0}},
		{"flat", []float64{1, 1, 1, 1}, true, []float64{0, 0, 0, 0}},
		{"not scorable", []float64{nan, 3, nan, 1}, false, []float64{0, 2, 0, 0}},
		{"one scorable", []float64{nan, 3, nan, nan}, false, []float64{0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := PassKAdvantages(c.rewards, 4, c.std, 0)
			expect.OK(t, err)
			sameValues(t, "advantages", got, c.want)
		})
	}
	if got, err := PassKAdvantages([]float64{1, 3, 2, 2}, 2, false, 0); err != nil || !slices.Equal(got, []float64{0, 2, 0, 0}) {
		t.Errorf("groups of two: %v, %v", got, err)
	}
}

func TestRewards(t *testing.T) {
	got, err := CombineRewards([][]float64{{1, nan, nan}, {2, 3, nan}}, []float64{1, 0.5})
	expect.OK(t, err)
	sameValues(t, "sum", got, []float64{2, 1.5, nan})
	r := []float64{-3, 0.5, 7, nan}
	ClipRewards(r, -1, 1)
	sameValues(t, "clip", r, []float64{-1, 0.5, 1, nan})
}
