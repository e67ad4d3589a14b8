package rl

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestMakePairsByHand(t *testing.T) {
	rewards := []float64{
		0, 1, 1, nan, 0, 0, // right 1, 2; wrong 0, 4, 5
		0, 0, -1, 0, 0, 0, // none right
		0.5, 1, 1, 0, nan, 0, // best 13, worst 15
		nan, nan, nan, nan, nan, nan,
	}
	lengths := []int{9, 3, 5, 1, 5, 2, 1, 1, 1, 1, 1, 1, 4, 7, 4, 7, 4, 5, 1, 1, 1, 1, 1, 1}
	for _, c := range []struct {
		o    PairOptions
		want []Pair
	}{
		{PairOptions{Rule: PairRightWrong}, []Pair{{1, 0, 1}, {2, 4, 1}, {12, 15, 0.5}, {13, 17, 1}}},
		{PairOptions{Rule: PairRightWrong, PerGroup: 1}, []Pair{{1, 0, 1}, {12, 15, 0.5}}},
		{PairOptions{Rule: PairRightWrong, PerGroup: 9}, []Pair{{1, 0, 1}, {2, 4, 1}, {12, 15, 0.5}, {13, 17, 1}}},
		{PairOptions{Rule: PairBestWorst}, []Pair{{1, 0, 1}, {6, 8, 1}, {13, 15, 1}}},
		{PairOptions{Rule: PairBestWorst, PerGroup: 1}, []Pair{{1, 0, 1}, {6, 8, 1}, {13, 15, 1}}},
		{PairOptions{Rule: PairLengthControlled}, []Pair{{2, 4, 1}, {1, 5, 1}, {13, 15, 1}, {12, 17, 0.5}}},
		{PairOptions{Rule: PairLengthControlled, PerGroup: 1}, []Pair{{2, 4, 1}, {13, 15, 1}}},
	} {
		got, err := MakePairs(rewards, lengths, 6, c.o)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v (%v), want %v", c.o, got, err, c.want)
		}
	}
}

func TestMakePairsProperties(t *testing.T) {
	for _, rule := range PairRules() {
		t.Run(rule, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				size, groups := rapid.IntRange(1, 6).Draw(rt, "group size"), rapid.IntRange(1, 4).Draw(rt, "groups")
				rewards := rapid.SliceOfN(rapid.SampledFrom([]float64{-0.5, 0, 0, 0.5, 1, nan}), size*groups, size*groups).Draw(rt, "rewards")
				lengths := rapid.SliceOfN(rapid.IntRange(1, 9), size*groups, size*groups).Draw(rt, "lengths")
				pairs, err := MakePairs(rewards, lengths, size, PairOptions{Rule: PairRule(rule)})
				expect.OK(rt, err)
				used, perGroup, last := map[int]bool{}, make([]int, groups), 0
				for _, p := range pairs {
					g := p.Chosen / size
					if g != p.Rejected/size || g < last || used[p.Chosen] || used[p.Rejected] {
						rt.Fatalf("pair %v is out of order, across groups or uses a completion again: %v", p, pairs)
					}
					if !(p.Margin > 0) || p.Margin != rewards[p.Chosen]-rewards[p.Rejected] {
						rt.Fatalf("margin of %v for rewards %v", p, rewards)
					}
					used[p.Chosen], used[p.Rejected], last = true, true, g
					perGroup[g]++
				}
				for g, n := range perGroup {
					right, wrong, values := 0, 0, map[float64]bool{}
					for _, r := range rewards[g*size : (g+1)*size] {
						if r > 0 {
							right++
						}
						if r <= 0 {
							wrong++
						}
						if r == r {
							values[r] = true
						}
					}
					want := min(right, wrong)
					if PairRule(rule) == PairBestWorst {
						want = min(1, max(len(values)-1, 0))
					}
					if n != want {
						rt.Fatalf("group %d has %d pairs, want %d", g, n, want)
					}
				}
			})
		})
	}
}
