package rl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// PairRule says which completions of a group form pairs of a preferred and a dispreferred one.
type PairRule string

const (
	// PairRightWrong pairs right completions (reward above 0) with wrong ones (reward 0 or less) in
	// their order: the first right one with the first wrong one, and so on.
	PairRightWrong PairRule = "right_wrong"
	// PairBestWorst makes one pair: the highest reward against the lowest, the first of equal ones.
	PairBestWorst PairRule = "best_worst"
	// PairLengthControlled pairs right with wrong completions of similar length: the pair with the
	// smallest difference in length first, then the smallest among the rest, and so on; of equal
	// differences the one with the first right completion, then the first wrong one.
	PairLengthControlled PairRule = "length_controlled"
)

// PairRules lists the known rules, the default first.
func PairRules() []string { return names(pairRules...) }

var pairRules = []PairRule{PairRightWrong, PairBestWorst, PairLengthControlled}

// PairOptions are the options of [MakePairs].
type PairOptions struct {
	Rule PairRule
	// PerGroup is the highest number of pairs of a group; 0 = all that the rule allows: the smaller
	// number of right and of wrong completions, and 1 for best_worst.
	PerGroup int
}

// Check returns an error for an unknown rule or an impossible number of pairs.
func (o PairOptions) Check() error {
	switch {
	case o.PerGroup < 0:
		return fmt.Errorf("%d pairs for each group; the number must be at least 0 (0 = all that the rule allows)",
			o.PerGroup)
	case o.Rule == PairBestWorst && o.PerGroup > 1:
		return fmt.Errorf("%d pairs for each group; %s makes one (use %s for more)", o.PerGroup, o.Rule, PairRightWrong)
	}
	return checkName("rule of pairs", o.Rule, pairRules)
}

// Pair is a pair of completions of the same group, as indices into the rewards.
type Pair struct {
	Chosen, Rejected int
	Margin           float64 // difference of their rewards, above 0
}

// MakePairs pairs completions of the same group by their rewards (N), which are ordered by group as in
// [GroupAdvantages]. lengths (N) are numbers of tokens, for length_controlled only. No completion is
// in two pairs. A reward of NaN means "not scorable": it is in no pair. Groups whose rewards are all
// right, all wrong or, for best_worst, all equal have no pair. The pairs are ordered by group.
//
// It returns an error for a number of rewards that groupSize does not divide, an infinite reward, an
// invalid option, or missing lengths.
func MakePairs(rewards []float64, lengths []int, groupSize int, o PairOptions) ([]Pair, error) {
	fail := func(format string, args ...any) ([]Pair, error) { return nil, fmt.Errorf("pairs: "+format, args...) }
	if err := o.Check(); err != nil {
		return fail("%w", err)
	}
	if err := checkGroups(rewards, groupSize); err != nil {
		return fail("%w", err)
	}
	if o.Rule == PairLengthControlled && len(lengths) != len(rewards) {
		return fail("%s needs the length of each of %d completions, got %d", o.Rule, len(rewards), len(lengths))
	}
	var out []Pair
	for lo := 0; lo < len(rewards); lo += groupSize {
		group := o.ofGroup(rewards, lengths, lo, lo+groupSize)
		if o.PerGroup > 0 && len(group) > o.PerGroup {
			group = group[:o.PerGroup]
		}
		for _, p := range group {
			p.Margin = rewards[p.Chosen] - rewards[p.Rejected]
			out = append(out, p)
		}
	}
	return out, nil
}

// ofGroup returns the pairs of completions lo..hi-1, without their margins.
func (o PairOptions) ofGroup(rewards []float64, lengths []int, lo, hi int) []Pair {
	if o.Rule == PairBestWorst {
		return bestWorst(rewards, lo, hi)
	}
	var right, wrong []int
	for i := lo; i < hi; i++ {
		switch {
		case rewards[i] > 0:
			right = append(right, i)
		case rewards[i] <= 0:
			wrong = append(wrong, i)
		}
	}
	if o.Rule == PairLengthControlled {
		return byLength(right, wrong, lengths)
	}
	var out []Pair
	for k := range min(len(right), len(wrong)) {
		out = append(out, Pair{Chosen: right[k], Rejected: wrong[k]})
	}
	return out
}

func bestWorst(rewards []float64, lo, hi int) []Pair {
	best, worst := -1, -1
	for i := lo; i < hi; i++ {
		if math.IsNaN(rewards[i]) {
			continue
		}
		if best < 0 || rewards[i] > rewards[best] {
			best = i
		}
		if worst < 0 || rewards[i] < rewards[worst] {
			worst = i
		}
	}
	if best < 0 || rewards[best] == rewards[worst] {
		return nil
	}
	return []Pair{{Chosen: best, Rejected: worst}}
}

func byLength(right, wrong []int, lengths []int) []Pair {
	var all []Pair
	for _, c := range right {
		for _, r := range wrong {
			all = append(all, Pair{Chosen: c, Rejected: r})
		}
	}
	difference := func(p Pair) int {
		return max(lengths[p.Chosen]-lengths[p.Rejected], lengths[p.Rejected]-lengths[p.Chosen])
	}
	slices.SortStableFunc(all, func(a, b Pair) int { return cmp.Compare(difference(a), difference(b)) })
	var out []Pair
	for _, p := range all {
		if !slices.ContainsFunc(out, func(q Pair) bool { return q.Chosen == p.Chosen || q.Rejected == p.Rejected }) {
			out = append(out, p)
		}
	}
	return out
}
