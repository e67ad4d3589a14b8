package explain

import (
	"fmt"
	"io"
	"math"
)

// WriteText writes the tables and what follows from them.
func (r AdvantageResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Advantages: how much better a completion is than which others")
	p.gap()
	p.line("local   (r - group mean) / (group std + eps)   GRPO")
	p.line("global  (r - batch mean) / (batch std + eps)   one baseline for all prompts")
	p.line("hybrid  (r - group mean) / (batch std + eps)   Lite PPO")
	p.line("std is that of a sample (divisor n-1), eps %s; batch mean %s, batch std %s", short(r.Eps), num(r.Mean), num(r.Std))
	p.gap()
	table := [][]string{{"prompt", "mean", "std", "form", "advantages"}}
	for i, x := range r.Prompts {
		table = append(table, []string{x.Name, num(x.Mean), num(x.Std), "rewards", columns(x.Rewards)})
		for _, f := range r.Forms {
			table = append(table, []string{"", "", "", f.Name, columns(f.Advantages[i])})
		}
	}
	p.table("lllll", table...)
	p.gap()
	p.line("What follows")
	r.writeForms(p)
	if len(r.Nearly) > 0 {
		p.gap()
		r.writeNearly(p)
	}
	return p.err
}

func (r AdvantageResult) writeForms(p *printer) {
	var zero, credited []string
	for i, x := range r.Prompts {
		if x.Std != 0 {
			continue
		}
		zero = append(zero, x.Name)
		if a := r.Forms[1].Advantages[i][0]; a != 0 {
			credited = append(credited, fmt.Sprintf("%s for \"%s\"", num(a), x.Name))
		}
	}
	if len(zero) > 0 {
		p.point("%s of the %d groups %s equal rewards (frac_reward_zero_std %s). Under local and hybrid their advantages are exactly 0: nothing can be learned from a group in which no completion did better than another.",
			fmt.Sprint(len(zero)), len(r.Prompts), has(len(zero)), num(r.FracRewardZeroStd))
	}
	if len(credited) > 0 {
		p.point("Under global the same groups do get advantages (%s): each completion is credited or blamed for how hard its prompt is, not for what it did.", join(credited))
	}
	lo, hi := -1, -1 // the groups of the least and of the largest deviation that is not 0
	for i, x := range r.Prompts {
		if x.Std == 0 || math.IsNaN(x.Std) {
			continue
		}
		if lo < 0 || x.Std < r.Prompts[lo].Std {
			lo = i
		}
		if hi < 0 || x.Std > r.Prompts[hi].Std {
			hi = i
		}
	}
	if lo >= 0 && r.Prompts[lo].Std < r.Prompts[hi].Std {
		p.point("Local divides each group by its own deviation, so that the smaller it is, the more a difference of reward counts: the best completion of \"%s\" (std %s) gets %s, the best of \"%s\" (std %s) %s. Hybrid divides all groups by the same number, so that advantages are in proportion to what the completion won over its group (%s and %s).",
			r.Prompts[lo].Name, num(r.Prompts[lo].Std), num(largest(r.Forms[0].Advantages[lo])),
			r.Prompts[hi].Name, num(r.Prompts[hi].Std), num(largest(r.Forms[0].Advantages[hi])),
			num(largest(r.Forms[2].Advantages[lo])), num(largest(r.Forms[2].Advantages[hi])))
	}
}

func (r AdvantageResult) writeNearly(p *printer) {
	p.line("Where the local std really explodes: a nearly equal group")
	p.gap()
	table := [][]string{{"rewards", "std", "1/(std+eps)", "local", "hybrid", "not divided"}}
	equal, near, failed := r.Nearly[0], r.Nearly[1], r.Nearly[2]
	odd := r.Odd
	for _, g := range r.Nearly {
		factor, hybrid := "n/a", "n/a"
		if g.Factor > 0 {
			factor = digits(g.Factor, 4)
		}
		if g.Hybrid != nil {
			hybrid = fixed(g.Hybrid[odd], 5)
		}
		table = append(table, []string{listShort(g.Rewards), fixed(g.Std, 5), factor, fixed(g.Local[odd], 5), hybrid, fixed(g.Plain[odd], 5)})
	}
	p.table("l", table...)
	p.gap()
	p.say("local, hybrid, not divided: the advantage of completion %d; hybrid within the batch above.", odd)
	p.gap()
	p.point("Some texts say that GRPO explodes on a group that is all right, because its std is 0. It does not: the numerator is 0 as well, and the advantages are %s. Such a group has no effect.", listShort(equal.Local))
	if near.Factor == 0 {
		p.point("All rewards of your nearly equal group are equal; give --nearly one that differs a little.")
		return
	}
	p.point("The explosion is in the group that is nearly equal. A difference of %s in reward becomes an advantage of %s, because it is multiplied by %s; a completion that fails completely gets %s. Noise in the reward (a length penalty, a format bonus, rounding) then weighs as much as the answer.",
		short(round(largest(near.Rewards)-least(near.Rewards), 9)), num(near.Local[odd]), digits(near.Factor, 4), num(failed.Local[odd]))
	p.point("Without the division the same difference stays small (%s)%s. With rewards of 0 and 1 alone a group of %d can't be nearly equal: its std is 0 or at least %s.",
		fixed(near.Plain[odd], 5), hybridClause(near, odd), len(near.Rewards), num(failed.Std))
}

func hybridClause(g NearlyGroup, odd int) string {
	if g.Hybrid == nil {
		return ""
	}
	return fmt.Sprintf(", and dividing by the batch's std leaves it small too (%s)", fixed(g.Hybrid[odd], 5))
}

func largest(xs []float64) float64 {
	out := math.Inf(-1)
	for _, x := range xs {
		out = max(out, x)
	}
	return out
}

func least(xs []float64) float64 {
	out := math.Inf(1)
	for _, x := range xs {
		out = min(out, x)
	}
	return out
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// join lists words in a sentence.
func join(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			out += " and "
		default:
			out += ", "
		}
		out += w
	}
	return out
}
