package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"grpo/pkg/plots"
)

// WriteText writes the tables and the conclusions.
func (r AdvantageResult) WriteText(w io.Writer) error {
	p := &page{}
	p.title("Advantages: how much better a completion is than others")
	p.line("local   (r - group mean) / (group std + eps)   GRPO")
	p.line("global  (r - batch mean) / (batch std + eps)   one baseline for all prompts")
	p.line("hybrid  (r - group mean) / (batch std + eps)   Lite PPO")
	p.title("std is the sample std (divisor n-1), eps %s; batch mean %s, batch std %s",
		short(r.Eps), num(r.Mean), num(r.Std))
	columns := func(xs []float64) string {
		return each(xs, " ", func(x float64) string { return fmt.Sprintf("%8s", num(x)) })
	}
	table := [][]string{{"prompt", "mean", "std", "form", "advantages"}}
	for i, x := range r.Prompts {
		table = append(table, []string{x.Name, num(x.Mean), num(x.Std), "rewards", columns(x.Rewards)})
		for _, f := range r.Forms {
			table = append(table, []string{"", "", "", f.Name, columns(f.Advantages[i])})
		}
	}
	p.table("l", table...)
	p.meaning()
	r.writeForms(p)
	if len(r.Nearly) > 0 {
		p.gap()
		r.writeNearly(p)
	}
	return p.writeTo(w)
}

func (r AdvantageResult) writeForms(p *page) {
	zero := 0
	var global []string
	var spread []int // the groups with a std above 0
	for i, x := range r.Prompts {
		if x.Std > 0 {
			spread = append(spread, i)
			continue
		}
		zero++
		if a := r.Forms[1].Advantages[i][0]; a != 0 {
			global = append(global, fmt.Sprintf("%s for \"%s\"", num(a), x.Name))
		}
	}
	if zero > 0 {
		p.point(`%d of the %d groups %s equal rewards (frac_reward_zero_std %s). Under local and hybrid their
			advantages are exactly 0: a group in which no completion did better than another teaches nothing.`,
			zero, len(r.Prompts), plural(zero, "has", "have"), num(r.FracRewardZeroStd))
	}
	if len(global) > 0 {
		p.point(`Under global the same groups do get advantages (%s): each completion is credited or blamed for the
			difficulty of its prompt, not for its own quality.`, strings.Join(global, ", "))
	}
	if len(spread) == 0 {
		return
	}
	byStd := func(a, b int) int { return cmp.Compare(r.Prompts[a].Std, r.Prompts[b].Std) }
	lo, hi := slices.MinFunc(spread, byStd), slices.MaxFunc(spread, byStd)
	best := func(form, group int) string { return num(slices.Max(r.Forms[form].Advantages[group])) }
	if a, b := r.Prompts[lo], r.Prompts[hi]; a.Std < b.Std {
		p.point(`Local divides each group by its own std, so a difference in reward counts more the smaller the std
			is: the best completion of "%s" (std %s) gets %s, the best of "%s" (std %s) gets %s. Hybrid divides all
			groups by the same number, so advantages are proportional to the lead over the group's mean (%s and %s).`,
			a.Name, num(a.Std), best(0, lo), b.Name, num(b.Std), best(0, hi), best(2, lo), best(2, hi))
	}
}

func (r AdvantageResult) writeNearly(p *page) {
	p.title("When the local std does explode: a nearly equal group")
	table := [][]string{{"rewards", "std", "1/(std+eps)", "local", "hybrid", "not divided"}}
	equal, near, failed, odd := r.Nearly[0], r.Nearly[1], r.Nearly[2], r.Odd
	for _, g := range r.Nearly {
		factor, hybrid := "n/a", "n/a"
		if g.Factor > 0 {
			factor = digits(g.Factor, 4)
		}
		if g.Hybrid != nil {
			hybrid = fixed(g.Hybrid[odd], 5)
		}
		table = append(table, []string{
			list(g.Rewards, short), fixed(g.Std, 5), factor, fixed(g.Local[odd], 5), hybrid, fixed(g.Plain[odd], 5),
		})
	}
	p.table("lr", table...)
	p.gap()
	p.paragraph("local, hybrid, not divided: the advantage of completion %d; hybrid within the batch above.", odd)
	p.gap()
	p.point(`Some texts say that GRPO explodes on a group that is all correct, because its std is 0. It does not:
		the numerator is 0 too, and the advantages are %s. Such a group has no effect.`, list(equal.Local, short))
	if near.Factor == 0 {
		p.point("All rewards of your nearly equal group are equal; give --nearly rewards that differ slightly.")
		return
	}
	p.point(`The explosion happens in the nearly equal group. A difference of %s in reward becomes an advantage
		of %s, because it is multiplied by %s; a completion that fails completely gets %s. Noise in the reward (a
		length penalty, a format bonus, rounding) then weighs as much as the answer.`,
		short(round(slices.Max(near.Rewards)-slices.Min(near.Rewards), 9)), num(near.Local[odd]),
		digits(near.Factor, 4), num(failed.Local[odd]))
	hybrid := ""
	if near.Hybrid != nil {
		hybrid = fmt.Sprintf(", and it stays small when divided by the batch's std (%s)", fixed(near.Hybrid[odd], 5))
	}
	p.point(`Without the division the same difference stays small (%s)%s. With only the rewards 0 and 1 a group
		of %d can't be nearly equal: its std is 0 or at least %s.`,
		fixed(near.Plain[odd], 5), hybrid, len(near.Rewards), num(failed.Std))
}

// Figure plots the advantage of the odd completion of a nearly equal group against
// the difference of its reward from the others'.
func (r AdvantageResult) Figure() (fig plots.ExplainFigure, err error) {
	if len(r.Nearly) == 0 {
		return fig, fmt.Errorf("draw advantages: no nearly equal group")
	}
	curves := []plots.ExplainCurve{
		{Name: "divided by the group's std (local)"},
		{Name: "not divided", Style: 1},
		{Name: "divided by the batch's std (hybrid)", Style: 2},
	}
	caption := []string{
		"Divided by its own std, a difference counts the same whatever its size, until it is as small as eps.",
		"A group of equal rewards is not on the axis: its advantages are 0.",
		"Hybrid: within the batch of the table.",
	}
	equal, near := r.Nearly[0].Rewards, r.Nearly[1]
	if near.Hybrid == nil {
		curves, caption = curves[:2], caption[:2]
	}
	sizes := func(g NearlyGroup) []float64 { // of the odd completion's advantage, one for each curve
		var out []float64
		for _, adv := range [][]float64{g.Local, g.Plain, g.Hybrid} {
			if adv != nil {
				out = append(out, math.Abs(adv[r.Odd]))
			}
		}
		return out
	}
	const lo, hi = -8, 0 // powers of ten of the difference
	top := 1.0
	for k := float64(lo); k <= hi; k += 0.1 {
		delta := math.Pow(10, k)
		rewards := slices.Clone(equal)
		rewards[r.Odd] -= delta
		g, err := r.options.nearlyGroup(rewards)
		if err != nil {
			return fig, err
		}
		for i, y := range sizes(g) {
			curves[i].X, curves[i].Y, top = append(curves[i].X, delta), append(curves[i].Y, y), max(top, y)
		}
	}
	p := plots.ExplainPanel{
		XLabel: "difference of the odd reward from the others'", YLabel: "size of its advantage",
		XMin: math.Pow(10, lo), XMax: math.Pow(10, hi), YMin: math.Pow(10, lo-0.5), YMax: 6 * top,
		LogX: true, LogY: true, Curves: curves,
	}
	// The group is a point of the figure if all other rewards are equal.
	usual := near.Rewards[(r.Odd+1)%len(near.Rewards)]
	others := slices.Delete(slices.Clone(near.Rewards), r.Odd, r.Odd+1)
	differs := slices.ContainsFunc(others, func(x float64) bool { return x != usual })
	if d := math.Abs(near.Rewards[r.Odd] - usual); !differs && d >= p.XMin && d <= p.XMax {
		for _, y := range sizes(near) {
			p.Points = append(p.Points, plots.ExplainPoint{X: d, Y: y})
		}
		p.Points[0].Name = list(near.Rewards, short)
	}
	return plots.ExplainFigure{
		Title: "Where dividing by the group's std explodes",
		Setting: fmt.Sprintf("a group of %d, one reward different from the others; sample std, eps %s",
			len(equal), short(r.Eps)),
		Panels:  []plots.ExplainPanel{p},
		Caption: caption,
	}, nil
}
